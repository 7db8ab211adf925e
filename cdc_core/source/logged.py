"""Does the server's binlog hold every change of the captured tables? It need not, where it replicates or filters.

Writes with `sql_log_bin = 0` cannot be seen from outside. Sources: MySQL manual, "Replica Server Options and Variables"
(log_replica_updates), "Binary Log Options" (binlog_do_db, binlog_ignore_db); MariaDB knowledge base, the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pymysql
from pymysql.constants import ER

from cdc_core.errors import SourceError
from cdc_core.source.connection import Connection, ServerVersion
from cdc_core.source.settings import SourceSettings

LOGGED_VARIABLES = ("log_replica_updates", "log_slave_updates", "wsrep_on", "gtid_slave_pos")
_ON = ("ON", "1")

Captured = Callable[[str, str], bool]  # database, table


def check_logged(
    conn: Connection,
    version: ServerVersion,
    variables: Mapping[str, str],
    settings: SourceSettings,
    captured: Captured,
) -> list[str]:
    """Warnings. Raises SourceError when changes of captured tables are not logged."""
    warnings = _check_replicated(conn, version, variables, settings)
    modern = not version.mariadb and version.number >= (8, 2, 0)
    status = _rows(conn, "SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")
    only, ignored = (_names(str(value)) for value in status[0][2:4]) if status else (set(), set())
    if only or ignored:
        warnings.append(_check_filter(conn, only, ignored, settings, captured))
    return warnings


def _rows(conn: Connection, statement: str) -> tuple[tuple[Any, ...], ...]:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())


def _check_replicated(
    conn: Connection, version: ServerVersion, variables: Mapping[str, str], settings: SourceSettings
) -> list[str]:
    """A warning where a channel may exist that the account cannot see."""
    name = next((name for name in LOGGED_VARIABLES[:2] if name in variables), "")
    if not name or variables[name].upper() in _ON:
        return []
    hosts = _channels(conn, version)
    if variables.get("wsrep_on", "").upper() in _ON:
        hosts = ["the other nodes of its cluster"]
    if hosts:
        reset = "RESET SLAVE ALL" if version.mariadb or version.number < (8, 0, 22) else "RESET REPLICA ALL"
        raise SourceError(
            f"{name} is OFF: the server does not log what it replicates from {', '.join(hosts)}",
            place=settings.address,
            hint=f"Put {name} = ON into [mysqld] of my.cnf and restart the server, or capture the server where the "
            f"changes are made. If this server is no replica any more: {reset};",
        )
    if hosts is None and variables.get("gtid_slave_pos"):
        return [
            f"{name} is OFF, and the server has replicated: if it still does, what it replicates is not in its binlog. "
            f"GRANT REPLICA MONITOR ON *.* TO '{settings.user}'@'%'; shows whether it does"
        ]
    return []


def _channels(conn: Connection, version: ServerVersion) -> list[str] | None:
    """The hosts of the replication channels, running or not. None where MariaDB does not show them, for want of REPLICA
    MONITOR, and none runs."""
    if not version.mariadb:
        modern = version.number >= (8, 0, 22)
        return [str(row[1]) for row in _rows(conn, "SHOW REPLICA STATUS" if modern else "SHOW SLAVE STATUS")]
    try:
        return [str(row[3]) for row in _rows(conn, "SHOW ALL SLAVES STATUS")]
    except pymysql.err.MySQLError as error:
        if error.args[0] != ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise
    running = _rows(conn, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
    return ["another server"] if running and int(running[0][1]) else None


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def _check_filter(
    conn: Connection, only: set[str], ignored: set[str], settings: SourceSettings, captured: Captured
) -> str:
    """A warning. Raises SourceError when the binlog leaves out a database that has captured tables, or whose tables
    would be captured. Where both filters are set, the server ignores binlog_ignore_db."""
    tables = _rows(
        conn, "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type LIKE '%BASE TABLE'"
    )
    wanted = {str(database) for database, table in tables if captured(str(database), str(table))}
    if only:
        option, lost = f"binlog_do_db = {','.join(sorted(only))}", wanted - only
    else:
        option = f"binlog_ignore_db = {','.join(sorted(ignored))}"
        lost = (wanted & ignored) | {database for database in ignored if captured(database, "t")}
    if lost:
        first = sorted(lost)[0]
        raise SourceError(
            f"the server's binlog leaves out captured tables: {option} hides {', '.join(sorted(lost))}",
            place=settings.address,
            hint="Remove the option from [mysqld] of my.cnf and restart the server, or leave the databases out here: "
            f"canal.instance.filter.black.regex = {first}\\\\..*",
        )
    return (
        f"the server filters its binlog ({option}): it does not log DDL that runs with another default database (USE), "
        "and may not log databases that come later. Remove the option, or write no DDL across databases"
    )
