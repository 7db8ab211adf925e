"""What ZooKeeper says of a cluster, as values, and how they are parsed. Pure.

A Java Canal's nodes and Sluice's have the same form: `cdc_core.ha.running` and `cdc_core.meta.cursors` list them. A
value of another form becomes a problem of its destination; the rest of the cluster is shown all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cdc_core.contract.doors import Doors
from cdc_core.errors import PositionError
from cdc_core.ha.running import CLUSTER, DOORS, Running, destination_path
from cdc_core.position import LogPosition

T = TypeVar("T")

DESTINATIONS = "/otter/canal/destinations"
CLIENT_NODES = ("cursor", "filter", "running", "unsubscribed")
_MALFORMED = (
    PositionError,
    ArithmeticError,
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
_SHOWN = 60  # characters of a value that is not understood
_LONGEST = 300  # characters of an address or a file's name
_LATEST = 1 << 53  # milliseconds: beyond it a float is not exact


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server that is alive. `http` is the URL of a Sluice server's page; empty for a Java Canal's server."""

    address: str
    http: str = ""

    @property
    def kind(self) -> str:
        return "sluice" if self.http else "canal"


@dataclass(frozen=True, slots=True)
class ClientView:
    """A subscribed client. `running` is the consumer that holds its node: Canal's own clients do, Sluice's runs do
    not."""

    client_id: int
    cursor: LogPosition | None = None
    running: Running | None = None
    filter: str = ""

    @property
    def source(self) -> str:
        """The address of the server that the cursor belongs to, or an empty text."""
        return f"{self.cursor.address}:{self.cursor.port}" if self.cursor else ""


@dataclass(frozen=True, slots=True)
class DestinationView:
    """`holder` is the server that runs it, `candidates` all that could. `term` is another number each time that a
    server takes it. `problems`: what of it is not understood."""

    name: str
    holder: Running | None = None
    term: int = 0
    candidates: tuple[str, ...] = ()
    clients: tuple[ClientView, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def standby(self) -> tuple[str, ...]:
        return tuple(one for one in self.candidates if self.holder is None or one != self.holder.address)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`away`: why ZooKeeper gave no answer; then the rest is empty. `problems` are those of no single destination."""

    name: str
    servers: tuple[ServerView, ...] = ()
    destinations: tuple[DestinationView, ...] = ()
    away: str = ""
    problems: tuple[str, ...] = ()


def cluster_of(
    name: str, nodes: Mapping[str, bytes], refused: tuple[str, ...] = (), made: Mapping[str, int] | None = None
) -> ClusterView:
    """Returns the cluster with these nodes, by path. `refused` are paths that the account may not read, `made` the
    transactions that made the nodes."""
    problems: list[str] = []
    servers = tuple(_server(address, nodes, problems) for address in _children(nodes, CLUSTER))
    names = _children(nodes, DESTINATIONS)
    known = tuple(destination_path(one) for one in names)
    problems += [_may_not(path) for path in refused if not _within(path, known)]
    if "/otter/canal" not in nodes and not names and not refused:
        problems.append("no server of Canal or Sluice has written here; is the chroot right?")
    groups = _by_destination(nodes)
    found = tuple(_destination(one, groups[one], refused, made or {}) for one in names)
    return ClusterView(name, servers, found, problems=tuple(problems))


def _children(nodes: Mapping[str, bytes], path: str) -> list[str]:
    prefix = f"{path}/"
    return sorted({one[len(prefix) :].partition("/")[0] for one in nodes if one.startswith(prefix)})


def _by_destination(nodes: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """The nodes of each destination, in one pass over those of very many."""
    prefix, found = f"{DESTINATIONS}/", dict[str, dict[str, bytes]]()
    for path, value in nodes.items():
        if path.startswith(prefix):
            found.setdefault(path[len(prefix) :].partition("/")[0], {})[path] = value
    return found


def _within(path: str, parents: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in parents)


def _server(address: str, nodes: Mapping[str, bytes], problems: list[str]) -> ServerView:
    path = f"{DOORS}/{address}"
    doors = _parsed(path, nodes.get(path), _doors, "a description of doors", problems)
    http = doors.http if doors and doors.http.startswith(("http://", "https://")) else ""
    return ServerView(address, http)


def _destination(
    name: str, nodes: Mapping[str, bytes], refused: tuple[str, ...], made: Mapping[str, int]
) -> DestinationView:
    root = destination_path(name)
    problems = [_may_not(path) for path in refused if _within(path, (root,))]
    holder = _running(f"{root}/running", nodes, problems)
    candidates = tuple(_children(nodes, f"{root}/cluster"))
    numbers = sorted(int(one) for one in _children(nodes, root) if is_client(one))
    clients = tuple(filter(None, (_client(number, f"{root}/{number}", nodes, problems) for number in numbers)))
    return DestinationView(name, holder, made.get(f"{root}/running", 0), candidates, clients, tuple(problems))


def is_client(name: str) -> bool:
    """Whether a child of a destination's node is a client's: Canal's client ids are of 16 bits."""
    return name.isascii() and name.isdigit() and len(name) <= 5 and str(int(name)) == name


def _client(number: int, path: str, nodes: Mapping[str, bytes], problems: list[str]) -> ClientView | None:
    if f"{path}/unsubscribed" in nodes:
        return None
    cursor = _parsed(f"{path}/cursor", nodes.get(f"{path}/cursor"), _cursor, "a cursor", problems)
    holder = _running(f"{path}/running", nodes, problems)
    text = _parsed(f"{path}/filter", nodes.get(f"{path}/filter"), lambda value: value.decode(), "a filter", problems)
    return ClientView(number, cursor, holder, text or "")


def _running(path: str, nodes: Mapping[str, bytes], problems: list[str]) -> Running | None:
    """One whose value is not understood is there all the same: its holder is unknown."""
    value = nodes.get(path)
    found = _parsed(path, value, _strict_running, "a holder", problems)
    return Running("unknown") if found is None and value is not None else found


def _strict_running(value: bytes) -> Running:
    address = json.loads(value)["address"]
    if not isinstance(address, str) or not address:
        raise ValueError(address)
    _check_shown(address)
    return Running.from_json(value)


def _doors(value: bytes) -> Doors:
    found = Doors.from_json(value)
    _check_shown(found.http)
    return found


def _check_shown(text: str) -> None:
    """Raises ValueError for what a terminal would obey, or no page could have."""
    if not text.isprintable() or len(text) > _LONGEST:
        raise ValueError(text)


def _cursor(value: bytes) -> LogPosition:
    found = LogPosition.from_json(value)
    time = found.postion.timestamp
    if not isinstance(time, int | None) or abs(time or 0) > _LATEST or found.postion.position < 0:
        raise ValueError(time)
    for text in (found.address, found.postion.journal_name):
        _check_shown(text)
    return found


def _parsed(path: str, value: bytes | None, parse: Callable[[bytes], T], what: str, problems: list[str]) -> T | None:
    """The value, None without one. What is not understood becomes a problem."""
    if value is None:
        return None
    try:
        return parse(value)
    except _MALFORMED:
        shown = ascii(value[:_SHOWN].decode(errors="replace"))
        problems.append(f"{path} is not {what}: {shown}{'...' if len(value) > _SHOWN else ''}")
        return None


def _may_not(path: str) -> str:
    return f"{path} may not be read by this account (SLUICE_ZK_AUTH)"
