"""The server's binlog files: their list, the current end, and whether a position or a GTID set is among them.

Does not read the files: only a dump shows whether an offset is the start of an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdc_core.errors import BEGIN_ANEW, PositionError, PositionPurged, SourceError
from cdc_core.gtid import Gtids, GtidSet, parse_gtids
from cdc_core.position import JOURNAL_START, EntryPosition, journal_base, journal_number
from cdc_core.source.connection import Connection, connected, version_of
from cdc_core.source.settings import SourceSettings

_KEEP_LONGER = "Keep binlogs longer: SET GLOBAL binlog_expire_logs_seconds = 604800;"


@dataclass(frozen=True, slots=True)
class BinaryLog:
    """A binlog file of the server; `size` in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Journals:
    """All binlog files, oldest first, as one range of bytes. `end` is the server's current end, with its executed
    GTID set if it has one."""

    logs: tuple[BinaryLog, ...]
    end: EntryPosition

    def index(self, position: EntryPosition) -> int | None:
        """The number of files older than the position's; None when the server does not have that file."""
        return next((at for at, log in enumerate(self.logs) if log.name == position.journal_name), None)

    def offset(self, position: EntryPosition) -> int | None:
        """Bytes from the start of the oldest file; None when the server does not have the position's file."""
        at = self.index(position)
        return None if at is None else sum(log.size for log in self.logs[:at]) + position.position

    def distance(self, low: EntryPosition, high: EntryPosition) -> int | None:
        """Bytes from `low` to `high`, negative when `high` comes first; None when a file is not there."""
        first, last = self.offset(low), self.offset(high)
        return None if first is None or last is None else last - first


def read_journals(conn: Connection) -> Journals:
    end = current_end(conn)  # before the list, so that the list contains the end
    return Journals(tuple(binary_logs(conn)), end)


def list_journals(settings: SourceSettings) -> list[BinaryLog]:
    """`binary_logs` over its own connection."""
    with connected(settings) as conn:
        return binary_logs(conn)


def binary_logs(conn: Connection) -> list[BinaryLog]:
    """The server's files, oldest first. Raises SourceError when there are none."""
    logs = [BinaryLog(str(row[0]), int(row[1])) for row in _rows(conn, "SHOW BINARY LOGS")]
    if not logs:
        raise SourceError("the server lists no binlog", hint="Put log-bin=mysql-bin into my.cnf and restart it.")
    return logs


def current_end(conn: Connection) -> EntryPosition:
    """The position after the last event in the server's binlog, with the executed GTID set if there is one."""
    version = version_of(conn)
    modern = not version.mariadb and version.number >= (8, 2, 0)
    rows = _rows(conn, "SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")
    if not rows:
        raise SourceError("the server writes no binlog", hint="Put log-bin=mysql-bin into my.cnf and restart it.")
    gtids = GtidSet.parse(str(rows[0][4])) if len(rows[0]) > 4 else None
    return EntryPosition(str(rows[0][0]), int(rows[0][1]), gtid=gtids or None)


def check_there(conn: Connection, position: EntryPosition, executed: Gtids | None) -> None:
    """Raises PositionPurged when the server has purged what follows a position that was read before; after the set
    `executed`, where reading is by GTID."""
    if isinstance(executed, GtidSet):
        check_not_purged(conn, executed)
    elif executed is None:
        oldest = binary_logs(conn)[0].name
        if is_older(position.journal_name, oldest):
            raise PositionPurged(
                f"the journal {position.journal_name} was purged; the oldest is {oldest}",
                place=str(position),
                hint=f"{BEGIN_ANEW} {_KEEP_LONGER}",
            )


def check_exists(conn: Connection, position: EntryPosition) -> None:
    """Raises PositionError when the server does not have the journal, or the offset lies beyond its end; PositionPurged
    for a journal that is older than all that it has."""
    logs = binary_logs(conn)
    oldest, newest = logs[0], logs[-1]
    found = next((log for log in logs if log.name == position.journal_name), None)
    if found is None:
        older = is_older(position.journal_name, oldest.name)
        what = "was purged" if older else "is unknown to the server"
        kind, more = (PositionPurged, _KEEP_LONGER) if older else (PositionError, "")
        raise kind(
            f"the journal {position.journal_name} {what}; the server has {oldest.name}:{JOURNAL_START} "
            f"to {newest.name}:{newest.size}",
            place=str(position),
            hint=f"{BEGIN_ANEW} {more}".rstrip(),
        )
    if not JOURNAL_START <= position.position <= max(found.size, JOURNAL_START):
        raise PositionError(
            f"the offset lies beyond the end of {found.name}, which has {found.size} bytes; the oldest position is "
            f"{oldest.name}:{JOURNAL_START}. The server may have lost its last events in a crash, or its binlogs were "
            "reset",
            place=str(position),
            hint=BEGIN_ANEW,
        )


def purged_gtids(conn: Connection) -> GtidSet:
    """What MySQL executed and has in no journal: it was purged, or the server was provisioned with it."""
    return GtidSet.parse(str(_rows(conn, "SELECT @@GLOBAL.gtid_purged")[0][0] or ""))


def check_not_purged(conn: Connection, gtids: GtidSet) -> None:
    """Raises PositionPurged when the server has purged transactions that are not in `gtids`. For MySQL; MariaDB refuses
    such a dump itself.

    Source: MySQL manual, "gtid_purged"."""
    missing = purged_gtids(conn) - gtids
    if missing:
        oldest = binary_logs(conn)[0].name
        raise PositionPurged(
            f"the transactions {missing} are needed and were purged; the server's oldest position is "
            f"{oldest}:{JOURNAL_START}",
            place=str(gtids),
            hint=f"{BEGIN_ANEW} {_KEEP_LONGER}",
        )


def check_known(conn: Connection, gtids: Gtids) -> None:
    """Raises PositionError when `gtids` contains transactions that the server never executed: a dump would then send
    everything that it has."""
    variable = "GLOBAL.gtid_executed" if isinstance(gtids, GtidSet) else "gtid_binlog_pos"
    executed = parse_gtids(str(_rows(conn, f"SELECT @@{variable}")[0][0] or ""), version_of(conn).flavor)
    unknown = gtids - executed  # type: ignore[operator]
    if unknown:
        raise PositionError(
            f"the server never executed the transactions {unknown}",
            place=str(gtids),
            hint=f"If this server is a replica that lags, wait: the destination tries again. Otherwise correct the set "
            f"(canal.instance.master.gtid): SELECT @@{variable} shows what the server has.",
        )


def is_older(name: str, than: str) -> bool:
    """Whether a journal comes before another one of the same base name."""
    return journal_base(name) == journal_base(than) and journal_number(name) < journal_number(than)


def _rows(conn: Connection, statement: str) -> tuple[tuple[Any, ...], ...]:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())
