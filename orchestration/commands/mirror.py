"""`sluice mirror`: applies a destination to another MySQL, MariaDB or PostgreSQL, by Canal's protocol."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import structlog

from cdc_core.canal.client import CanalConnector, Consumer, Policy
from cdc_core.canal.mirror.mirror import Mirror
from cdc_core.canal.mirror.mysql import MySql
from cdc_core.canal.mirror.postgresql.server import PostgreSql
from cdc_core.canal.mirror.rules import read_rules
from cdc_core.canal.mirror.target import Server, Target
from cdc_core.errors import ConfigError, SourceUnavailable
from orchestration.commands.consume import connector_of

_KINDS: dict[str, tuple[Callable[..., Server], int]] = {
    "mysql": (MySql, 3306),
    "mariadb": (MySql, 3306),
    "postgresql": (PostgreSql, 5432),
}
_PAUSE_SECONDS = 5.0
_PLACE = re.compile(r".+\.\d+:\d+")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the changes come from."""

    destination: str
    address: str
    zookeeper: str
    client_id: int
    user: str
    password: str


def run(
    source: Source,
    rules_folder: Path,
    target: str,
    password: str,
    batch_size: int,
    batches: int | None,
    done: Collection[str] = (),
    *,
    as_json: bool,
) -> int:
    """Until Ctrl-C, or after so many batches. `done`: places of statements that were run by hand."""
    _check_places(done)
    rules = read_rules(rules_folder, source.destination)
    sink = Target(server_of(target, password), source.destination, source.client_id)
    sink.open()
    mirror, policy = Mirror(rules, sink, done), Policy(batch_size=batch_size)
    left = batches
    try:
        while left is None or left > 0:
            left = _mirrored(lambda: _connector(source, rules.filter), mirror, policy, left, _show(as_json))
    except KeyboardInterrupt:
        pass
    finally:
        sink.close()
    if as_json:
        print(json.dumps({"rows": mirror.rows, "statements": mirror.statements}))
    return 0


def _mirrored(
    connect: Callable[[], CanalConnector], mirror: Mirror, policy: Policy, left: int | None, show: Callable[[str], None]
) -> int | None:
    """Mirrors up to `left` batches. Returns the number left when the target went away, or when all are done."""
    done = 0

    def count(line: str) -> None:
        nonlocal done
        done += 1
        show(line)

    try:
        with connect() as connector:
            Consumer(connector, mirror, policy, tell=count).run(batches=left)
    except SourceUnavailable as error:
        log.warning("the mirror waits for its target", **error.as_dict())
        time.sleep(_PAUSE_SECONDS)
    return None if left is None else left - done


def _check_places(places: Collection[str]) -> None:
    """Raises ConfigError for one that no statement can have."""
    for place in places:
        if not _PLACE.fullmatch(place):
            hint = "Give journal:position as the error about the statement names it: mysql-bin.000003:4711."
            raise ConfigError("not the position of a statement", place=f"--done {place}", hint=hint)


def server_of(target: str, password: str) -> Server:
    """The server at `mysql://user@host:port/database`, or `postgresql://...`. Raises ConfigError for another form."""
    try:
        parts = urlsplit(target)
        given = parts.port
    except ValueError:
        parts, given = urlsplit(""), None
    database, kind = unquote(parts.path.strip("/")), _KINDS.get(parts.scheme)
    if kind is None or not (parts.hostname and parts.username and database):
        hint = "Give mysql://user@host:port/database, or postgresql://...; the password is in SLUICE_MIRROR_PASSWORD."
        raise ConfigError("the target's address is malformed", place="--target", hint=hint)
    made, port = kind
    user, secret = unquote(parts.username), password or unquote(parts.password or "")
    return made(parts.hostname, given or port, user, database, secret)


def _connector(source: Source, filter_text: str) -> CanalConnector:
    place = source.address, source.zookeeper, source.destination
    return connector_of(*place, source.client_id, source.user, source.password, filter_text)


def _show(as_json: bool) -> Callable[[str], None]:
    return (lambda _: None) if as_json else print
