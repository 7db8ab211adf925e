"""Statements that change columns, in sessions of every state, and whether we know what they make of old rows.

For each one the definition and the values that we compute from the statement's event are compared with the server's.
Spark is not needed: a computed value is a constant or the old value, and conditions are asked of the server.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pymysql

from cdc_core.binlog import query_event
from cdc_core.schema.agreement import with_defaults_of
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.conventions import Conventions, in_session, read_conventions
from cdc_core.schema.ddl import ChangeKind, Effect
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.information_schema import definition
from cdc_core.schema.interpreter import definition_after
from cdc_core.schema.table import Column, TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.ddl.creation import columns_of
from spark_jobs.lake.alteration import alteration
from spark_jobs.lake.copying import CopyNeeded
from tests.support.session_states import Trial, trials

_CAST = re.compile(r"CAST\((NULL|'(?:[^'\\]|\\.|'')*'|`[^`]*`) AS ([^)]*(?:\(\d+,\s*\d+\))?)\)", re.DOTALL)
_QUERY = 2


@dataclass(slots=True)
class Tally:
    """What the trials came to. `computed`: values that we knew; `copied`: those that we left to a copy."""

    computed: int = 0
    copied: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)


def compare(server: MySqlServer, seed: int, count: int) -> Tally:
    """Runs the trials of a seed on a server."""
    tally = Tally()
    with server.database("old") as database, server.root(database) as connection:
        with connection.cursor() as cursor:
            work = _Work(server, connection, database, read_conventions(cursor))
        for trial in trials(Random(seed), count, server.version):
            work.run(trial, tally)
    return tally


@dataclass(slots=True)
class _Work:
    server: MySqlServer
    connection: pymysql.connections.Connection[Any]
    database: str
    conventions: Conventions

    def run(self, trial: Trial, tally: Tally) -> None:
        if not self._prepare(trial):
            tally.refused += 1
            return
        with self.server.connect() as plain:
            before = definition(plain, self.database, "t")
        file, start = self.server.position()
        if not self._alter(trial):
            tally.refused += 1
            return
        query = next(q for q in self._queries(file, start) if "ALTER" in q.text.upper()[:60])
        with self.server.connect() as plain:
            after = definition(plain, self.database, "t")
        conventions = in_session(self.conventions, query.session)
        assert before is not None
        assert after is not None
        ((effect,), understood) = effects(query.text, query.database, query.dialect)
        made = definition_after(before, effect, conventions) if understood else None
        known = None if made is None else _comparable(with_defaults_of(made, after))
        if known is not None and known != _comparable(after):
            pairs = zip(known, _comparable(after), strict=False)
            tally.faults.append(f"{trial}: {next(pair for pair in pairs if pair[0] != pair[1])}")
        try:
            wrong = self._values(replace(effect, before=before, schema=made))
        except CopyNeeded:
            tally.copied += 1
            return
        if wrong:
            tally.faults.append(f"{trial}: {wrong}")
        tally.computed += 1

    def _prepare(self, trial: Trial) -> bool:
        self._run("SET NAMES utf8mb4", "SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'")
        with suppress(pymysql.MySQLError):
            self._run("SET SESSION explicit_defaults_for_timestamp = ON")
        self._run("DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS old")
        try:
            self._run(trial.create, *trial.inserts, "CREATE TABLE old LIKE t")
            names = [name for name, *_ in self._rows("SHOW COLUMNS FROM t") if name != "g"]
            shown = ", ".join(names)
            self._run(f"INSERT INTO old ({shown}) SELECT {shown} FROM t")
        except pymysql.MySQLError:
            return False
        return True

    def _alter(self, trial: Trial) -> bool:
        try:
            for statement in trial.session:
                with suppress(pymysql.MySQLError):
                    self._run(statement)
            self.connection.query(trial.alter)  # type: ignore[arg-type]  # bytes, as a client of any charset sends them
        except (pymysql.MySQLError, UnicodeError):
            return False
        finally:
            self._run("SET NAMES utf8mb4", "SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'")
        return True

    def _values(self, effect: Effect) -> str:
        """What is wrong with the values that we would give old rows. Raises CopyNeeded."""
        assert effect.before is not None
        plan = alteration(effect, columns_of(effect.before))
        new = {row["id"]: row for row in self._named("t")}
        old = {row["id"]: row for row in self._named("old")}
        if plan is None:
            shown = {c.name for c in effect.before.columns}
            added = [change.name for change in effect.changes if change.kind is ChangeKind.ADD_COLUMN]
            wrong = [row[name] for row in new.values() for name in added if name not in shown and row[name] is not None]
            return f"NULL for {wrong}" if wrong else ""
        for condition in plan.unless:
            if self._rows(f"SELECT 1 FROM old WHERE {condition} LIMIT 1"):
                raise CopyNeeded(condition, "t")
        for one in plan.columns:
            for key, row in new.items():
                mine, theirs = _value(one.value, old[key]), row[one.column.name]
                if not _same(mine, theirs, one.column.type):
                    return f"{one.column.name} is {mine!r} by {one.value}, at the server {theirs!r}"
        return ""

    def _named(self, table: str) -> list[dict[str, Any]]:
        with self.connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            return list(cursor.fetchall())

    def _rows(self, sql: str) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def _run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _queries(self, file: str, start: int) -> Iterator[query_event.Query]:
        """The statements that the binlog has from a place on."""
        with (self.server.log.parent / "data" / file).open("rb") as log:
            log.seek(start)
            while len(header := log.read(19)) == 19:
                kind, size = header[4], struct.unpack_from("<I", header, 9)[0]
                body = log.read(size - 19)[:-4]
                if kind == _QUERY:
                    yield query_event.parse(body, load=False, mariadb=self.server.version == "mariadb")


def _comparable(schema: TableSchema) -> list[str]:
    return [str(schema.primary_key), *(str(_shown(column)) for column in schema.columns)]


def _shown(column: Column) -> Column:
    """Without what looks different each time: expressions, moments in a time zone, what the catalogue cannot show."""
    left_out = column.default_expression or column.type_code == ColumnType.TIMESTAMP2 or "?" in (column.default or "")
    left_out |= "zerofill" in column.column_type  # MySQL 5.7 shows the zeros
    left_out |= any(letter > "\uffff" for letter in column.default or "")
    return replace(column, default=None, default_expression=False) if left_out else column


def _value(sql: str, row: dict[str, Any]) -> Any:
    """The value of a plan's expression, without its type."""
    inner = found[1] if (found := _CAST.fullmatch(sql)) else sql
    if inner == "NULL":
        return None
    if inner.startswith("`"):
        return row[inner[1:-1]]
    return re.sub(r"\\(.)|''", lambda one: one[1] or "'", inner[1:-1])


def _same(mine: Any, theirs: Any, kind: str) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    if mine == theirs or str(mine) == str(theirs):
        return True
    with suppress(ArithmeticError, ValueError, TypeError):
        if kind == "timestamp_ntz":
            return bool(datetime.fromisoformat(mine) == theirs)
        if kind in ("float", "double"):
            return abs(float(mine) - float(theirs)) <= 1e-6 * abs(float(theirs))
        return Decimal(str(mine)) == Decimal(str(theirs))
    return False
