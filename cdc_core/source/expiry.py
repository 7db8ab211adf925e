"""How far each client's cursor is from the oldest binlog file that the server keeps, and when its own file goes.

Asked of the server no more than once a minute, over a connection of its own. A file goes when its last event is older
than `binlog_expire_logs_seconds` (MySQL 5.7: `expire_logs_days`); its last event is as old as the next file's first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pymysql
import structlog

from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection, connect
from cdc_core.source.journals import BinaryLog, binary_logs
from cdc_core.source.settings import SourceSettings
from cdc_core.source.time_search import begun

PERIOD = 60.0  # seconds
_NEAR = 0.1  # of the time that the server keeps a file

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Left:
    """`files` and `bytes` between the oldest file's start and the cursor; `seconds` until the cursor's file may go,
    None while it is the newest, or is kept for ever."""

    files: int
    bytes: int
    seconds: float | None


def left(
    logs: Sequence[BinaryLog], cursor: EntryPosition, keep: float, begun: Callable[[str], float], now: float
) -> Left | None:
    """None for a cursor in none of the files. `keep` is in seconds, 0 for ever; `begun` tells when a file was."""
    names = [log.name for log in logs]
    if cursor.journal_name not in names:
        return None
    at = names.index(cursor.journal_name)
    nbytes = sum(log.size for log in logs[:at]) + cursor.position
    seconds = begun(names[at + 1]) + keep - now if keep and at + 1 < len(names) else None
    return Left(at, nbytes, seconds)


class Expiry:
    """`told` is the last look, for the status. `clock` is in epoch seconds."""

    def __init__(self, settings: SourceSettings, clock: Callable[[], float]) -> None:
        self.told: dict[str, Any] | None = None
        self._settings = replace(settings, slave_id=0).identified()
        self._clock = clock
        self._looked = -PERIOD
        self._begun: dict[str, float] = {}
        self._lefts: dict[int, Left | None] = {}

    def __repr__(self) -> str:
        return f"<Expiry {self._settings.address} {self._lefts}>"

    def look(self, cursors: Mapping[int, EntryPosition]) -> None:
        """At most once a period. What cannot be asked now is asked later: the dump tells that the server is away."""
        now = self._clock()
        if not cursors or now - self._looked < PERIOD:
            return
        self._looked = now
        try:
            with connect(self._settings) as conn:
                logs, keep = binary_logs(conn), kept_seconds(conn)
            self._lefts = {client: left(logs, at, keep, self._when, now) for client, at in sorted(cursors.items())}
        except (SluiceError, pymysql.err.MySQLError) as error:
            log.info("binlog files cannot be listed", source=self._settings.address, why=str(error))
            return
        warning = _warning(self._lefts, keep, logs[0].name)
        if warning and warning != (self.told or {}).get("warning"):
            log.warning("binlog expiry", source=self._settings.address, warning=warning)
        clients = {str(client): asdict(found) if found else None for client, found in self._lefts.items()}
        self.told = {"oldest": logs[0].name, "keep_seconds": keep or None, "clients": clients, "warning": warning}

    def metrics(self) -> dict[str, float | None]:
        """Of the client that is nearest to the oldest file."""
        found = [one for one in self._lefts.values() if one is not None]
        return {
            "binlog_files_left": min((one.files for one in found), default=None),
            "binlog_bytes_left": min((one.bytes for one in found), default=None),
            "binlog_seconds_left": min((one.seconds for one in found if one.seconds is not None), default=None),
        }

    def _when(self, journal: str) -> float:
        if journal not in self._begun:
            self._begun[journal] = begun(self._settings, journal)
        return self._begun[journal]


def kept_seconds(conn: Connection) -> float:
    """How long the server keeps a file, in seconds; 0 for ever."""
    names = "'binlog_expire_logs_seconds', 'expire_logs_days', 'binlog_expire_logs_auto_purge'"
    with conn.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        found = {str(name): str(value) for name, value in cursor.fetchall()}
    if found.get("binlog_expire_logs_auto_purge", "ON").upper() == "OFF":
        return 0
    days = float(found.get("expire_logs_days", 0)) * 86400
    return float(found.get("binlog_expire_logs_seconds", 0)) or days


def _warning(lefts: Mapping[int, Left | None], keep: float, oldest: str) -> str | None:
    for client, found in lefts.items():
        if found is None:
            return f"the cursor of client {client} lies in no journal that is left; the oldest is {oldest}"
        if found.seconds is not None and found.seconds < keep * _NEAR:
            when = f"in {found.seconds / 3600:.1f} h" if found.seconds > 0 else "at the next rotation"
            return (
                f"the journal of client {client}'s cursor may be purged {when}: drain it, or keep journals longer "
                f"(SET GLOBAL binlog_expire_logs_seconds = {int(keep * 2)};)"
            )
    return None
