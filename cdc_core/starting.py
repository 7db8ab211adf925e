"""How one destination finds its start: the facts gathered, `start_tree` asked, each decision told in one line.

Keeps between attempts what the tree wants to know of them: errors in a row, and whether the last was a start inside a
transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from cdc_core.binlog.gtid_columns import Executed
from cdc_core.config.models import InstanceConfig
from cdc_core.errors import PositionError, RowsWithoutTable, SourceError
from cdc_core.gtid import is_set, parse_gtids
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.checks import ServerInfo
from cdc_core.source.connection import Connection
from cdc_core.source.gtid_start import set_at
from cdc_core.source.same_host import same_host
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start_position import Start, find
from cdc_core.source.start_tree import Configured, Facts

_TURNED = (
    "Its journals have other positions than those that were read: go back to the server before, or remove the cursor, "
    "configure canal.instance.master.gtid, and make the tables anew."
)

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
        """In GTID mode: the order of what was read holds as long as the server is the same. Raises SourceError."""
        if self._config.gtid_mode and self._identity != _identity(server):
            raise SourceError(
                f"another server answers here: {_identity(server)}, before it was {self._identity}",
                place=self._settings.address,
                hint=_TURNED,
            )

    def find(self, conn: Connection, server: ServerInfo, history: LogPosition | None) -> Start:
        """Raises PositionError; SourceError where GTID mode is asked for and the server has none."""
        config = self._config
        self._flavor, self._identity = server.flavor, _identity(server)
        if history is not None and history.port == config.port and same_host(history.address, config.host):
            history = replace(history, address=config.host)
        if config.gtid_mode:
            _check_gtid_mode(server)
            _check_address(config, history)
        facts = Facts(
            address=f"{config.host}:{config.port}",
            server_id=server.server_id,
            history=history,
            master=master(config),
            standby=standby(config),
            gtid_mode=config.gtid_mode,
            errors=self._errors,
            fallback_seconds=config.fallback_seconds,
            inside=self._inside,
        )
        start = find(conn, self._settings, facts, reset_to_end=config.reset_to_end, stopped=self._stopped)
        start = replace(start, position=self.completed(conn, start.position))
        lost_before = (self.told or {}).get("lost")  # stays on show when the start is looked for again
        self.told = start.to_dict() | ({"lost": lost_before} if lost_before and not start.lost else {})
        tell = log.error if start.lost else log.info
        tell("start position", destination=config.destination, **self.told | {"chosen": str(start.position)})
        return start

    def completed(self, conn: Connection, position: EntryPosition) -> EntryPosition:
        """In GTID mode with the whole set behind it."""
        if not self._config.gtid_mode or is_set(position.gtid):
            return position
        return replace(position, gtid=str(set_at(conn, self._settings, position, self._stopped)))


def _identity(server: ServerInfo) -> str:
    return server.server_uuid or str(server.server_id)


def _check_gtid_mode(server: ServerInfo) -> None:
    if server.flavor == "mysql" and server.gtid_mode.upper() != "ON":
        raise SourceError(
            f"gtid_mode is {server.gtid_mode or 'unknown'}, and canal.instance.gtidon asks for GTIDs",
            place=server.address,
            hint="Set gtid_mode = ON and enforce_gtid_consistency = ON in [mysqld] of my.cnf and restart the server, "
            "or set canal.instance.gtidon = false.",
        )


def _check_address(config: InstanceConfig, history: LogPosition | None) -> None:
    """A set goes on at another server; the journal and offset that order what is in the lake do not."""
    if history is not None and (history.address, history.port) != (config.host, config.port):
        raise PositionError(
            f"the cursor belongs to another server, {history.address}:{history.port}",
            place=str(history.postion),
            hint=_TURNED,
        )


def master(config: InstanceConfig) -> Configured:
    return Configured(
        f"{config.host}:{config.port}",
        config.journal_name,
        config.position,
        config.timestamp,
        config.gtid,
    )


def standby(config: InstanceConfig) -> Configured | None:
    if not config.standby_address:
        return None
    host, _, port = config.standby_address.partition(":")
    return Configured(
        f"{host}:{port or 3306}",
        config.standby_journal_name,
        config.standby_position,
        config.standby_timestamp,
        config.standby_gtid,
    )
