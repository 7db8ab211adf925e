"""A row's text and hash by the server and by us: equal for every column type, on every server."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.view import Opened, opened
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.snapshot.sql import quote
from spark_jobs.verify.row_hash import lake_hash, source_hash, source_key_hash
from spark_jobs.verify.row_text import lake_text, source_text
from tests.support import matrix_characters, type_matrix
from tests.support.matrix_runs import grouped, make
from tests.support.type_matrix import Case

_SERVERS = ["mysql57", "mysql8", "mysql9", "mariadb"]
_MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


@pytest.mark.parametrize("key", [["id"], []])
def test_what_is_exchanged_is_seen(key: list[str]) -> None:
    """Rows that exchange values, columns that do, NULL and an empty text, rows that are there twice, and a slice of
    a batch."""
    names, one, other = ["id", "a", "b"], {"id": 1, "a": "x", "b": "y"}, {"id": 2, "a": "xx", "b": "z"}
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])

    def hashes(*rows: dict[str, object]) -> list[int]:
        batch = pa.RecordBatch.from_pylist([{"id": 0, "a": "", "b": ""}, *rows], schema)[1:]
        found: list[int] = lake_hash(batch, key, names)[1].tolist()
        return found

    def total(*rows: dict[str, object]) -> int:
        return sum(hashes(*rows)) % (1 << 64)

    assert total(one, other) == total(other, one)
    assert total(one, other) != total({**one, "a": "xx"}, {**other, "a": "x"})
    assert total(one, one) != total(other, other)
    assert hashes({**one, "a": "", "b": ""}) != hashes({**other, "a": "", "b": ""})
    assert hashes(one) != hashes({**one, "a": "y", "b": "x"})
    assert hashes({**one, "a": None}) != hashes({**one, "a": ""})
    assert hashes({**one, "a": None, "b": None}) != hashes({**one, "a": "", "b": ""})


def read(server: MySqlServer, database: str, table: str, zero_dates: ZeroDates) -> tuple[TableSchema, pa.Table]:
    source = Source(server.host, server.port, server.user, server.password)
    with opened(source, database, table, as_text=zero_dates == "string", sleep=lambda _: None) as there:
        assert isinstance(there, Opened)
        return there.schema, pa.Table.from_batches(list(read_rows(there.connection, there.schema, zero_dates)))


def told(server: MySqlServer, schema: TableSchema) -> dict[str, list[bytes | None]]:
    """The text of each column's values, by the server, in the order of `id`."""
    source = Source(server.host, server.port, server.user, server.password)
    names = [column.name for column in schema.shown]
    listed = ", ".join(f"CAST({source_text(schema, [name])} AS BINARY)" for name in names)
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {listed} FROM {quote(schema.database)}.{quote(schema.table)} ORDER BY id")
        return dict(zip(names, map(list, zip(*cursor.fetchall(), strict=True)), strict=True))


def _is_short(told: bytes | None, ours: bytes | None) -> bool:
    """MySQL 5.7 and MariaDB print small doubles without an exponent: their rows are looked at by their values."""
    return (
        b"e-" in (ours or b"")
        and (told or b"").lstrip(b"-").startswith(b"0.0")
        and float(told or 0) == float(ours or 0)
    )


def check(server: MySqlServer, cases: Iterable[Case], zero_dates: ZeroDates = "null") -> None:
    groups = grouped(cases)
    with server.database() as database:
        make(server, database, groups)
        for group in groups:
            server.execute(_MODE, *group.inserts(), database=database)
            schema, rows = read(server, database, group.table, zero_dates)
            (batch,) = rows.sort_by("id").combine_chunks().to_batches()
            for name, texts in told(server, schema).items():
                found = lake_text(batch, [name]).to_pylist()
                odd = [(a, b) for a, b in zip(texts, found, strict=True) if a != b and not _is_short(a, b)]
                assert not odd, (group.table, schema.shown[batch.column_names.index(name)], odd[:3])
            check_hashes(server, schema, batch)


def check_hashes(server: MySqlServer, schema: TableSchema, batch: pa.RecordBatch) -> None:
    """The server's hash is ours, but for rows with a small double."""
    names = [column.name for column in schema.shown]
    keys, hashes = lake_hash(batch, schema.primary_key, names)
    texts = lake_text(batch, names).to_pylist()
    ours = list(zip(keys.tolist(), hashes.tolist(), texts, strict=True))
    without = replace(schema, primary_key=())
    whole = zip(lake_hash(batch, (), names)[1].tolist(), texts, strict=True)
    source = Source(server.host, server.port, server.user, server.password)
    with connect(source) as connection, connection.cursor() as cursor:
        table = f"{quote(schema.database)}.{quote(schema.table)}"
        cursor.execute(f"SELECT {source_key_hash(schema)}, {source_hash(schema)} FROM {table} ORDER BY id")
        told = cursor.fetchall()
        cursor.execute(f"SELECT {source_hash(without)} FROM {table} ORDER BY id")
        told_whole = [one for (one,) in cursor.fetchall()]
    odd = [(a, b) for a, b in zip(told, ours, strict=True) if a != b[:2] and b"e-" not in b[2]]
    assert not odd, (schema.name, odd[:3])
    odd = [(a, b) for a, b in zip(told_whole, whole, strict=True) if a != b[0] and b"e-" not in b[1]]
    assert not odd, (schema.name, odd[:3])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family) for name in _SERVERS for family in (*type_matrix.FAMILIES, *type_matrix.OWN.get(name, ()))],
)
def test_the_server_says_the_same_text(name: str, family: str, request: pytest.FixtureRequest) -> None:
    """Edge values and random ones of each family."""
    cases = (type_matrix.FAMILIES | type_matrix.OWN.get(name, {}))[family]
    check(request.getfixturevalue(name), cases(random.Random(family)))


@pytest.fixture(params=_SERVERS)
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


@pytest.mark.integration
def test_texts_of_character_sets(server: MySqlServer) -> None:
    """In each type of text."""
    check(server, matrix_characters.samples(random.Random(1), ["latin1", "utf8mb4", "gbk", "utf16"]))


@pytest.mark.integration
def test_zero_dates(server: MySqlServer) -> None:
    """As text."""
    check(server, list(type_matrix.zero_dates(random.Random(2))), "string")
