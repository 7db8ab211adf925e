"""Finds the place of a table's snapshot in the binlog, also while others write to the server.

MariaDB and Percona Server report it. On MySQL the binlog's end is read before and after the snapshot begins, and no
lock is taken: if there is no event of the table between the two, the place is exact. Otherwise the snapshot is between
them, which is enough for a table with a key: repeated changes are merged by the key. For a table without a key, LOCK
TABLES keeps the writes of this table waiting for a moment. It waits for transactions that wrote the table, not for
queries, and meanwhile nobody waits for it. FLUSH TABLES WITH READ LOCK would make every other query on a table wait
until a long one ends, also after it was given up; so it is never used. A transaction is in the binlog before the engine
shows it; hence the pause before a snapshot without a lock. If the drain would wait for that too, long transactions are
waited for before (`lasting`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pymysql

from cdc_core.errors import SourceError
from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name
from spark_jobs.snapshot.binlog import changes, position
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.snapshot.sql import quote

_SETTLE_SECONDS = 1.0
_TRIES = 20  # for a server that should come to rest
_STALLED = 60  # pauses for written transactions; one that a replica applies may last for longer
_BRIEF = 3  # the same while others wait
_LOCK_SECONDS = 5  # for transactions that wrote the table; nobody waits for LOCK TABLES READ before it has the lock
_PARENTS = """
    SELECT 1 FROM information_schema.referential_constraints WHERE constraint_schema = %s AND table_name = %s LIMIT 1"""
_START = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


class NoRest(SourceError):
    """Others write a table all the time, so that a snapshot has no exact place; or the binlog may have transactions
    that the engine does not show, because they are not committed in time."""


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """The snapshot has every transaction up to `low`, and no transaction after `high`."""

    low: EntryPosition
    high: EntryPosition

    @property
    def exact(self) -> bool:
        return self.low == self.high


def begin(
    connection: pymysql.Connection[Any],
    source: Source,
    database: str,
    table: str,
    *,
    by_key: bool,
    sleep: Callable[[float], None],
    tries: int = _TRIES,
    known: frozenset[str] | None = None,
) -> SnapshotPlace:
    """Begins a snapshot of a table in the connection's transaction. `by_key`: the place need not be exact. Locks are
    taken over another connection to `source`. A try takes a second to some seconds. `known`: as of `settled`.

    Raises NoRest when the place must be exact, other writers keep writing the table, and the account may not keep their
    writes waiting; and as `settled` does.
    """
    settle = partial(settled, connection, sleep, known)
    if (exact := _own_word(connection)) is not None:
        return SnapshotPlace(exact, exact)
    for _ in range(tries):
        place = _between(connection, settle)
        if place.exact or by_key:
            return place
        if not changes(connection, database, table, place.low, place.high):
            return SnapshotPlace(place.low, place.low)
        connection.rollback()
        if (locked := _locked(connection, source, database, table, settle)) is not None:
            return SnapshotPlace(locked, locked)
    hint = "GRANT LOCK TABLES ON *.* to the account, so that it can keep writes of the table waiting for a moment; end "
    hint += "transactions that stay open, stop the writes, or give the table a primary key."
    message = "other writers keep writing the table, so that the source does not come to rest"
    raise NoRest(message, place=f"{full_name(database, table)} {place.high}", hint=hint)


def view_behind(connection: pymysql.Connection[Any], low: EntryPosition) -> SnapshotPlace:
    """Begins a snapshot in the connection's transaction, for any tables. `low`: as of `settled`."""
    if (exact := _own_word(connection)) is not None:
        return SnapshotPlace(exact, exact)
    with connection.cursor() as cursor:
        cursor.execute(_START)
    return SnapshotPlace(low, position(connection))


def _own_word(connection: pymysql.Connection[Any]) -> EntryPosition | None:
    """Returns the place that MariaDB (`binlog_snapshot_file`) or Percona Server reports, or None."""
    with connection.cursor() as cursor:
        cursor.execute(_START)
        cursor.execute("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")
        found = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    if journal := found.get("binlog_snapshot_file"):
        return EntryPosition(journal, int(found["binlog_snapshot_position"]))
    connection.rollback()
    return None


def _locked(
    connection: pymysql.Connection[Any],
    source: Source,
    database: str,
    table: str,
    settle: Callable[[], EntryPosition],
) -> EntryPosition | None:
    """Begins a snapshot while the table is locked for reading; returns None if the account may not lock it, or others
    wrote it for too long."""
    with closing(connect(source)) as other, other.cursor() as cursor:
        other.autocommit(True)
        try:
            cursor.execute(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
            cursor.execute(f"LOCK TABLES {quote(database)}.{quote(table)} READ")
        except pymysql.MySQLError:
            return None
        # MySQL 5.7 locks no table for a cascade into it.
        at = settle() if _has_parent(connection, database, table) else position(connection)
        with connection.cursor() as reader:
            reader.execute(_START)
        return at


def _has_parent(connection: pymysql.Connection[Any], database: str, table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_PARENTS, (database, table))
        return cursor.fetchone() is not None


def _between(connection: pymysql.Connection[Any], settle: Callable[[], EntryPosition]) -> SnapshotPlace:
    low = settle()
    with connection.cursor() as cursor:
        cursor.execute(_START)
    return SnapshotPlace(low, position(connection))


def settled(
    connection: pymysql.Connection[Any], sleep: Callable[[float], None], known: frozenset[str] | None = None
) -> EntryPosition:
    """Returns the binlog's end when the engine shows the transactions up to it to new readers. With GTIDs it waits for
    transactions that are written and not committed yet: a slow disk may take time between the two.

    `known`: long transactions, by `lasting`, to be ignored because others are held up meanwhile. Any other transaction
    is waited for some seconds. Raises NoRest if it is not committed by then, or if replicas are waited for all the
    time.
    """
    end, has_gtids = position(connection), _has_gtids(connection)
    written = _owned(connection)
    sleep(_SETTLE_SECONDS)
    for _ in range(_STALLED if known is None else _BRIEF):
        written &= _owned(connection)
        if not written and (has_gtids or not _replicas_awaited(connection)):
            return end
        sleep(_SETTLE_SECONDS)
    left = written - known if known is not None else frozenset()
    if left or _replicas_awaited(connection):
        what = f"of a GTID ({', '.join(sorted(left)[:3])})" if left else "that wait for a replica"
        hint = "Try again when they have ended, or see what they wait for: a disk, a replica, a session with GTID_NEXT."
        raise NoRest(f"transactions {what} are not committed", place=str(end), hint=hint)
    return end


def lasting(connection: pymysql.Connection[Any], sleep: Callable[[float], None]) -> frozenset[str]:
    """Returns the transactions that are not committed after a minute: a replica applies them, or a session keeps them
    open. Waits until all present transactions have ended, or for that minute. Empty while a replica is waited for: the
    transactions may be written."""
    found = _owned(connection)
    for _ in range(_STALLED):
        if not found:
            return found
        sleep(_SETTLE_SECONDS)
        found &= _owned(connection)
    return frozenset() if _replicas_awaited(connection) else found


def _has_gtids(connection: pymysql.Connection[Any]) -> bool:
    """Whether every transaction has a GTID, so that `_owned` has it until it is committed."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'gtid_mode'")
        _, mode = cursor.fetchone() or ("", "")
    return str(mode).upper() == "ON"


def _owned(connection: pymysql.Connection[Any]) -> frozenset[str]:
    """Returns the GTIDs of transactions that are not committed yet, each with its thread's number; empty on MariaDB."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'gtid_owned'")
        _, listed = cursor.fetchone() or ("", "")
    found = (one.strip().split(":") for one in str(listed).split(","))
    return frozenset(f"{uuid}:{number}" for uuid, *numbers in found for number in numbers)


def _replicas_awaited(connection: pymysql.Connection[Any]) -> bool:
    """Whether a transaction is in the binlog and waits for a replica before the engine commits it (semi-sync)."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync\\_%\\_wait\\_sessions'")
        return any(int(value) for _, value in cursor.fetchall())
