"""A MySQL or MariaDB as the target: its connection, its errors, and groups as its SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.err import Error, IntegrityError, InterfaceError, OperationalError, ProgrammingError

from cdc_core.mirror.sql import Dialect
from cdc_core.mirror.work import Group

_TABLE = """CREATE TABLE IF NOT EXISTS sluice_mirror (
    destination VARCHAR(100) NOT NULL, client_id INT NOT NULL, server_id BIGINT NOT NULL,
    journal_name VARCHAR(255) NOT NULL, position BIGINT NOT NULL, execute_time BIGINT NOT NULL,
    ddl_position BIGINT NOT NULL DEFAULT 0,
    changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (destination, client_id))"""
_SETTINGS = "SET foreign_key_checks = 0, sql_mode = '', time_zone = %s"
_LOST, _BUSY = (2006, 2013), (1205, 1213)  # the connection; a lock
_DONE_ALREADY = (1007, 1008, 1050, 1051, 1060, 1061, 1091, 1146, 1054)  # exists already, or exists no more


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
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database,
            charset="utf8mb4",
            connect_timeout=10,
        )

    def prepare(self, cursor: Any, time_zone: str) -> None:
        cursor.execute(_SETTINGS, (time_zone,))
        cursor.execute(_TABLE)

    def begin(self, connection: Any) -> None:
        connection.begin()

    def definition(self, cursor: Any, sql: str, database: str, table: str) -> Sequence[str]:  # noqa: ARG002
        return [f"USE {quoted(database)}", sql] if database else [sql]

    def refuses(self, error: Exception) -> bool:
        """Whether it is the rows that the server does not take."""
        kinds = (IntegrityError, ProgrammingError, OperationalError)
        return isinstance(error, kinds) and _code(error) not in (*_LOST, *_BUSY)

    def is_gone(self, error: Exception) -> bool:
        return _code(error) in _LOST or isinstance(error, InterfaceError)

    def is_done_already(self, error: Exception) -> bool:
        return _code(error) in _DONE_ALREADY

    def statement(self, group: Group) -> str:
        return _DIALECT.statement(group)


def _code(error: Exception) -> int:
    return int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0


def literal(value: str | bytes | int | None) -> str:
    """A value as SQL has it."""
    if isinstance(value, str):
        return f"'{value.translate(_ESCAPES)}'"
    if value is None:
        return "NULL"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


_ESCAPES = str.maketrans({"'": "\\'", "\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _replaces(_key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    return "ON DUPLICATE KEY UPDATE " + ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in columns)


_DIALECT = Dialect(
    quoted, literal, _replaces, lambda group: group.rows, "<=>", lambda _table, where: f"{where} LIMIT 1"
)
