"""Judges a picture: what is wrong, where, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from cdc_core.monitor.picture import ClientKey, Picture
from cdc_core.monitor.sources import NO_ACCOUNT
from cdc_core.monitor.views import ClientView, ClusterView, DestinationView
from cdc_core.monitor.watch import Watch, WatchedTerm

_NEAR = 0.1  # of the time that a source keeps a file


class TroubleKind(StrEnum):
    """What may be wrong. docs/monitor.md and the handbook describe each."""

    CLUSTER = "cluster"
    NO_LEADER = "no_leader"
    FLAPPING = "flapping"
    NO_CLIENT = "no_client"
    CLIENT_LAG = "client_lag"
    BINLOG = "binlog"
    SOURCE = "source"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class AlarmLimits:
    """`binlog` 0: a tenth of the time that the source keeps a file; `lag_bytes` 0: no limit. `changes` of a leader
    within `changes_seconds` are too many."""

    lag: float = 300.0
    lag_bytes: int = 0
    no_client: float = 300.0
    binlog: float = 0.0
    changes: int = 3
    changes_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """`subject` is the destination, the client or the source within the cluster."""

    kind: TroubleKind
    cluster: str
    subject: str
    text: str
    remedy: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.cluster, self.kind, self.subject


@dataclass(frozen=True, slots=True)
class Verdict:
    """`away` are clusters of which nothing is known but that; `unknown` the keys of what could not be judged."""

    troubles: tuple[Trouble, ...] = ()
    away: frozenset[str] = frozenset()
    unknown: frozenset[tuple[str, str, str]] = frozenset()

    def knows(self, key: tuple[str, str, str]) -> bool:
        """Whether a trouble of this key would be seen if it were there."""
        if key[1] in (TroubleKind.CLUSTER, TroubleKind.FLAPPING):
            return True
        return key[0] not in self.away and key not in self.unknown


def judged(picture: Picture, watch: Watch, limits: AlarmLimits) -> Verdict:
    """Returns everything that is wrong, and what could not be judged."""
    troubles: list[Trouble] = []
    unknown: set[tuple[str, str, str]] = set()
    for cluster in picture.clusters:
        troubles += _of_cluster(cluster, watch.connections.get((cluster.name,)), limits)
        troubles += _of_sources(cluster, picture)
    for cluster, destination in picture.destinations():
        seen = watch.destinations.get((cluster.name, destination.name))
        troubles += _of_destination(cluster, destination, seen, limits, picture.at)
    for key, destination, client in picture.clients():
        troubles += _of_client(key, destination, client, picture, watch, limits)
        if picture.lag(key).nbytes is None and client.cursor and not picture.lag(key).purged:
            kinds = TroubleKind.CLIENT_LAG, TroubleKind.BINLOG, TroubleKind.NO_CLIENT
            unknown |= {(key[0], kind, _subject(key)) for kind in kinds}
        if client.source and client.source not in picture.sources:
            unknown.add((key[0], TroubleKind.SOURCE, client.source))
    away = frozenset(one.name for one in picture.clusters if one.away)
    return Verdict(tuple(troubles), away, frozenset(unknown) - {one.key for one in troubles})


def _of_cluster(cluster: ClusterView, seen: WatchedTerm | None, limits: AlarmLimits) -> Iterator[Trouble]:
    name = cluster.name
    if cluster.away:
        remedy = "Start ZooKeeper, or correct --zookeeper. What the cluster does is not known meanwhile."
        yield Trouble(TroubleKind.CLUSTER, name, "ZooKeeper", cluster.away, remedy)
    if seen and len(seen.changes) >= 2 * limits.changes:  # it goes and it comes
        text = f"ZooKeeper went away {len(seen.changes) // 2} times within {_length(limits.changes_seconds)}"
        yield Trouble(TroubleKind.FLAPPING, name, "ZooKeeper", text, "Look at its log and at the network.")
    for problem in cluster.problems:
        yield Trouble(TroubleKind.NODES, name, "the cluster", problem, "Correct the chroot, the account or the node.")


def _of_sources(cluster: ClusterView, picture: Picture) -> Iterator[Trouble]:
    named = {client.source for one in cluster.destinations for client in one.clients if client.source}
    for address in sorted(named):
        source = picture.sources.get(address)
        if source and source.error and source.error != NO_ACCOUNT:
            remedy = (
                "Lags are unknown. The account of the monitor needs REPLICATION CLIENT ON *.* and a way to connect."
            )
            yield Trouble(TroubleKind.SOURCE, cluster.name, address, source.error, remedy)
        elif source and source.halted:
            text = "it is a replica whose replication is halted: rows wait at its own source"
            yield Trouble(TroubleKind.SOURCE, cluster.name, address, text, "SHOW REPLICA STATUS there says why.")


def _of_destination(
    cluster: ClusterView, destination: DestinationView, seen: WatchedTerm | None, limits: AlarmLimits, now: float
) -> Iterator[Trouble]:
    at = cluster.name, destination.name
    if destination.holder is None:
        could = ", ".join(destination.candidates) or "no server"
        remedy = "Look at the logs of its servers. A destination that is retired: delete its node, or --ignore it."
        yield Trouble(TroubleKind.NO_LEADER, *at, f"no server runs it; {could} could", remedy)
    if seen and len(seen.changes) >= limits.changes:
        text = f"it was taken over {len(seen.changes)} times within {_length(limits.changes_seconds)}"
        yield Trouble(TroubleKind.FLAPPING, *at, text, "Look at its servers' logs: the source, ZooKeeper, or memory.")
    if destination.problems:
        text = "; ".join(destination.problems[:3])
        yield Trouble(TroubleKind.NODES, *at, text, "Correct or remove the node; Canal 1.1 did not write it.")
    if not destination.clients and destination.holder and seen and now - seen.since >= limits.no_client:
        yield Trouble(TroubleKind.NO_CLIENT, *at, "no client has subscribed", "Start its consumer.")


def _of_client(
    key: ClientKey,
    destination: DestinationView,
    client: ClientView,
    picture: Picture,
    watch: Watch,
    limits: AlarmLimits,
) -> Iterator[Trouble]:
    cluster, subject = key[0], _subject(key)
    lag, seen = picture.lag(key), watch.clients.get(key)
    if lag.seconds is not None and lag.seconds > limits.lag:
        text = f"it is {_length(lag.seconds)} behind; the limit is {_length(limits.lag)}"
        yield Trouble(TroubleKind.CLIENT_LAG, cluster, subject, text, _SLOW)
    elif limits.lag_bytes and lag.nbytes is not None and lag.nbytes > limits.lag_bytes:
        text = f"{lag.nbytes:,} bytes of binlog wait, of {limits.lag_bytes:,} that may"
        yield Trouble(TroubleKind.CLIENT_LAG, cluster, subject, text, _SLOW)
    if lag.purged:
        yield Trouble(TroubleKind.BINLOG, cluster, subject, lag.why, "Reload its tables, or begin at another position.")
    elif lag.left_seconds is not None and lag.left_seconds < _near(client, picture, limits):
        when = f"within {_length(lag.left_seconds)}" if lag.left_seconds > 0 else "at any time"
        remedy = "Let the client read on, or have the source keep its files longer: docs/guides/managed-mysql.md."
        yield Trouble(TroubleKind.BINLOG, cluster, subject, f"its binlog file may be purged {when}", remedy)
    rests = seen is not None and picture.at - seen.moved >= limits.no_client
    if rests and client.running is None and _waits(lag.nbytes, destination, key, picture):
        text = f"nobody reads it: its cursor has not moved for {_length(picture.at - seen.moved)}" if seen else ""
        yield Trouble(TroubleKind.NO_CLIENT, cluster, subject, text, "Start its consumer, or unsubscribe the client.")


_SLOW = "Look at what the consumer does, and whether its server reads: the server's page, or its log."


def _waits(nbytes: int | None, destination: DestinationView, key: ClientKey, picture: Picture) -> bool:
    """Whether something waits for the client. Where that is not known, a consumer of a Java Canal has to be there."""
    if nbytes is not None or destination.holder is None:
        return bool(nbytes)
    servers = next(one.servers for one in picture.clusters if one.name == key[0])
    return any(one.address == destination.holder.address and not one.http for one in servers)


def _near(client: ClientView, picture: Picture, limits: AlarmLimits) -> float:
    source = picture.sources.get(client.source)
    return limits.binlog or (source.keep * _NEAR if source else 0.0)


def _subject(key: ClientKey) -> str:
    return f"{key[1]}, client {key[2]}"


def _length(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
