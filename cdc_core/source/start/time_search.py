"""The start of the last transaction before a time, or of the first one of its second, found in the server's files.

Bisection finds the file: the first event of each says when it was begun, and reading it costs a connection. Then the
headers are read, up to the first later transaction; if there is none to start from, those of the file before. Times are
in whole seconds, from the events' headers; a replica's files keep the times of its source.

A clock that was set back gives a time twice, and the first one counts: what came after it is not skipped. So the files
that were begun in the day before are asked too: one that begins later than the time ends the search in front of it. And
the headers of the last of them, so many bytes, are read from the oldest on.

Source: Canal's `MysqlEventParser.findByStartTimeStamp`, which reads the files one by one from the last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pymysql

from cdc_core.binlog.events import GTIDS, EventType
from cdc_core.errors import PositionError, SourceUnavailable
from cdc_core.position import JOURNAL_START, EntryPosition
from cdc_core.source.connection import connect, source_error, version_of
from cdc_core.source.dump_command import begin_dump
from cdc_core.source.journal_range import read_range
from cdc_core.source.journals import BinaryLog, binary_logs, check_exists, list_journals
from cdc_core.source.settings import SourceSettings

_REMEDY = "Correct the timestamp, in milliseconds since the epoch, or name a journal that SHOW BINARY LOGS lists."
_FOREVER = (1 << 32) - 1
_DAY = 86400
_BEFORE = 256 << 20  # bytes of earlier files whose headers are read too


def never() -> bool:
    """A `stopped` that never stops."""
    return False


def find_by_time(
    settings: SourceSettings,
    timestamp: int,
    journal: str = "",
    stopped: Callable[[], bool] = never,
    before: int = _BEFORE,
) -> EntryPosition:
    """`timestamp` is in milliseconds since the epoch. With `journal`, only that file is searched, and its start is the
    answer when all its transactions are later. `before`: so many bytes of earlier files are searched, for a clock that
    was set back within one of them.

    Raises PositionError when the time is before the first file or in the future; SourceError, SourceUnavailable.
    """
    # One id for all dumps: each ends what is left of the one before.
    own = replace(settings, slave_id=0, by_gtid=False).identified()
    seconds, logs, place = timestamp // 1000, _logs_until(own, timestamp, journal), None
    first = 0
    if not journal:
        first, end = _searched(own, logs, seconds, before)
        logs = logs[:end]
        if not logs:
            raise _too_old(own, timestamp)
    for log in logs[first:]:
        found, is_met = _last_start(own, log.name, log.size, seconds, stopped)
        place = found or place
        if is_met:
            break
    for log in reversed(logs[:first]):
        if place is not None:
            break
        place, _ = _last_start(own, log.name, log.size, seconds, stopped)
    return place or EntryPosition(logs[0].name, JOURNAL_START)


def _searched(settings: SourceSettings, logs: Sequence[BinaryLog], seconds: int, before: int) -> tuple[int, int]:
    """The first file to search, and the one to end in front of."""
    known: dict[str, int] = {}

    def begun_at(log: BinaryLog) -> int:
        if log.name not in known:
            known[log.name] = begun(settings, log.name)
        return known[log.name]

    first = end = bisect_right(logs, seconds, key=begun_at)
    while first and (first == end or begun_at(logs[first]) >= seconds - _DAY):
        first -= 1
        if begun_at(logs[first]) > seconds:  # the clock was set back after it
            end = first
    while first < end - 1 and sum(log.size for log in logs[first : end - 1]) > before:
        first += 1
    return first, end


def transaction_start(
    settings: SourceSettings, position: EntryPosition, stopped: Callable[[], bool] = never
) -> EntryPosition:
    """The start of the transaction that contains `position` or starts there; else the start of the journal.

    Source: Canal's `MysqlEventParser.findTransactionBeginPosition`. No transaction spans two files.
    """
    name = position.journal_name
    sizes = {log.name: log.size for log in list_journals(settings)}
    found, _ = _last_start(settings, name, sizes.get(name), _FOREVER, stopped, position.position)
    return found or EntryPosition(name, JOURNAL_START)


def _last_start(
    settings: SourceSettings,
    journal: str,
    end: int | None,
    until: int,
    stopped: Callable[[], bool],
    offset: int | None = None,
) -> tuple[EntryPosition | None, bool]:
    """The start of the transaction for second `until`, of those that do not begin beyond `offset`, and whether one that
    is not earlier, or beyond it, was met. Reads up to `end`."""
    found = None
    with closing(read_range(settings, EntryPosition(journal, JOURNAL_START), end, stopped)) as blocks:
        for block in blocks:
            index = block.index
            if not len(index):
                continue
            rows = np.flatnonzero(GTIDS[index["type"]])  # the times of other events do not count
            begins = np.concatenate([[block.start], index["end"][:-1]])[rows]
            within = len(rows) if offset is None else int(np.searchsorted(begins, offset, side="right"))
            at, is_met = of_second(index["timestamp"][rows[:within]], until)
            if at >= 0:
                found = EntryPosition(journal, int(begins[at]), int(index["timestamp"][rows[at]]) * 1000)
            if is_met or within < len(rows):
                return found, True
    return found, False


def of_second(times: np.ndarray[tuple[int], np.dtype[np.uint32]], second: int) -> tuple[int, bool]:
    """The number of the first transaction of this second, or of the last one in front of a later one, -1 where that is
    the first; and whether one of them is not earlier. Times need not rise."""
    reached = times >= second
    if not reached.any():
        return len(times) - 1, False
    first = int(np.argmax(reached))
    return (first if times[first] == second else first - 1), True


def _logs_until(settings: SourceSettings, timestamp: int, journal: str) -> list[BinaryLog]:
    """All files of the server, or only `journal`. Raises PositionError for a time in the future."""
    try:
        with connect(settings) as conn:
            logs = binary_logs(conn)
            if journal:
                check_exists(conn, EntryPosition(journal, JOURNAL_START))
            with conn.cursor() as cursor:
                cursor.execute("SELECT UNIX_TIMESTAMP()")
                now = int(cursor.fetchall()[0][0])
    except pymysql.err.MySQLError as error:
        raise source_error(error, settings) from error
    if timestamp // 1000 > now:
        raise PositionError(
            f"{_shown(timestamp)} is in the future: it is {_shown(now * 1000)} at the server",
            place=str(timestamp),
            hint=_REMEDY,
        )
    return [log for log in logs if not journal or log.name == journal]


def begun(settings: SourceSettings, journal: str) -> int:
    """When a file was begun, in epoch seconds: the time of its FORMAT_DESCRIPTION, its first own event."""
    conn = connect(settings)
    try:
        begin_dump(conn, settings, version_of(conn), EntryPosition(journal, JOURNAL_START), wait=False)
        while True:
            packet = conn._read_packet().get_all_data()  # type: ignore[no-untyped-call]
            if packet[0]:
                raise SourceUnavailable("the server ended the dump", place=journal, hint="The destination tries again.")
            if packet[5] == EventType.FORMAT_DESCRIPTION:
                return int.from_bytes(packet[1:5], "little")
    except pymysql.err.MySQLError as error:
        raise source_error(error, settings) from error
    finally:
        conn._force_close()  # type: ignore[attr-defined]


def _too_old(settings: SourceSettings, timestamp: int) -> PositionError:
    oldest = _logs_until(settings, timestamp, "")[0].name
    return PositionError(
        f"{_shown(timestamp)} is before the oldest journal, {oldest}, "
        f"which begins at {_shown(begun(settings, oldest) * 1000)}",
        place=str(timestamp),
        hint=_REMEDY + " Earlier changes are gone from the server: reload the tables (sluice copy).",
    )


def _shown(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return str(timestamp)
