"""Where in the binlog a snapshot stands, also while others write to the server.

MariaDB and Percona Server say it themselves. MySQL says it under FLUSH TABLES WITH READ LOCK, which takes an account
with RELOAD and stops all writes for a moment. Without that privilege the binlog's end is read before and after the
snapshot begins: if it is the same, the snapshot stands there. If not, the snapshot stands between the two, which is
enough for a table with a key: what comes again from there on is merged by the key.
A transaction is in the binlog before the engine shows it; hence the pause before a snapshot that has no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

from cdc_core.errors import SourceError
from cdc_core.position import EntryPosition
from spark_jobs.snapshot.binlog import position

_SETTLE_SECONDS = 1.0
_TRIES = 20  # for a server that should come to rest
_STALLED = 60  # pauses for written transactions; of those that a replica applies, one may last for longer
_LOCK_SECONDS = 3  # FLUSH TABLES waits for running statements, and all writes wait for it
_START = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


@dataclass(frozen=True, slots=True)
class Place:
    """The snapshot has every transaction up to `low`, and none behind `high`."""

    low: EntryPosition
    high: EntryPosition

    @property
    def exact(self) -> bool:
        return self.low == self.high


def begin(connection: pymysql.Connection[Any], *, by_key: bool, sleep: Callable[[float], None]) -> Place:
    """Begins a snapshot in the connection's transaction. `by_key`: the place need not be exact.

    Raises SourceError when the place must be exact, others write all the time, and the account may not stop them.
    """
    exact = _own_word(connection) or _locked(connection)
    if exact is not None:
        return Place(exact, exact)
    for _ in range(_TRIES):
        place = _between(connection, sleep)
        if place.exact or by_key:
            return place
        connection.rollback()
    hint = "GRANT RELOAD ON *.* to the account, so that it can stop the writes for a moment; or stop them yourself."
    raise SourceError("the source does not come to rest", place=str(place.high), hint=hint)


def _own_word(connection: pymysql.Connection[Any]) -> EntryPosition | None:
    """MariaDB, `binlog_snapshot_file`; Percona Server, the same."""
    with connection.cursor() as cursor:
        cursor.execute(_START)
        cursor.execute("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")
        found = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    if journal := found.get("binlog_snapshot_file"):
        return EntryPosition(journal, int(found["binlog_snapshot_position"]))
    connection.rollback()
    return None


def _locked(connection: pymysql.Connection[Any]) -> EntryPosition | None:
    """Under a global read lock; None when the account may not have it, or others hold tables for too long."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        try:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
        except pymysql.MySQLError:
            return None
        finally:
            cursor.execute("SET SESSION lock_wait_timeout = DEFAULT")
        try:
            cursor.execute(_START)
            return position(connection)
        finally:
            cursor.execute("UNLOCK TABLES")


def _between(connection: pymysql.Connection[Any], sleep: Callable[[float], None]) -> Place:
    low = settled(connection, sleep)
    with connection.cursor() as cursor:
        cursor.execute(_START)
    return Place(low, position(connection))


def settled(connection: pymysql.Connection[Any], sleep: Callable[[float], None]) -> EntryPosition:
    """The binlog's end, when the engine shows the transactions up to it to whoever reads from now on. With GTIDs those
    are waited for that are written and not committed yet: a slow disk may take its time between the two."""
    end = position(connection)
    written = _owned(connection)
    sleep(_SETTLE_SECONDS)
    while _replicas_awaited(connection):
        sleep(_SETTLE_SECONDS)
    for _ in range(_STALLED):
        if not (written := written & _owned(connection)):
            break
        sleep(_SETTLE_SECONDS)
    return end


def _owned(connection: pymysql.Connection[Any]) -> frozenset[str]:
    """The GTIDs of transactions that are not committed yet, each with its thread's number; none on MariaDB."""
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
