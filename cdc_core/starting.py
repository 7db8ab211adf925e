"""How one destination finds its start: the facts gathered, `start_tree` asked, each decision told in one line; and the
clients brought there.

Keeps between attempts what the tree wants to know of them: errors in a row, and whether the last was a start inside a
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from cdc_core.addresses import master, standby
from cdc_core.binlog.gtid_columns import Executed
from cdc_core.config.models import InstanceConfig
from cdc_core.errors import PositionError, RowsWithoutTable, SourceChanged, SourceError
from cdc_core.gtid import is_set, parse_gtids
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.session.serving import Serving
from cdc_core.source.checks import ServerInfo
from cdc_core.source.connection import Connection
from cdc_core.source.gtid_start import set_at
from cdc_core.source.same_host import same_host
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start_position import Start, find
from cdc_core.source.start_tree import Facts

log = structlog.get_logger(__name__)


class Starting:
    """`told` is the last decision, for the status; None before the first."""

    def __init__(self, config: InstanceConfig, settings: SourceSettings, stopped: Callable[[], bool]) -> None:
        self.told: dict[str, Any] | None = None
        self._config, self._settings, self._stopped = config, settings, stopped
        self._errors = 0
        self._inside = False
        self._flavor = self._identity = ""

    def __repr__(self) -> str:
        return f"<Starting {self._config.destination} errors={self._errors}>"

    def failed(self, error: Exception) -> None:
        """The dump ended, and not because the server was away."""
        self._errors += 1
        self._inside = isinstance(error, RowsWithoutTable)

    def progressed(self) -> None:
        self._errors, self._inside = 0, False

    def executed(self, gtid: str) -> Executed | None:
        """What the GTIDs of blocks are added to; None without GTID mode."""
        return Executed(parse_gtids(gtid, self._flavor)) if self._config.gtid_mode else None

    def check_same(self, server: ServerInfo) -> None:
        """The order of what was read holds as long as the server is the same. Raises SourceChanged."""
        if self._identity != _identity(server):
            raise SourceChanged(
                f"another server answers here: {_identity(server)}, before it was {self._identity}",
                place=self._settings.address,
                hint="What was read and not acked is read again from the new one.",
            )

    def begin(self, conn: Connection, server: ServerInfo, serving: Serving) -> EntryPosition:
        """Finds the start and subscribes every client where it goes on. Raises PositionError, SourceError where GTID
        mode is asked for and the server has none, CursorError."""
        self._flavor, self._identity = server.flavor, _identity(server)
        if self._config.gtid_mode:
            _check_gtid_mode(server)
        serving.server_uuid = self._identity
        kept = {client: self._as_named_here(cursor) for client, cursor in serving.kept_cursors().items()}
        client, history = _furthest_behind(kept)
        known = serving.kept_source(client, history) if history else ""
        found = self._found(conn, server, history, known == self._identity if known else None)
        start = found.position
        if not self._config.gtid_mode:
            start = replace(start, gtid="")  # the server's executed set is not a transaction's GTID
        if found.moved:
            cursors = {client: cursor for client, cursor in kept.items() if cursor is not None}
            serving.move(cursors, start, [c for c, cursor in cursors.items() if self._seamless(start, cursor)])
        for client, cursor in kept.items():
            own = cursor.postion if cursor and found.goes_on else start
            serving.restore(client, self._completed(conn, own))
        return start

    def _as_named_here(self, cursor: LogPosition | None) -> LogPosition | None:
        here = self._settings
        if cursor is None or cursor.port != here.port or not same_host(cursor.address, here.host):
            return cursor
        return replace(cursor, address=here.host)

    def _seamless(self, start: EntryPosition, cursor: LogPosition) -> bool:
        """Whether all that comes from `start` on is new to the client."""
        own = cursor.postion.gtid
        by_set = self._config.gtid_mode and is_set(own)
        return by_set and parse_gtids(start.gtid, self._flavor) == parse_gtids(own, self._flavor)

    def _found(self, conn: Connection, server: ServerInfo, history: LogPosition | None, same: bool | None) -> Start:
        config = self._config
        facts = Facts(
            address=self._settings.address,
            server_id=server.server_id,
            history=history,
            same=same,
            master=master(config),
            standby=standby(config),
            gtid_mode=config.gtid_mode,
            errors=self._errors,
            fallback_seconds=config.fallback_seconds,
            inside=self._inside,
        )
        start = find(conn, self._settings, facts, reset_to_end=config.reset_to_end, stopped=self._stopped)
        start = replace(start, position=self._completed(conn, start.position))
        lost_before = (self.told or {}).get("lost")  # stays on show when the start is looked for again
        self.told = start.to_dict() | ({"lost": lost_before} if lost_before and not start.lost else {})
        tell = log.error if start.lost else log.info
        tell("start position", destination=config.destination, **self.told | {"chosen": str(start.position)})
        return start

    def _completed(self, conn: Connection, position: EntryPosition) -> EntryPosition:
        """In GTID mode with the whole set behind it."""
        if not self._config.gtid_mode or is_set(position.gtid):
            return position
        return replace(position, gtid=str(set_at(conn, self._settings, position, self._stopped)))


def _identity(server: ServerInfo) -> str:
    return server.server_uuid or str(server.server_id)


def _furthest_behind(kept: Mapping[int, LogPosition | None]) -> tuple[int, LogPosition | None]:
    """The client with the smallest cursor, and that one. Raises PositionError for cursors of several servers, which
    have no order."""
    cursors = {client: cursor for client, cursor in kept.items() if cursor is not None}
    if not cursors:
        return 0, None
    addresses = sorted({f"{cursor.address}:{cursor.port}" for cursor in cursors.values()})
    if len(addresses) > 1:
        raise PositionError(
            f"the clients' cursors belong to several servers: {', '.join(addresses)}",
            place=", ".join(f"client {client}: {cursor.postion}" for client, cursor in cursors.items()),
            hint="Set them all to one place: sluice reset ... --moved --all.",
        )
    return min(cursors.items(), key=lambda one: one[1].postion)


def _check_gtid_mode(server: ServerInfo) -> None:
    if server.flavor == "mysql" and server.gtid_mode.upper() != "ON":
        raise SourceError(
            f"gtid_mode is {server.gtid_mode or 'unknown'}, and canal.instance.gtidon asks for GTIDs",
            place=server.address,
            hint="Set gtid_mode = ON and enforce_gtid_consistency = ON in [mysqld] of my.cnf and restart the server, "
            "or set canal.instance.gtidon = false.",
        )
