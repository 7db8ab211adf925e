"""The journals that a server has, as one stretch of bytes: how far two places in it are apart. Pure but for `ask`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pymysql

from cdc_core.errors import PositionError
from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection, connect, source_error
from cdc_core.source.journals import BinaryLog, binary_logs, current_end
from cdc_core.source.settings import SourceSettings

_HEAD_EVENTS = 4  # Previous_gtids follows the format description


@dataclass(frozen=True, slots=True)
class Journals:
    """`logs`: oldest first. `end`: where the server writes, with its executed GTIDs where it has such."""

    logs: tuple[BinaryLog, ...]
    end: EntryPosition

    def index(self, position: EntryPosition) -> int | None:
        """How many journals are older than the position's; None for one that is not there."""
        return next((at for at, log in enumerate(self.logs) if log.name == position.journal_name), None)

    def offset(self, position: EntryPosition) -> int | None:
        """Bytes from the start of the oldest journal; None for a journal that is not there."""
        at = self.index(position)
        return None if at is None else sum(log.size for log in self.logs[:at]) + position.position

    def between(self, low: EntryPosition, high: EntryPosition) -> int | None:
        """Bytes from `low` to `high`, below 0 when `high` comes first."""
        first, last = self.offset(low), self.offset(high)
        return None if first is None or last is None else last - first


def ask(conn: Connection) -> Journals:
    end = current_end(conn)  # first: the list is then as long at least
    return Journals(tuple(binary_logs(conn)), end)


@contextmanager
def asking(settings: SourceSettings) -> Iterator[Connection]:
    """A connection of its own, its errors in our words."""
    try:
        with connect(settings) as conn:
            yield conn
    except (pymysql.err.MySQLError, OSError) as error:
        raise source_error(error, settings) from error


def gtids_before(conn: Connection, journal_name: str) -> str:
    """The set that was executed before a journal began; empty where it does not tell."""
    with conn.cursor() as cursor:
        cursor.execute("SHOW BINLOG EVENTS IN %s LIMIT %s", (journal_name, _HEAD_EVENTS))
        events = cursor.fetchall()
    return next((str(event[5]).replace("\n", "") for event in events if event[2] == "Previous_gtids"), "")


def transactions_after(gtid: str, executed: str, before: Callable[[], str]) -> int | None:
    """Transactions after `gtid`, out of all `executed`; None where GTIDs do not tell.

    A set (GTID mode) tells always. Of one transaction's GTID `before` asks for the set before its journal; it tells
    while one server alone wrote since: the order of several servers' transactions is not in their numbers.
    """
    if not gtid or not executed:
        return None
    try:
        known, all_of = GtidSet.parse(gtid), GtidSet.parse(executed)
        if len(known) > 1:
            return len(all_of - known)
        ((source, ((number, _),)),) = known.parts
        written = all_of - GtidSet.parse(before())
    except PositionError:  # MariaDB's
        return None
    if any(other != source for other, _ in written.parts):
        return None
    return sum(max(0, high - max(low, number + 1)) for _, intervals in written.parts for low, high in intervals)
