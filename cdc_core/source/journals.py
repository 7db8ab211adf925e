"""The server's binlog files: which there are, where the last one ends, and whether a position lies in one of them.

Does not look into journals: that an offset is an event's start shows when the server is asked to dump from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdc_core.errors import PositionError, SourceError
from cdc_core.gtid import Gtids, GtidSet, parse_gtids
from cdc_core.position import EntryPosition, journal_number
from cdc_core.source.connection import Connection, version_of
from cdc_core.source.framing import JOURNAL_START

WAYS_OUT = (
    "Ways out: name a journal that is left (canal.instance.master.journal.name and .position), or none for the current "
    "end, and remove the cursor; then compare with sluice verify. Keep binlogs longer: "
    "SET GLOBAL binlog_expire_logs_seconds = 604800;"
)


@dataclass(frozen=True, slots=True)
class BinaryLog:
    """A journal that the server has."""

    name: str
    size: int


def binary_logs(conn: Connection) -> list[BinaryLog]:
    """Oldest first. Never empty: raises SourceError where the server has none."""
    logs = [BinaryLog(str(row[0]), int(row[1])) for row in _rows(conn, "SHOW BINARY LOGS")]
    if not logs:
        raise SourceError("the server lists no binlog", hint="Put log-bin=mysql-bin into my.cnf and restart it.")
    return logs


def current_end(conn: Connection) -> EntryPosition:
    """The place after the last event that the server wrote."""
    version = version_of(conn)
    modern = not version.mariadb and version.number >= (8, 2, 0)
    rows = _rows(conn, "SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")
    if not rows:
        raise SourceError("the server writes no binlog", hint="Put log-bin=mysql-bin into my.cnf and restart it.")
    gtid = str(rows[0][4]).replace("\n", "") if len(rows[0]) > 4 else ""
    return EntryPosition(str(rows[0][0]), int(rows[0][1]), gtid=gtid)


def check_exists(conn: Connection, position: EntryPosition) -> None:
    """Raises PositionError for a journal that was purged or never was, and for an offset beyond its end."""
    logs = binary_logs(conn)
    oldest, newest = logs[0], logs[-1]
    found = next((log for log in logs if log.name == position.journal_name), None)
    if found is None:
        ours, theirs = position.journal_name.rpartition("."), oldest.name.rpartition(".")
        older = ours[0] == theirs[0] and journal_number(position.journal_name) < journal_number(oldest.name)
        what = "was purged" if older else "is none of the server's"
        raise PositionError(
            f"the journal {position.journal_name} {what}; the server has {oldest.name}:{JOURNAL_START} "
            f"to {newest.name}:{newest.size}",
            place=str(position),
            hint=WAYS_OUT,
        )
    if not JOURNAL_START <= position.position <= max(found.size, JOURNAL_START):
        raise PositionError(
            f"the offset lies beyond the end of {found.name}, which has {found.size} bytes; the oldest position is "
            f"{oldest.name}:{JOURNAL_START}. The server may have lost its last events in a crash, or its binlogs were "
            "reset",
            place=str(position),
            hint=WAYS_OUT,
        )


def check_not_purged(conn: Connection, gtids: GtidSet) -> None:
    """Raises PositionError when the server has purged transactions that `gtids` lacks. MySQL alone can tell; MariaDB
    says so when it is asked for a dump.

    Source: MySQL manual, "gtid_purged"."""
    missing = GtidSet.parse(str(_rows(conn, "SELECT @@GLOBAL.gtid_purged")[0][0])) - gtids
    if missing:
        oldest = binary_logs(conn)[0].name
        raise PositionError(
            f"the transactions {missing} are needed and were purged; the server's oldest position is "
            f"{oldest}:{JOURNAL_START}",
            place=str(gtids),
            hint=WAYS_OUT,
        )


def check_known(conn: Connection, gtids: Gtids) -> None:
    """Raises PositionError when `gtids` has transactions that the server never executed: it would send all its own."""
    variable = "GLOBAL.gtid_executed" if isinstance(gtids, GtidSet) else "gtid_binlog_pos"
    executed = parse_gtids(str(_rows(conn, f"SELECT @@{variable}")[0][0] or ""), version_of(conn).flavor)
    unknown = gtids - executed  # type: ignore[operator]
    if unknown:
        raise PositionError(
            f"the server never executed the transactions {unknown}",
            place=str(gtids),
            hint=f"Correct the set (canal.instance.master.gtid): SELECT @@{variable} shows what the server has. A "
            "replica that lags is asked again.",
        )


def _rows(conn: Connection, statement: str) -> tuple[tuple[Any, ...], ...]:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())
