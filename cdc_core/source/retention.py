"""For how long a server keeps its binlog files. Amazon RDS has its own setting, in hours."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pymysql

from cdc_core.source.connection import Connection

_RDS_HOURS, _AURORA_HOURS = 168, 2160  # the longest that each accepts


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many seconds the server keeps a file, 0 for ever or where that is not known; `twice`: the statement that
    doubles it, if there is one."""

    seconds: float
    twice: str = ""


def retention(conn: Connection) -> Retention:
    names = "'binlog_expire_logs_seconds', 'expire_logs_days', 'binlog_expire_logs_auto_purge', "
    names += "'basedir', 'aurora_version'"
    with conn.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        found = {str(name): str(value) for name, value in cursor.fetchall()}
    if found.get("basedir", "").startswith("/rdsdbbin"):
        return _of_rds(conn, _AURORA_HOURS if "aurora_version" in found else _RDS_HOURS)
    if found.get("binlog_expire_logs_auto_purge", "ON").upper() == "OFF":
        return Retention(0)
    seconds = float(found.get("binlog_expire_logs_seconds", 0)) or float(found.get("expire_logs_days", 0)) * 86400
    return Retention(seconds, f"SET GLOBAL binlog_expire_logs_seconds = {int(seconds * 2)};")


def _of_rds(conn: Connection, most: int) -> Retention:
    """Source: Amazon RDS User Guide, "mysql.rds_set_configuration". NULL: a file goes when RDS does not need it."""
    hours = 0.0
    with suppress(pymysql.err.MySQLError), conn.cursor() as cursor:  # the account may have no right to look
        cursor.execute("SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'")
        hours = float(next(iter(cursor.fetchall()), (0,))[0] or 0)
    longer = min(int(hours * 2) or 72, most)
    call = f"CALL mysql.rds_set_configuration('binlog retention hours', {longer});"
    return Retention(hours * 3600, call if longer > hours else "")
