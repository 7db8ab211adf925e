"""May reading go on at this server, for who read another one? A standby that was made master can have less than it.

What a server lost was told already, and is in the lake: reading on would leave it there, and nobody would know.
"""

from __future__ import annotations

from typing import Any

from cdc_core.errors import SourceBehind, SourceError
from cdc_core.gtid import GtidPosition, GtidSet
from cdc_core.position import LogPosition
from cdc_core.source.connection import Connection, version_of

_LOST = (
    "While it is a replica that is still applying them, wait: it is tried again. If they are lost: set the cursor by "
    "sluice reset --timestamp ... --moved --all, compare with sluice verify, and make anew the tables that differ."
)
_LOGGING = "log_slave_updates", "log_replica_updates"


def check_follows(conn: Connection, history: LogPosition) -> None:
    """Raises SourceBehind where the server lacks a transaction that `history` has behind it, as far as its GTIDs
    tell; SourceError where the server does not log what it replicates."""
    missing = _missing(conn, history.postion.gtid)
    if missing:
        raise SourceBehind(
            f"this server lacks the transactions {missing}, which were read from {history.address}:{history.port}",
            place=str(history.postion),
            hint=_LOST,
        )
    logging = [value for _, value in _rows(conn, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {_LOGGING}")]
    if "OFF" in logging:
        raise SourceError(
            "this server does not write into its binlog what it replicates (log_slave_updates = OFF)",
            place=str(history.postion),
            hint="Set log_slave_updates = ON in [mysqld] of my.cnf, restart it, and make it a replica anew; or go back "
            "to the server before.",
        )


def _missing(conn: Connection, gtid: str) -> str:
    """What of `gtid` the server has not executed; empty also where it has no GTIDs."""
    if not gtid:
        return ""
    if version_of(conn).mariadb:
        if ":" in gtid:
            return ""
        return missing_in_mariadb(gtid, _one(conn, "SELECT @@GLOBAL.gtid_binlog_state"))
    if ":" not in gtid or _one(conn, "SELECT @@GLOBAL.gtid_mode").upper() == "OFF":
        return ""
    return str(GtidSet.parse(gtid) - GtidSet.parse(_one(conn, "SELECT @@GLOBAL.gtid_executed")))


def missing_in_mariadb(gtid: str, state: str) -> str:
    """`state` has the last number of each server in each domain: a promoted server that lost a transaction gives its
    number once more, under its own id."""
    last = {part.rpartition("-")[0]: int(part.rpartition("-")[2]) for part in state.replace(" ", "").split(",") if part}
    parts = GtidPosition.parse(gtid).parts
    return ",".join(f"{d}-{server}-{n}" for d, server, n in parts if last.get(f"{d}-{server}", 0) < n)


def _one(conn: Connection, statement: str) -> str:
    return str(_rows(conn, statement)[0][0] or "")


def _rows(conn: Connection, statement: str) -> tuple[tuple[Any, ...], ...]:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())
