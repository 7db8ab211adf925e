"""How far each client's cursor is from the oldest binlog file of the server, and when the cursor's file expires.

The server is asked at most once a minute, over its own connection. A file expires when its last event is older
than `binlog_expire_logs_seconds` (MySQL 5.7: `expire_logs_days`); that event is as old as the first of the next file.
Amazon RDS has its own retention, in hours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pymysql
import structlog

from cdc_core.contract.expiry_report import ExpiryReport, Left
from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from cdc_core.source.connection import connect
from cdc_core.source.journals import BinaryLog, binary_logs
from cdc_core.source.retention import Retention, retention
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.time_search import begun

_NEAR = 0.1  # of the time that the server keeps a file

PERIOD = 60.0  # seconds

log = structlog.get_logger(__name__)


def left(
    logs: Sequence[BinaryLog], cursor: EntryPosition, keep: float, begun: Callable[[str], float], now: float
) -> Left | None:
    """None when the server does not have the cursor's file. `keep` is in seconds, 0 for ever; `begun` returns when
    a file was begun, in epoch seconds."""
    names = [log.name for log in logs]
    if cursor.journal_name not in names:
        return None
    at = names.index(cursor.journal_name)
    nbytes = sum(log.size for log in logs[:at]) + cursor.position
    seconds = begun(names[at + 1]) + keep - now if keep and at + 1 < len(names) else None
    return Left(at, nbytes, seconds)


class Expiry:
    """`report` is of the last look, None before the first. `clock` is in epoch seconds."""

    def __init__(self, settings: SourceSettings, clock: Callable[[], float]) -> None:
        self.report: ExpiryReport | None = None
        self._settings = replace(settings, slave_id=0).identified()
        self._clock = clock
        self._looked = -PERIOD
        self._begun: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Expiry {self._settings.address} {self.report}>"

    def look(self, cursors: Mapping[int, EntryPosition]) -> None:
        """Looks at most once a period. A failure is only logged: the dump reports a server that is down."""
        now = self._clock()
        if not cursors or now - self._looked < PERIOD:
            return
        self._looked = now
        try:
            with connect(self._settings) as conn:
                logs, keep = binary_logs(conn), retention(conn)
            lefts = {client: left(logs, at, keep.seconds, self._when, now) for client, at in sorted(cursors.items())}
        except (SluiceError, pymysql.err.MySQLError) as error:
            log.info("binlog files cannot be listed", source=self._settings.address, why=str(error))
            return
        before = self.report.warning if self.report else None
        warning = warning_of(lefts, keep, logs[0].name)
        self.report = ExpiryReport(logs[0].name, keep.seconds or None, lefts, warning, keep.twice)
        if self.report.warning not in (None, before):
            log.warning("binlog expiry", source=self._settings.address, warning=self.report.warning)

    def _when(self, journal: str) -> float:
        if journal not in self._begun:
            self._begun[journal] = begun(self._settings, journal)
        return self._begun[journal]


def warning_of(lefts: Mapping[int, Left | None], keep: Retention, oldest: str) -> str | None:
    for client, found in lefts.items():
        if found is None:
            return f"the cursor of client {client} lies in no journal that is left; the oldest is {oldest}"
        if found.seconds is not None and found.seconds < keep.seconds * _NEAR:
            when = f"in {found.seconds / 3600:.1f} h" if found.seconds > 0 else "at the next rotation"
            longer = f", or keep journals longer ({keep.twice})" if keep.twice else ""
            return f"the journal of client {client}'s cursor may be purged {when}: drain it{longer}"
    return None
