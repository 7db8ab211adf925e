"""Every column type as a copy reads it, against the binlog of the same rows: the two must be equal to the last bit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.errors import DecodeError
from cdc_core.position import EntryPosition
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.information_schema import complete
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.stream.annotate import Annotator
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.view import Opened, opened
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source
from tests.support import matrix_characters, type_matrix
from tests.support.binlog_files import read_binlog
from tests.support.matrix_runs import Group, decoded, grouped, make
from tests.support.type_matrix import Case

pytestmark = pytest.mark.integration

_SERVERS = ["mysql57", "mysql8", "mysql9", "mariadb"]
_MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


def no_sleep(_: float) -> None:
    """The server is at rest."""


def copied(
    server: MySqlServer, database: str, table: str, zero_dates: ZeroDates = "fail"
) -> tuple[TableSchema, pa.Table]:
    source = Source(server.host, server.port, server.user, server.password)
    with opened(source, database, table, as_text=zero_dates == "string", sleep=no_sleep) as there:
        assert isinstance(there, Opened)
        batches = list(read_rows(there.connection, there.schema, zero_dates))
    return there.schema, pa.Table.from_batches(batches)


def written(server: MySqlServer, database: str, groups: Iterable[Group]) -> str:
    """Inserts all values. Returns the name of the binlog file."""
    server.execute("FLUSH BINARY LOGS")
    for group in groups:
        server.execute(_MODE, *group.inserts(), database=database)
    return server.position()[0]


def streamed(server: MySqlServer, journal: str, database: str, registry: SchemaRegistry) -> dict[str, TableSchema]:
    """The definitions that the stream interns, by table."""
    block = read_binlog(Path(server.log).parent / "data" / journal)
    Annotator(registry, lambda one, _: complete(one, server.connect), lambda name, _: name == database).annotate(block)
    return {registry.get(number).table: registry.get(number) for number in range(len(registry))}


def by_id(table: pa.Table) -> dict[str, Any]:
    """Columns as lists, floats as their bits, moments as their numbers."""
    ordered = table.sort_by("id") if "id" in table.column_names else table
    found = {}
    for name in ordered.column_names:
        values = ordered[name].combine_chunks()
        kind = values.type
        if pa.types.is_floating(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        found[name] = (kind, values.to_pylist())
    return found


def check(server: MySqlServer, cases: Iterable[Case], zero_dates: ZeroDates = "fail") -> None:
    groups = grouped(cases)
    with server.database() as database:
        make(server, database, groups)
        journal = written(server, database, groups)

        def resolve(schema: TableSchema, _: EntryPosition) -> TableSchema:
            whole = complete(schema, server.connect)
            return whole.with_dates_as_text() if zero_dates == "string" else whole

        tables = decoded(server, journal, database, resolve, zero_dates=zero_dates)
        schemas = streamed(server, journal, database, SchemaRegistry())
        for group in groups:
            schema, rows = copied(server, database, group.table, zero_dates)
            known = schemas[group.table]
            assert schema == (known.with_dates_as_text() if zero_dates == "string" else known)
            expected = by_id(tables[group.table]["insert"])
            for name, column in by_id(rows).items():
                assert column == expected[name], f"{group.table}.{name}"
            assert list(expected) == rows.column_names


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family) for name in _SERVERS for family in (*type_matrix.FAMILIES, *type_matrix.OWN.get(name, ()))],
)
def test_a_copy_reads_what_the_binlog_has(name: str, family: str, request: pytest.FixtureRequest) -> None:
    """Edge values and random ones of each family: values, types and definitions."""
    cases = (type_matrix.FAMILIES | type_matrix.OWN.get(name, {}))[family]
    check(request.getfixturevalue(name), cases(random.Random(family)))


@pytest.fixture(params=_SERVERS)
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


def test_texts_of_every_character_set(server: MySqlServer) -> None:
    """All sets of the server, in each type of text, in ENUM and in SET."""
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        charsets = [row[0] for row in cursor.fetchall()]
    check(server, matrix_characters.samples(random.Random(1), charsets))


def test_zero_dates(server: MySqlServer) -> None:
    """As text, as NULL, or refused with the column and the date."""
    cases = list(type_matrix.zero_dates(random.Random(2)))
    check(server, cases, "string")
    check(server, cases, "null")
    (group,) = grouped(cases)
    with server.database() as database:
        make(server, database, [group])
        written(server, database, [group])
        with pytest.raises(DecodeError, match="zero or partial date, 0000-00-00"):
            copied(server, database, group.table)


def test_columns_that_nobody_wrote(server: MySqlServer) -> None:
    """Generated columns, virtual ones included, invisible ones, a hidden key, ZEROFILL, names with quotes."""
    newer, hides = server.version != "5.7.22", server.version in ("8.0.31", "9")
    columns = "v INT(5) ZEROFILL, twice INT AS (v * 2) VIRTUAL, thrice VARCHAR(9) AS (CONCAT(v, 'é')) STORED"
    columns += ', `a``b "c` DECIMAL(9,2) ZEROFILL, unseen INT ' + ("INVISIBLE" if newer else "") + " DEFAULT 5"
    own = "SET SESSION sql_generate_invisible_primary_key = ON" if hides else "SET @unused = 0"
    with server.database() as database:
        server.execute(own, f"CREATE TABLE `t``x` ({columns})", database=database)
        server.execute("FLUSH BINARY LOGS")
        server.execute('INSERT INTO `t``x` (v, `a``b "c`) VALUES (1, 1.5), (2, 0)', database=database)
        journal = server.position()[0]
        tables = decoded(server, journal, database)
        known = streamed(server, journal, database, SchemaRegistry())["t`x"]
        schema, rows = copied(server, database, "t`x")
    assert schema == known
    assert by_id(rows) == by_id(tables["t`x"]["insert"])
