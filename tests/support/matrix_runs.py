"""Runs the cases of `support.type_matrix` on a server: written by SQL, decoded from the binlog, selected by SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql

from cdc_core.binlog.block import BlockSlice
from cdc_core.binlog.events import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from cdc_core.errors import SchemaError
from cdc_core.position import EntryPosition
from cdc_core.rows.chunks import gather
from cdc_core.rows.columns.batch import decode
from cdc_core.rows.images import walk
from cdc_core.schema.information_schema import complete
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.stream.annotate import Annotator
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import read_binlog
from tests.support.type_matrix import Case

OPERATIONS = {INSERT: "insert", UPDATE_BEFORE: "update_before", UPDATE_AFTER: "update_after", DELETE: "delete"}
METADATA = {"mariadb": ("FULL", "MINIMAL", "NO_LOG"), "5.7.22": ("",)}
_SHIFT = 1_000_000  # what the update adds to each id
_AT_ONCE = 2_000_000  # characters an INSERT
_TOGETHER = 24  # cases a table
_MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


@dataclass(frozen=True)
class Group:
    """Cases that share a table, with a nullable and a NOT NULL column each. Cases with fewer values repeat them."""

    table: str
    cases: tuple[Case, ...]

    @property
    def ddl(self) -> str:
        columns = [f"a{i} {c.declared} NULL, b{i} {c.declared} NOT NULL" for i, c in enumerate(self.cases)]
        return f"CREATE TABLE {self.table} (id INT PRIMARY KEY, {', '.join(columns)})"

    def inserts(self) -> Iterable[str]:
        """Statements that insert all values, then a row of NULLs."""
        count = max(len(case.values) for case in self.cases)
        rows = [[case.values[i % len(case.values)] for case in self.cases] for i in range(count)]
        texts = [f"({i}, {', '.join(f'{value}, {value}' for value in row)})" for i, row in enumerate(rows)]
        texts.append(f"({count}, {', '.join(f'NULL, {value}' for value in rows[0])})")
        rows_at_once = max(1, _AT_ONCE // max(map(len, texts)))
        for low in range(0, len(texts), rows_at_once):
            yield f"INSERT INTO {self.table} VALUES {', '.join(texts[low : low + rows_at_once])}"

    def asked(self) -> str:
        columns = [case.asked.format(f"{side}{i}") for i, case in enumerate(self.cases) for side in "ab"]
        return f"SELECT id, {', '.join(columns)} FROM {self.table} ORDER BY id"


def grouped(cases: Iterable[Case]) -> list[Group]:
    """The cases in few tables, since creating tables takes the time."""
    listed = list(cases)
    together = [case for case in listed if not case.alone]
    groups = [together[low : low + _TOGETHER] for low in range(0, len(together), _TOGETHER)]
    groups += [[case] for case in listed if case.alone]
    return [Group(f"t{i}", tuple(group)) for i, group in enumerate(groups)]


def make(server: MySqlServer, database: str, groups: Iterable[Group]) -> None:
    server.execute(_MODE, *(group.ddl for group in groups), database=database)


def changed(server: MySqlServer, database: str, groups: Iterable[Group], metadata: str) -> str:
    """Inserts, updates and deletes everything under this `binlog_row_metadata`. Returns the name of the binlog file."""
    server.execute("FLUSH BINARY LOGS")
    journal = server.position()[0]
    with row_metadata(server, metadata), server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute(_MODE)
        for group in groups:
            for statement in group.inserts():
                cursor.execute(statement)
            cursor.execute(f"UPDATE {group.table} SET id = id + {_SHIFT}")
            cursor.execute(f"DELETE FROM {group.table}")
    return journal


class row_metadata:  # noqa: N801
    """Sets `binlog_row_metadata` for the block, on a server that has it."""

    def __init__(self, server: MySqlServer, value: str) -> None:
        self._server, self._value = server, value

    def __enter__(self) -> None:
        if self._value:
            self._server.execute(f"SET GLOBAL binlog_row_metadata = {self._value}")

    def __exit__(self, *_: object) -> None:
        with suppress(pymysql.Error):
            self._server.execute("SET GLOBAL binlog_row_metadata = FULL")


def selected(server: MySqlServer, database: str, group: Group) -> list[tuple[Any, ...]]:
    """The rows of the table as the server selects them."""
    with server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute(_MODE)
        cursor.execute("SET SESSION sql_log_bin = 0")
        for statement in group.inserts():
            cursor.execute(statement)
        cursor.execute(group.asked())
        rows = cursor.fetchall()
        cursor.execute(f"DELETE FROM {group.table}")
    told = [case.told for case in group.cases for _ in "ab"]
    return [(i, *(None if v is None else f(v) for f, v in zip(told, values, strict=True))) for i, *values in rows]


def decoded(
    server: MySqlServer,
    journal: str,
    database: str,
    resolve: Callable[[TableSchema, EntryPosition], TableSchema] | None = None,
    **options: Any,
) -> dict[str, dict[str, pa.Table]]:
    """All images of the tables of a database in one binlog file, by table and operation."""
    block = read_binlog(Path(server.log).parent / "data" / journal)
    registry = SchemaRegistry()
    Annotator(
        registry, resolve or (lambda schema, _: complete(schema, server.connect)), lambda name, _: name == database
    ).annotate(block)
    tables: dict[str, dict[str, list[pa.RecordBatch]]] = {}
    for number in range(len(registry)):
        schema = registry.get(number)
        if schema.defect:
            raise SchemaError(schema.defect.reason, hint=schema.defect.hint)
        for chunk in gather([BlockSlice(block, 0, len(block.index))], [number]):
            images = walk(chunk, registry.row_layout(number))
            batch = decode(schema, chunk.data, images.starts, **options)
            batch.validate(full=True)
            for code, name in OPERATIONS.items():
                some = batch.filter(pa.array(images.op == code))
                tables.setdefault(schema.table, {}).setdefault(name, []).append(some)
    return {
        table: {operation: pa.Table.from_batches(batches) for operation, batches in operations.items()}
        for table, operations in tables.items()
    }


def rows_of(table: pa.Table, group: Group) -> list[tuple[Any, ...]]:
    """The decoded rows in the text of the server."""
    columns = [[value % _SHIFT for value in table["id"].to_pylist()]]
    for i, case in enumerate(group.cases):
        for side in "ab":
            values = table[f"{side}{i}"].to_pylist()
            columns.append([None if value is None else case.shown(value) for value in values])
    return sorted(zip(*columns, strict=True), key=lambda row: row[0])


def differences(expected: list[tuple[Any, ...]], actual: list[tuple[Any, ...]], group: Group) -> list[str]:
    """Each wrong value with its type."""
    found = [] if len(expected) == len(actual) else [f"{len(actual)} rows of {len(expected)}"]
    for wanted, got in zip(expected, actual, strict=False):
        for at, (one, other) in enumerate(zip(wanted, got, strict=True)):
            if one != other:
                case = group.cases[(at - 1) // 2]
                found.append(f"{case.name} {case.declared}: {one!r} came as {other!r}")
    return found
