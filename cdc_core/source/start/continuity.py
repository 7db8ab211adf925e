"""What a server has of the transactions that a reader has read, by its GTIDs.

A standby that was promoted may lack some. The lake has them already: reading on would leave them there, unnoticed.
"""

from __future__ import annotations

from typing import Any

from cdc_core.errors import BEGIN_ANEW, SourceBehind, SourceError
from cdc_core.gtid import Gtid, GtidPosition, Gtids, GtidSet
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.connection import Connection, version_of
from cdc_core.source.journals import current_end
from cdc_core.source.settings import SourceSettings

_WAIT = "If this server is a replica that still applies them, wait: the destination tries again."
_LOGGING = "log_slave_updates", "log_replica_updates"


def check_continuity(conn: Connection, history: LogPosition) -> None:
    """Raises SourceBehind if, by its GTIDs, the server lacks a transaction from before `history`; SourceError if the
    server does not write replicated transactions to its binlog."""
    lacking = missing(conn, history.postion.gtid)
    if lacking:
        raise SourceBehind(
            f"this server lacks the transactions {lacking}, which were read from {history.address}:{history.port}",
            place=str(history.postion),
            hint=f"{_WAIT} {BEGIN_ANEW}",
        )
    logging = [value for _, value in _rows(conn, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {_LOGGING}")]
    if "OFF" in logging:
        raise SourceError(
            "this server does not write replicated transactions to its binlog (log_slave_updates = OFF)",
            place=str(history.postion),
            hint="Set log_slave_updates = ON in [mysqld] of my.cnf, restart the server, and set up its replication "
            "again; or go back to the previous server.",
        )


def complete_from(conn: Connection, settings: SourceSettings, start: EntryPosition) -> EntryPosition | None:
    """Returns from where on a dump gets everything that its server writes; None if that is not known.

    A dump by position gets all from its start. By GTID the server leaves out the set of `start`. Once it has executed
    the whole set, no part of it comes after the present end of the binlog; before, a missing part may still come.
    """
    if not (settings.by_gtid and start.gtid):
        return start
    return None if missing(conn, start.gtid) else current_end(conn)


def missing(conn: Connection, gtid: Gtid | Gtids | None) -> str:
    """The transactions of `gtid` that the server has not executed; empty also when it has no GTIDs."""
    if not gtid:
        return ""
    if version_of(conn).mariadb:
        if not isinstance(gtid, GtidPosition):
            return ""
        return missing_in_mariadb(gtid, _one(conn, "SELECT @@GLOBAL.gtid_binlog_state"))
    if isinstance(gtid, GtidPosition) or _one(conn, "SELECT @@GLOBAL.gtid_mode").upper() == "OFF":
        return ""
    return str(GtidSet.parse(str(gtid)) - GtidSet.parse(_one(conn, "SELECT @@GLOBAL.gtid_executed")))


def missing_in_mariadb(gtids: GtidPosition, state: str) -> str:
    """The GTIDs that are beyond gtid_binlog_state, which has the last number of each server in each domain.

    A promoted server that lost a transaction uses its number again, under its own server id.
    """
    last = {part.rpartition("-")[0]: int(part.rpartition("-")[2]) for part in state.replace(" ", "").split(",") if part}
    return ",".join(f"{d}-{server}-{n}" for d, server, n in gtids.parts if last.get(f"{d}-{server}", 0) < n)


def _one(conn: Connection, statement: str) -> str:
    return str(_rows(conn, statement)[0][0] or "")


def _rows(conn: Connection, statement: str) -> tuple[tuple[Any, ...], ...]:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())
