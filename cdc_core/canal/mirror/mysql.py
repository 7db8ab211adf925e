"""A MySQL or MariaDB as the target: its connection, its settings, its errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pymysql.constants import CLIENT
from pymysql.err import DatabaseError, Error, OperationalError

from cdc_core.canal.mirror.mysql_rows import GENERATED, quoted, write
from cdc_core.canal.mirror.sql import Kinds
from cdc_core.canal.mirror.work import RowGroup
from cdc_core.source.authentication import GuardedConnection

_TABLE = """CREATE TABLE IF NOT EXISTS sluice_mirror (
    destination VARCHAR(100) NOT NULL, client_id INT NOT NULL, server_id BIGINT NOT NULL,
    journal_name VARCHAR(255) NOT NULL, position BIGINT NOT NULL, execute_time BIGINT NOT NULL,
    ddl_position BIGINT NOT NULL DEFAULT 0,
    changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (destination, client_id))"""
# Every value that a source can have is taken; what is cut is warned of.
_SETTINGS = (
    "SET foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', max_error_count = 65535, "
    "time_zone = %s"
)
_COLUMNS = """SELECT column_name, data_type, extra FROM information_schema.columns
    WHERE table_schema = %s AND table_name = %s"""
_GENERATED = re.compile("VIRTUAL|STORED|PERSISTENT", re.IGNORECASE)
_IN_TRANSACTION = re.compile(r"\s+START\s+TRANSACTION\s*$", re.IGNORECASE)  # of CREATE TABLE ... SELECT
_CLIENTS = range(2000, 3000)  # errors of the client itself: of the connection
_WAITS = (  # locks, limits, a server that stops or only reads, an operator's: they pass
    1021, 1040, 1041, 1042, 1043, 1053, 1077, 1079, 1114, 1129, 1158, 1159, 1160, 1161, 1203, 1205, 1206, 1213,
    1226, 1290, 1317, 1792, 1836, 1927, 3024, 3100, 3101, 3168, 3169, 3572, 4031
)  # fmt: skip
_DONE_ALREADY = (
    1007,
    1008,
    1050,
    1051,
    1060,
    1061,
    1068,
    1091,
    1146,
    1054,
    1507,
    1517,
    1826,
    3821,
    3822,
)  # exists already, or exists no more


@dataclass(frozen=True, slots=True)
class MySql:
    """An account at a server's database."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(repr=False)

    error = Error
    ddl_commits = True
    labels = False
    places = "sluice_mirror"
    keep = """INSERT INTO sluice_mirror
        (destination, client_id, server_id, journal_name, position, execute_time, ddl_position)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        ON DUPLICATE KEY UPDATE server_id = VALUES(server_id), journal_name = VALUES(journal_name),
        position = VALUES(position), execute_time = VALUES(execute_time), ddl_position = VALUES(ddl_position)"""

    def connect(self) -> Any:
        return GuardedConnection(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database,
            charset="utf8mb4",
            connect_timeout=10,
            client_flag=CLIENT.FOUND_ROWS,
        )

    def prepare(self, cursor: Any, time_zone: str) -> None:
        cursor.execute(_SETTINGS, (time_zone,))
        with suppress(OperationalError):  # some versions do not let it be set
            cursor.execute("SET explicit_defaults_for_timestamp = 1")  # NULL in a TIMESTAMP is NULL
        cursor.execute(_TABLE)

    def begin(self, connection: Any) -> None:
        connection.begin()

    def definition(self, cursor: Any, sql: str, database: str, table: str, seconds: float) -> Sequence[str]:  # noqa: ARG002
        """Rows that are there get the source's CURRENT_TIMESTAMP."""
        before = ["SET sql_mode = ''", f"SET timestamp = {seconds:f}"]
        return [*before, *([f"USE {quoted(database)}"] if database else []), _IN_TRANSACTION.sub("", sql)]

    def refuses(self, error: Exception) -> bool:
        """Whether it is the rows, or the statement, that the server does not take."""
        code = _code(error)
        return isinstance(error, DatabaseError) and bool(code) and code not in _CLIENTS and code not in _WAITS

    def is_gone(self, error: Exception) -> bool:
        return not self.refuses(error)

    def is_done_already(self, error: Exception) -> bool:
        return _code(error) in _DONE_ALREADY

    def columns(self, cursor: Any, table: tuple[str, str]) -> Kinds:
        cursor.execute(_COLUMNS, table)
        found = cursor.fetchall()
        return {name.lower(): GENERATED if _GENERATED.search(extra) else str(kind) for name, kind, extra in found}

    def write(self, cursor: Any, group: RowGroup, kinds: Kinds) -> None:
        write(cursor, group, kinds)


def _code(error: Exception) -> int:
    return int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0
