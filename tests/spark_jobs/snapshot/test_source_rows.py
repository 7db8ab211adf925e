"""Rows are found by keys of every type; one that could be missed is not taken for gone."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from cdc_core.charsets.east_asian import NAMES as EAST_ASIAN
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot import source_rows
from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule
from spark_jobs.snapshot.literals import literal, plain
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.snapshot.source_rows import Touched, Unproven, touched
from tests.support import matrix_characters, type_matrix
from tests.support.type_matrix import Case

pytestmark = pytest.mark.integration

_FULL = (pytest.mark.full,)
_SERVERS: dict[str, tuple[pytest.MarkDecorator, ...]] = {"mysql8": (), "mariadb": (), "mysql57": _FULL, "mysql9": _FULL}
_NO_KEYS = ("documents", "shapes", "vectors")
_KEYS = ("CHAR(60)", "VARCHAR(60)", "TEXT", "ENUM")
_TOGETHER = 3  # cases a key
_MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


@pytest.fixture(params=[pytest.param(name, marks=marks) for name, marks in _SERVERS.items()])
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


@pytest.fixture
def database(server: MySqlServer) -> Iterator[str]:
    with server.database() as name:
        yield name


class Child:
    """A table whose key has some columns, and whose column `p` references a parent."""

    def __init__(self, server: MySqlServer, database: str, table: str, zero_dates: ZeroDates = "fail") -> None:
        self.key = ForeignKey((database, table), ("p",), (database, "p"), ("id",), Rule.CASCADE, Rule.RESTRICT)
        self._zero_dates = zero_dates
        self._source = Source(server.host, server.port, server.user, server.password)

    def _schema(self, connection: pymysql.Connection[Any]) -> TableSchema:
        schema = definition(connection, *self.key.child)
        assert schema is not None
        return schema.with_dates_as_text() if self._zero_dates == "string" else schema

    def rows(self) -> tuple[TableSchema, pa.Table]:
        with connect(self._source) as connection:
            schema = self._schema(connection)
            return schema, pa.Table.from_batches(read_rows(connection, schema, self._zero_dates))

    def touched(self, rows: pa.Table, columns: Sequence[str] = (), key: Sequence[str] = ()) -> Touched:
        """`columns` of the lake's table, and its `key`, where they are not those of the source's rows."""
        with closing(connect(self._source)) as connection:
            key, columns = key or self._schema(connection).primary_key, columns or rows.column_names
            return touched(connection, self.key, key, rows, columns, self._zero_dates)


def make(server: MySqlServer, database: str, table: str, cases: Sequence[Case]) -> None:
    """The values of the cases, side by side, are the keys of the rows: as many as are different."""
    columns, key = [], []
    for number, case in enumerate(cases):
        columns.append(f"k{number} {case.declared} NOT NULL")
        prefix = "(50)" if case.declared.split()[0].endswith(("TEXT", "BLOB")) else ""
        key.append(f"k{number}{prefix}")
    rows = [[case.values[row % len(case.values)] for case in cases] for row in range(max(len(c.values) for c in cases))]
    listed = ", ".join(f"({', '.join(values)}, 2)" for values in rows)
    server.execute(
        _MODE,
        f"CREATE TABLE {table} ({', '.join(columns)}, p INT, PRIMARY KEY ({', '.join(key)}))",
        f"INSERT IGNORE INTO {table} VALUES {listed}",
        database=database,
    )


def check(server: MySqlServer, database: str, cases: Iterable[Case], zero_dates: ZeroDates = "fail") -> int:
    """Each row is found, and one that is deleted is gone. Returns how many keys have no literal."""
    listed, unknown = list(cases), 0
    for low in range(0, len(listed), _TOGETHER):
        some = listed[low : low + _TOGETHER]
        table = f"t{low}_{len(listed)}"
        make(server, database, table, some)
        child = Child(server, database, table, zero_dates)
        schema, rows = child.rows()
        columns = [column for column in schema.columns if column.name in schema.primary_key]
        keys = list(zip(*(plain(rows[column.name]) for column in columns), strict=True))
        known = [all(literal(*one) for one in zip(columns, key, strict=True)) for key in keys]
        unknown += known.count(False)
        rows = rows.filter(pa.array(known)).set_column(len(columns), "p", pa.array([1] * known.count(True), pa.int32()))
        what = [case.declared for case in some]
        found = child.touched(rows)
        assert (found.rows, found.gone) == (list(range(rows.num_rows)), [False] * rows.num_rows), what
        assert found.values["p"].to_pylist() == [2] * rows.num_rows
        server.execute(f"DELETE FROM {table} WHERE k0 IS NOT NULL LIMIT {len(keys) // 2}", database=database)
        assert child.touched(rows).gone.count(True) >= rows.num_rows - len(keys) + len(keys) // 2, what
    return unknown


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "family"),
    [
        pytest.param(name, family, marks=marks)
        for name, marks in _SERVERS.items()
        for family in (*type_matrix.FAMILIES, *type_matrix.OWN.get(name, ()))
        if family not in _NO_KEYS
    ],
)
def test_rows_are_found_by_a_key_of_any_type(name: str, family: str, request: pytest.FixtureRequest) -> None:
    """Edge values and random ones. Of labels there are some that the server does not find."""
    server: MySqlServer = request.getfixturevalue(name)
    cases = (type_matrix.FAMILIES | type_matrix.OWN.get(name, {}))[family](random.Random(family))
    with server.database() as database:
        unknown = check(server, database, [one for one in cases if not one.alone and "COMPRESSED" not in one.declared])
    assert bool(unknown) == (family == "enums")


@pytest.mark.in_turn
def test_rows_are_found_by_texts_of_every_character_set(server: MySqlServer, database: str) -> None:
    """Those whose bytes are known: not beyond ASCII in East Asian sets."""
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        charsets = [str(row[0]) for row in cursor.fetchall()]
    cases = [case for case in matrix_characters.samples(random.Random(1), charsets) if case.declared.startswith(_KEYS)]
    exact = [case for case in cases if case.name not in EAST_ASIAN]
    assert check(server, database, exact) == 0
    assert check(server, database, [case for case in cases if case.name in EAST_ASIAN]) > 0


def test_zero_dates_are_found_as_text_alone(server: MySqlServer, database: str) -> None:
    """As NULL they are not told apart."""
    cases = list(type_matrix.zero_dates(random.Random(2)))
    assert check(server, database, cases, "string") == 0
    child = Child(server, database, f"t0_{len(cases)}", "null")
    with pytest.raises(Unproven, match="cannot be looked up exactly"):
        child.touched(child.rows()[1])


def test_what_is_not_found_may_be_there(mysql8: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a literal that the server takes for another value, by one that it takes for several, by another key."""
    with mysql8.database() as database:
        mysql8.execute(
            "CREATE TABLE t (at TIME PRIMARY KEY, p INT)",
            "INSERT INTO t VALUES ('09:00:00', 1), ('10:00:00', 1)",
            "CREATE TABLE u (name VARCHAR(9) PRIMARY KEY, p INT) COLLATE utf8mb4_general_ci",
            "INSERT INTO u VALUES ('A', 1)",
            database=database,
        )
        at, name = Child(mysql8, database, "t"), Child(mysql8, database, "u")
        _, rows = at.rows()
        mysql8.execute("DELETE FROM t WHERE at = '09:00:00'", database=database)
        assert at.touched(rows).gone == [True]
        with pytest.raises(Unproven, match="compare as equal"):
            name.touched(pa.table({"name": ["a"], "p": pa.array([1], pa.int32())}))
        with pytest.raises(Unproven, match="changed its type"):
            at.touched(pa.table({"at": ["09:00:00"], "p": pa.array([1], pa.int32())}))
        with pytest.raises(Unproven, match="primary key changed at the source"):
            at.touched(rows.rename_columns(["at", "p"]), key=("p",))
        monkeypatch.setattr(source_rows, "literal", lambda _, value: str(value))
        with pytest.raises(Unproven, match="existing rows are not found"):
            at.touched(rows)


def test_generated_columns_come_with_the_foreign_key(server: MySqlServer, database: str) -> None:
    """Of a row that is there. A name that the lake does not know yet may be that of one of its columns."""
    server.execute(
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, twice INT AS (p * 2) VIRTUAL, v INT DEFAULT 7)",
        "INSERT INTO c (id, p) VALUES (1, 5), (2, 6), (3, NULL)",
        database=database,
    )
    child = Child(server, database, "c")
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "p": pa.array([1, 6, 1, 1], pa.int32())})
    found = child.touched(rows, columns=("id", "p", "twice", "v"))
    assert (found.rows, found.gone, found.there) == ([0, 2, 3], [False, False, True], [True, True, False])
    assert found.values.to_pydict() == {"p": [5, None, None], "twice": [10, None, None]}
    assert child.touched(rows, columns=("id", "p", "v")).values.column_names == ["p"]
    with pytest.raises(Unproven, match="were renamed"):
        child.touched(rows, columns=("id", "p", "double", "v"))
