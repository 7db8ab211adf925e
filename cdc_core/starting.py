"""How one destination finds its start: the facts gathered, `start_tree` asked, each decision told in one line.

Keeps between attempts what the tree wants to know of them: errors in a row, and whether the last was a start inside a
transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from cdc_core.config.models import InstanceConfig
from cdc_core.errors import RowsWithoutTable
from cdc_core.position import LogPosition
from cdc_core.source.connection import Connection
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start_position import Start, find
from cdc_core.source.start_tree import Configured, Facts

log = structlog.get_logger(__name__)


class Starting:
    """`told` is the last decision, for the status; None before the first."""

    def __init__(self, config: InstanceConfig, settings: SourceSettings, stopped: Callable[[], bool]) -> None:
        self.told: dict[str, Any] | None = None
        self._config, self._settings, self._stopped = config, settings, stopped
        self._errors = 0
        self._inside = False

    def __repr__(self) -> str:
        return f"<Starting {self._config.destination} errors={self._errors}>"

    def failed(self, error: Exception) -> None:
        """The dump ended, and not because the server was away."""
        self._errors += 1
        self._inside = isinstance(error, RowsWithoutTable)

    def progressed(self) -> None:
        self._errors, self._inside = 0, False

    def find(self, conn: Connection, server_id: int, history: LogPosition | None) -> Start:
        """Raises PositionError."""
        config = self._config
        facts = Facts(
            address=f"{config.host}:{config.port}",
            server_id=server_id,
            history=history,
            master=master(config),
            standby=standby(config),
            errors=self._errors,
            fallback_seconds=config.fallback_seconds,
            inside=self._inside,
        )
        start = find(conn, self._settings, facts, reset_to_end=config.reset_to_end, stopped=self._stopped)
        lost_before = (self.told or {}).get("lost")  # stays on show when the start is looked for again
        self.told = start.to_dict() | ({"lost": lost_before} if lost_before and not start.lost else {})
        tell = log.error if start.lost else log.info
        tell("start position", destination=config.destination, **self.told | {"chosen": str(start.position)})
        return start


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
