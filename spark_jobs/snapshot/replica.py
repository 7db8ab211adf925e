"""A replica that is read instead of the source: it must have the source's changes up to the beginning of the
snapshot."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pymysql

from cdc_core.errors import SourceBehind
from cdc_core.position import EntryPosition
from spark_jobs.snapshot.source import Source, connect

_EXECUTED = "SELECT @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed"  # MySQL's; MariaDB knows neither
_PLACES = ("SOURCE_POS_WAIT", "MASTER_POS_WAIT")  # the name since 8.0.26, the name of before and MariaDB's


def executed(connection: pymysql.Connection[Any]) -> str:
    """Returns the GTIDs that a server has, "" if it has none or is MariaDB."""
    with suppress(pymysql.MySQLError), connection.cursor() as cursor:
        cursor.execute(_EXECUTED)
        mode, gtids = cursor.fetchone() or ("OFF", "")
        return str(gtids) if str(mode).upper() == "ON" else ""
    return ""


def await_place(replica: Source, place: EntryPosition, gtids: str, seconds: float) -> Source:
    """Waits until the replica has all transactions up to a place of the source, or all of `gtids` if there are any.
    Returns the replica with its server id: other servers behind the same address may lag further behind.

    Raises SourceBehind if it does not have them after `seconds`, or does not replicate from the source.
    """
    with connect(replica) as connection, connection.cursor() as cursor:
        answer = _by_gtid(cursor, gtids, seconds) if gtids else _by_place(cursor, place, seconds)
        cursor.execute("SELECT @@GLOBAL.server_id")
        (server_id,) = cursor.fetchone() or (None,)
    if not answer:
        message = f"the replica does not have {gtids or place} after {seconds:g} s"
        hint = "See that it replicates from the source (SHOW REPLICA STATUS); or read the source itself."
        raise SourceBehind(message, place=replica.address, hint=hint)
    return replace(replica, server_id=server_id)


def _by_gtid(cursor: Any, gtids: str, seconds: float) -> bool:
    cursor.execute("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (gtids, seconds))
    return bool(cursor.fetchone() == (0,))


def _by_place(cursor: Any, place: EntryPosition, seconds: float) -> bool:
    """Whether the replica reached the place. NULL says that no replication runs, -1 that the time is over."""
    for function in _PLACES:
        with suppress(pymysql.MySQLError):
            cursor.execute(f"SELECT {function}(%s, %s, %s)", (place.journal_name, place.position, int(seconds) or 1))
            (answer,) = cursor.fetchone() or (None,)
            return answer is not None and int(answer) >= 0
    return False
