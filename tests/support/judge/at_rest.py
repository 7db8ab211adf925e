"""A consistent snapshot of all tables, of a server that comes to rest.

Needs no more than SELECT and REPLICATION CLIENT: the position is the same before and after the snapshot's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymysql

from cdc_core.errors import SourceError
from cdc_core.position import EntryPosition
from spark_jobs.snapshot.binlog import position
from spark_jobs.snapshot.source import Source, connect

SETTLE_SECONDS = 0.2


@contextmanager
def snapshot(
    source: Source, in_time: Callable[[], bool], sleep: Callable[[float], None]
) -> Iterator[tuple[pymysql.Connection[Any], EntryPosition]]:
    """A connection within a snapshot, and the snapshot's position.

    The position is read before and after, with a pause between: a transaction is in the binlog a moment before the
    engine shows it. Raises SourceError when the source is never at rest while `in_time`.
    """
    connection = connect(source)
    try:
        while True:
            before = position(connection)
            sleep(SETTLE_SECONDS)
            with connection.cursor() as cursor:
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            if before == position(connection):
                break
            connection.rollback()
            if not in_time():
                hint = "Stop the writes at the source, or give more time."
                raise SourceError("the source does not come to rest", place=source.address, hint=hint)
        yield connection, before
    finally:
        connection.close()
