"""A MySQL or MariaDB as the target: its connection, its errors, and groups as its SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.err import Error, IntegrityError, InterfaceError, OperationalError, ProgrammingError

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
    runs_ddl = True
    labels = False
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

    def use(self, cursor: Any, database: str) -> None:
        cursor.execute(f"USE {quoted(database)}")

    def refuses(self, error: Exception) -> bool:
        """Whether it is the rows that the server does not take."""
        kinds = (IntegrityError, ProgrammingError, OperationalError)
        return isinstance(error, kinds) and _code(error) not in (*_LOST, *_BUSY)

    def is_gone(self, error: Exception) -> bool:
        return _code(error) in _LOST or isinstance(error, InterfaceError)

    def is_done_already(self, error: Exception) -> bool:
        return _code(error) in _DONE_ALREADY

    def statement(self, group: Group) -> str:
        return statement(group)


def _code(error: Exception) -> int:
    return int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0


def statement(group: Group) -> str:
    """A group as SQL, for a connection whose strings have backslash escapes."""
    table = ".".join(map(quoted, group.table))
    if group.kind in ("upsert", "insert"):
        sql = f"INSERT INTO {table} ({_list(group.columns)}) VALUES {_tuples(group.rows)}"  # noqa: S608
        if group.kind == "upsert":
            sets = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in group.columns)
            sql += f" ON DUPLICATE KEY UPDATE {sets}"
        return sql
    if group.kind == "delete" and group.key:
        return f"DELETE FROM {table} WHERE ({_list(group.key)}) IN ({_tuples(group.rows)})"  # noqa: S608
    chosen = {name: group.before[name] for name in group.key or group.before}
    where = " AND ".join(f"{quoted(name)} <=> {literal(value)}" for name, value in chosen.items())
    if group.kind == "delete":
        return f"DELETE FROM {table} WHERE {where} LIMIT 1"  # noqa: S608
    pairs = zip(group.columns, group.rows[0], strict=True)
    sets = ", ".join(f"{quoted(name)} = {literal(value)}" for name, value in pairs)
    return f"UPDATE {table} SET {sets} WHERE {where} LIMIT 1"  # noqa: S608


def _tuples(rows: Iterable[tuple[Any, ...]]) -> str:
    return ", ".join([f"({', '.join(map(literal, row))})" for row in rows])


def literal(value: str | bytes | int | None) -> str:
    """A value as SQL has it."""
    if isinstance(value, str):
        return f"'{value.translate(_ESCAPES)}'"
    if value is None:
        return "NULL"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


_ESCAPES = str.maketrans({"'": "\\'", "\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
