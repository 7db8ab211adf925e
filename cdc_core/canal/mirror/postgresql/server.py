"""A PostgreSQL as the target: a source's database is a schema of it.

Source: PostgreSQL 15 manual, "INSERT", "System Catalogs", "Appendix A. Error Codes".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_core.canal.mirror.columns import Values
from cdc_core.canal.mirror.postgresql.ddl import translated
from cdc_core.canal.mirror.postgresql.sql import literal, quoted
from cdc_core.canal.mirror.sql import NO_ROW, Kinds, TargetDialect, Unfit
from cdc_core.canal.mirror.work import RowGroup
from cdc_core.packages import required

_TABLE = """CREATE TABLE IF NOT EXISTS public.sluice_mirror (
    destination VARCHAR(100) NOT NULL, client_id INT NOT NULL, server_id BIGINT NOT NULL,
    journal_name VARCHAR(255) NOT NULL, position BIGINT NOT NULL, execute_time BIGINT NOT NULL,
    ddl_position BIGINT NOT NULL DEFAULT 0, changed TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (destination, client_id))"""
_WAITS = ("08", "25", "28", "3D", "40", "53", "55006", "55P03", "57", "58", "72", "XX")  # classes and errors that pass:
# connection, read-only, account, database, deadlock, resources, locks, an operator's, the system's
_COLUMNS = """SELECT attname, col_description(attrelid, attnum) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""


@dataclass(frozen=True, slots=True)
class PostgreSql:
    """An account at a server's database. DDL statements are translated, and run within the transaction."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(repr=False)

    ddl_commits = False
    labels = True
    places = "public.sluice_mirror"  # in a schema of the account's own name are rows of the source's database
    keep = """INSERT INTO public.sluice_mirror
        (destination, client_id, server_id, journal_name, position, execute_time, ddl_position)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (destination, client_id) DO UPDATE SET server_id = excluded.server_id,
        journal_name = excluded.journal_name, position = excluded.position, execute_time = excluded.execute_time,
        ddl_position = excluded.ddl_position, changed = now()"""

    @property
    def error(self) -> type[Exception]:
        return _driver().Error  # type: ignore[no-any-return]

    def connect(self) -> Any:
        return _driver().connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=self.database,
            connect_timeout=10,
        )

    def prepare(self, cursor: Any, time_zone: str) -> None:
        cursor.execute(f"SET TIME ZONE INTERVAL '{time_zone}' HOUR TO MINUTE")
        cursor.execute("SET standard_conforming_strings = on")
        cursor.execute("SET client_min_messages = warning")
        cursor.execute(_TABLE)

    def begin(self, connection: Any) -> None:
        """The driver begins by itself."""

    def definition(self, cursor: Any, sql: str, database: str, table: str, seconds: float) -> Sequence[str]:  # noqa: ARG002
        def columns(schema: str, name: str) -> dict[str, str | None]:
            cursor.execute(_COLUMNS, (f"{quoted(schema)}.{quoted(name)}",))
            return dict(cursor.fetchall())

        return translated(sql, database, table, columns)

    def refuses(self, error: Exception) -> bool:
        """Whether it is the rows, or the statement, that the server does not take."""
        state = str(getattr(error, "sqlstate", None) or "")
        return isinstance(error, _driver().DataError) or (bool(state) and not state.startswith(_WAITS))

    def is_gone(self, error: Exception) -> bool:
        return not self.refuses(error)

    def is_done_already(self, error: Exception) -> bool:  # noqa: ARG002
        """Nothing of a statement stays that was not done in whole."""
        return False

    def columns(self, cursor: Any, table: tuple[str, str]) -> Kinds:  # noqa: ARG002
        """Of no use: a literal has its column's type."""
        return {}

    def write(self, cursor: Any, group: RowGroup, kinds: Kinds) -> None:
        if group.kind == "move":
            _move(cursor, group)
            return
        cursor.execute(_DIALECT.statement(group, kinds))
        if not (cursor.rowcount or group.key or group.kind == "insert"):
            raise Unfit(NO_ROW)


def _move(cursor: Any, group: RowGroup) -> None:
    """What the image leaves out goes with the row. One that comes again may be there already."""
    table, before, after = _DIALECT.table(group), group.before, dict(zip(group.columns, group.rows[0], strict=True))
    old = _DIALECT.where([(name, before[name]) for name in group.key], {})
    new = _DIALECT.where([(name, after.get(name, before[name])) for name in group.key], {})
    free = f"NOT EXISTS (SELECT FROM {table} WHERE {new})"
    cursor.execute(f"UPDATE {table} SET {_DIALECT.sets(group)} WHERE {old} AND {free}")  # noqa: S608
    if cursor.rowcount:
        return
    for rest in (group.where_it_was, group.where_it_goes):
        if rest is not None:
            cursor.execute(_DIALECT.statement(rest, {}))


def _last_of_key(group: RowGroup) -> list[Values]:
    """The last row of each key: one statement cannot write a row twice."""
    places = [group.columns.index(name) for name in group.key]
    return list({tuple(row[place] for place in places): row for row in group.rows}.values())


def _replaces(key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in columns)
    return f"ON CONFLICT ({', '.join(map(quoted, key))}) DO UPDATE SET {sets}"


def _one(table: str, where: str) -> str:
    return f"ctid = (SELECT ctid FROM {table} WHERE {where} LIMIT 1)"  # noqa: S608


def _same(name: str, value: Any, _kind: str) -> str:
    return f"{quoted(name)} IS NOT DISTINCT FROM {literal(value)}"


def _tuples(rows: Sequence[Values]) -> str:
    return ", ".join([f"({', '.join(map(literal, row))})" for row in rows])


_DIALECT = TargetDialect(
    quoted, literal, _tuples, lambda value, _kind: literal(value), _replaces, _last_of_key, _same, _one
)


def _driver() -> Any:
    return required("psycopg", "--target")
