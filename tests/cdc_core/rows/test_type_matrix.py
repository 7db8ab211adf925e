"""Every column type against the SELECT of the server: written by SQL, decoded from the binlog, compared as text.

Each family is written, updated and deleted under every setting of `binlog_row_metadata` that the server has, and all
images are compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from cdc_core.charsets.charsets import to_utf8
from cdc_core.charsets.east_asian import NAMES
from cdc_core.charsets.narrow import NARROW
from cdc_core.errors import SchemaError
from cdc_core.position import EntryPosition
from cdc_core.schema.information_schema import complete
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from tests.support import matrix_characters, type_matrix
from tests.support.matrix_runs import (
    METADATA,
    OPERATIONS,
    changed,
    decoded,
    differences,
    grouped,
    make,
    row_metadata,
    rows_of,
    selected,
)
from tests.support.type_matrix import Case

pytestmark = pytest.mark.integration

_SERVERS = ["mysql57", "mysql8", "mysql9", "mariadb"]


@pytest.fixture(params=_SERVERS)
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


def _charsets(server: MySqlServer) -> list[str]:
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        return [row[0] for row in cursor.fetchall()]


def _check(server: MySqlServer, cases: Iterable[Case], settings: Iterable[str] = ()) -> None:
    groups = grouped(cases)
    with server.database() as database:
        make(server, database, groups)
        expected = {group.table: selected(server, database, group) for group in groups}
        for metadata in settings or METADATA.get(server.version, ("FULL", "MINIMAL")):
            tables = decoded(server, changed(server, database, groups, metadata), database)
            for group in groups:
                for operation in OPERATIONS.values():
                    wrong = differences(expected[group.table], rows_of(tables[group.table][operation], group), group)
                    assert not wrong, f"{metadata} {operation}: {wrong[:5]}"


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family) for name in _SERVERS for family in (*type_matrix.FAMILIES, *type_matrix.OWN.get(name, ()))],
)
def test_every_image_is_as_selected(name: str, family: str, request: pytest.FixtureRequest) -> None:
    """Edge values and random ones of each family are inserted, updated and deleted."""
    cases = (type_matrix.FAMILIES | type_matrix.OWN.get(name, {}))[family]
    _check(request.getfixturevalue(name), cases(random.Random(family)))


def test_texts_of_every_character_set(server: MySqlServer) -> None:
    """All sets of the server, in each type of text, in ENUM and in SET."""
    _check(server, matrix_characters.samples(random.Random(1), _charsets(server)))


@pytest.mark.full
def test_every_character_of_every_set(server: MySqlServer) -> None:
    """A character without an equal in Unicode becomes what the server makes of it."""
    _check(server, matrix_characters.every(_charsets(server)), METADATA.get(server.version, ("FULL",))[:1])


@pytest.mark.full
@pytest.mark.parametrize("name", ["mysql8", "mariadb"])
def test_a_key_has_the_code_that_the_server_writes(name: str, request: pytest.FixtureRequest) -> None:
    """Where it converts a text of Unicode. Another code of the same character, and what Unicode lacks, is refused:
    two keys would be one text."""
    server: MySqlServer = request.getfixturevalue(name)
    with server.root() as connection, connection.cursor() as cursor:
        for charset in set(_charsets(server)) & {*NARROW, *NAMES}:
            codes = list(matrix_characters.codes(charset))
            for low in range(0, len(codes), 1000):
                part = codes[low : low + 1000]
                again = (f"CONVERT(CONVERT(CONVERT(x'{code.hex()}' USING {charset})" for code in part)
                cursor.execute(f"SELECT {', '.join(f'HEX({one} USING utf8mb4) USING {charset}))' for one in again)}")
                for code, written in zip(part, cursor.fetchall()[0], strict=True):
                    raw, ends = np.frombuffer(bytearray(code), np.uint8), np.array([0, len(code)], np.int32)
                    (fault, _), _, _ = to_utf8(charset, raw, ends, unique=True)
                    known = to_utf8(charset, raw, ends)[1].tobytes()[:3] != "\ufffd".encode()
                    assert (not fault) == (known and bytes.fromhex(written) == code), (charset, code.hex(), written)


def test_zero_dates_as_text(server: MySqlServer) -> None:
    """With `sluice.zero.dates=string` zero and partial dates keep all their parts; real dates are as printed."""

    def resolve(schema: TableSchema, _: EntryPosition) -> TableSchema:
        return complete(schema, server.connect).with_dates_as_text()

    (group,) = grouped(type_matrix.zero_dates(random.Random(2)))
    with server.database() as database:
        make(server, database, [group])
        expected = selected(server, database, group)
        journal = changed(server, database, [group], METADATA.get(server.version, ("FULL",))[0])
        for table in decoded(server, journal, database, resolve, zero_dates="string")[group.table].values():
            assert not differences(expected, rows_of(table, group), group)


def test_columns_that_nobody_wrote(server: MySqlServer) -> None:
    """Generated columns are in the log, virtual ones included; invisible ones and a hidden key are ordinary columns."""
    newer, hides = server.version != "5.7.22", server.version in ("8.0.31", "9")
    columns = "v INT, twice INT AS (v * 2) VIRTUAL, thrice VARCHAR(9) AS (CONCAT(v, 'é')) STORED"
    columns += ", unseen INT INVISIBLE DEFAULT 5" if newer else ", unseen INT DEFAULT 5"
    own = "SET SESSION sql_generate_invisible_primary_key = ON" if hides else "SET @unused = 0"
    with server.database() as database:
        server.execute(own, f"CREATE TABLE t ({columns})", database=database)
        if hides:
            server.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
        try:
            for metadata in METADATA.get(server.version, ("FULL", "MINIMAL")):
                found = _written_by_nobody(server, database, metadata)
                key = {"my_row_id": [1]} if hides else {}
                old = {"v": [1], "twice": [2], "thrice": ["1é"], "unseen": [5]}
                new = {"v": [4], "twice": [8], "thrice": ["4é"], "unseen": [6]}
                for operation, row in zip(OPERATIONS.values(), (old, old, new, new), strict=True):
                    assert found[operation] == key | row
        finally:
            if hides:
                server.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = ON")


def _written_by_nobody(server: MySqlServer, database: str, metadata: str) -> dict[str, dict[str, list[object]]]:
    server.execute("TRUNCATE t", "FLUSH BINARY LOGS", database=database)
    journal = server.position()[0]
    with row_metadata(server, metadata):
        statements = ("INSERT INTO t (v) VALUES (1)", "UPDATE t SET v = 4, unseen = 6", "DELETE FROM t")
        server.execute(*statements, database=database)
    return {name: table.to_pydict() for name, table in decoded(server, journal, database)["t"].items()}


def test_a_hidden_hash_of_mariadb_is_left_out(mariadb: MySqlServer) -> None:
    """A unique key over long values adds a column that SELECT does not show; without its name the table is refused."""
    row = {"b": ["long"], "u": ["123e4567-e89b-12d3-a456-426655440000"]}
    with mariadb.database() as database:
        mariadb.execute("CREATE TABLE t (b TEXT, u UUID, UNIQUE KEY (b))", database=database)
        assert _inserted(mariadb, database, row, "FULL") == row
        mariadb.execute("TRUNCATE t", database=database)
        with pytest.raises(SchemaError, match=r"the table has changed since .* binlog_row_metadata=FULL"):
            _inserted(mariadb, database, row, "MINIMAL")


def _inserted(server: MySqlServer, database: str, row: dict[str, list[str]], metadata: str) -> dict[str, list[str]]:
    server.execute("FLUSH BINARY LOGS")
    journal = server.position()[0]
    with row_metadata(server, metadata):
        server.execute(f"INSERT INTO t VALUES ('{row['b'][0]}', '{row['u'][0]}')", database=database)
    table: dict[str, list[str]] = decoded(server, journal, database)["t"]["insert"].to_pydict()
    return table
