"""Is the server set up for row based capture, and may the account read it? Checked once per connection.

Each error names the statement that mends it. What is only suspected, or does no harm, is a warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pymysql

from cdc_core.errors import SourceError
from cdc_core.source.connection import Connection, ServerVersion, source_error, version_of
from cdc_core.source.engines import engine_warnings
from cdc_core.source.logged import LOGGED_VARIABLES, Captured, check_logged
from cdc_core.source.settings import SourceSettings

_VARIABLES = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_checksum",
    "gtid_mode",
    "lower_case_table_names",
    "server_id",
    "server_uuid",
    *LOGGED_VARIABLES,
)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says about itself. `row_metadata` and `gtid_mode` are empty when the server does not have them.
    `lower_case`: it keeps names of tables in lower case."""

    version: str
    flavor: str
    server_id: int
    server_uuid: str
    gtid_mode: str
    row_image: str
    row_metadata: str
    checksum: str
    address: str
    warnings: tuple[str, ...] = ()
    lower_case: bool = False


def check_server(
    conn: Connection, settings: SourceSettings, captured: Captured = lambda _database, _table: True
) -> ServerInfo:
    """Facts and warnings about the server. Raises SourceError with a remedy when it cannot be captured."""
    version = version_of(conn)
    try:
        variables = _variables(conn)
        _check_binlog(variables, settings)
        account = str(_rows(conn, "SELECT CURRENT_USER()")[0][0])
        _check_privileges(_privileges(conn, version), account, settings)
        warnings = [*_row_image_warning(variables), *_row_metadata_warning(variables)]
        warnings += check_logged(conn, version, variables, settings, captured)
        warnings += engine_warnings(conn, captured)
        warnings += [*_check_server_id(conn, version, variables, settings)]
    except pymysql.err.MySQLError as error:
        raise source_error(error, settings) from error
    return ServerInfo(
        version=version.text,
        flavor=version.flavor,
        server_id=int(variables["server_id"]),
        server_uuid=variables.get("server_uuid", ""),
        gtid_mode=variables.get("gtid_mode", ""),
        row_image=variables["binlog_row_image"],
        row_metadata=variables.get("binlog_row_metadata", ""),
        checksum=variables.get("binlog_checksum", "NONE"),
        address=settings.address,
        warnings=tuple(warnings),
        lower_case=variables.get("lower_case_table_names") == "1",
    )


def _rows(conn: Connection, statement: str) -> tuple[tuple[Any, ...], ...]:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())


def _variables(conn: Connection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = _rows(conn, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name).lower(): str(value) for name, value in rows}


def _check_binlog(variables: dict[str, str], settings: SourceSettings) -> None:
    if variables.get("log_bin", "OFF").upper() not in ("ON", "1"):
        raise SourceError(
            "the server writes no binlog",
            place=settings.address,
            hint="Put log-bin=mysql-bin and a unique server-id into [mysqld] of my.cnf, then restart the server.",
        )
    wanted_of = {"binlog_format": "ROW"}
    if variables["binlog_row_image"].upper() == "MINIMAL":  # a partial JSON update needs the whole old row
        wanted_of["binlog_row_value_options"] = ""
    for name, wanted in wanted_of.items():
        value = variables.get(name, wanted)
        if value.upper() != wanted:
            raise SourceError(
                f"{name} is {value}, not {wanted or 'empty'}",
                place=settings.address,
                hint=f"Run SET GLOBAL {name} = '{wanted}'; and set it in [mysqld] of my.cnf. "
                "Open sessions keep the old value until they connect again.",
            )


def _row_image_warning(variables: dict[str, str]) -> list[str]:
    image = variables["binlog_row_image"]
    if image.upper() == "FULL":
        return []
    return [
        f"binlog_row_image is {image}: columns that row images leave out are looked up in the lake, which makes merges "
        "slower, and a table without a primary key may stop. Run SET GLOBAL binlog_row_image = 'FULL';"
    ]


def _row_metadata_warning(variables: dict[str, str]) -> list[str]:
    metadata = variables.get("binlog_row_metadata")
    if metadata is None:
        return ["the server has no binlog_row_metadata: column names come from information_schema"]
    if metadata.upper() != "FULL":
        return [
            f"binlog_row_metadata is {metadata}: column names come from information_schema, which may be newer "
            "than the rows. Run SET GLOBAL binlog_row_metadata = 'FULL';"
        ]
    return []


def _privileges(conn: Connection, version: ServerVersion) -> set[str]:
    """The account's privileges, with those of its active roles; a privilege on one schema or table counts too."""
    lines = [str(row[0]) for row in _rows(conn, "SHOW GRANTS")]
    if not version.mariadb and version.number >= (8, 0, 0):
        roles = str(_rows(conn, "SELECT CURRENT_ROLE()")[0][0])
        if roles.upper() != "NONE":
            lines += [str(row[0]) for row in _rows(conn, f"SHOW GRANTS FOR CURRENT_USER() USING {roles}")]
    names: set[str] = set()
    for line in lines:
        found = re.match(r"GRANT (.+?) ON ", line)
        if found:
            names.update(part.strip().upper() for part in re.sub(r"\([^)]*\)", "", found[1]).split(","))
    return names


def _check_privileges(names: set[str], account: str, settings: SourceSettings) -> None:
    if names & {"ALL PRIVILEGES", "ALL"}:
        return
    wanted = {
        "SELECT": {"SELECT"},
        "REPLICATION SLAVE": {"REPLICATION SLAVE"},
        "REPLICATION CLIENT": {"REPLICATION CLIENT", "BINLOG MONITOR"},
    }
    missing = ", ".join(name for name, either in wanted.items() if not names & either)
    if missing:
        user, _, host = account.rpartition("@")
        raise SourceError(
            f"the account lacks {missing}",
            place=settings.account,
            hint=f"Run GRANT {missing} ON *.* TO '{user}'@'{host}';",
        )


def _check_server_id(
    conn: Connection, version: ServerVersion, variables: dict[str, str], settings: SourceSettings
) -> list[str]:
    """Raises SourceError when the server or another replica has our server id; a warning when that cannot be seen."""
    ours, theirs = settings.slave_id, int(variables["server_id"])
    if theirs == 0:
        raise SourceError("the server's server_id is 0", place=settings.address, hint="Run SET GLOBAL server_id = 1;")
    if ours == theirs:
        raise _id_clash(ours, "the server itself", settings)
    modern = not version.mariadb and version.number >= (8, 0, 22)
    try:
        replicas = _rows(conn, "SHOW REPLICAS" if modern else "SHOW SLAVE HOSTS")
    except pymysql.err.MySQLError as error:
        if version.mariadb and error.args[0] == pymysql.constants.ER.SPECIFIC_ACCESS_DENIED_ERROR:
            return ["other replicas' server ids cannot be seen without REPLICATION MASTER ADMIN"]
        raise
    for row in replicas:
        same = row[4] == settings.replica_uuid if len(row) > 4 else row[1] == settings.report_host
        if ours and int(row[0]) == ours and not same:
            raise _id_clash(ours, f"the replica {row[1] or '(unnamed)'}", settings)
    return []


def _id_clash(number: int, whose: str, settings: SourceSettings) -> SourceError:
    return SourceError(
        f"our server id {number} is already used by {whose}",
        place=settings.address,
        hint="Set canal.instance.mysql.slaveId to another number, or to 0 for a random one.",
    )
