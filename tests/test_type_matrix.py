"""Every column type as the server's own SELECT tells it: written by SQL, decoded from the binlog, compared as text.

Each family is written, updated and deleted under every setting of `binlog_row_metadata` that the server has, and all
images are compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from cdc_core.schema.information_schema import complete
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql import MySqlServer
from tests import matrix_characters, type_matrix
from tests.matrix_runs import (
    METADATA,
    OPERATIONS,
    changed,
    decoded,
    differences,
    grouped,
    make,
    rows_of,
    selected,
)
from tests.type_matrix import Case

pytestmark = pytest.mark.integration

_FAMILIES: dict[str, Callable[[random.Random], Iterable[Case]]] = {
    "integers": type_matrix.integers,
    "decimals": type_matrix.decimals,
    "floats": type_matrix.floats,
    "temporals": type_matrix.temporals,
    "blobs": type_matrix.blobs,
    "enums": type_matrix.enums,
    "shapes": type_matrix.shapes,
    "documents": type_matrix.documents,
}
_OWN = {"mysql9": {"vectors": type_matrix.vectors}, "mariadb": {"mariadb": type_matrix.mariadb}}
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
    [(name, family) for name in _SERVERS for family in (*_FAMILIES, *_OWN.get(name, ()))],
)
def test_every_image_is_as_selected(name: str, family: str, request: pytest.FixtureRequest) -> None:
    """Each family of types, edge values and random ones: inserted, before and after an update, deleted."""
    cases = (_FAMILIES | _OWN.get(name, {}))[family]
    _check(request.getfixturevalue(name), cases(random.Random(family)))


def test_texts_of_every_character_set(server: MySqlServer) -> None:
    """All sets that the server lists, in each type of text, in ENUM and in SET."""
    _check(server, matrix_characters.samples(random.Random(1), _charsets(server)))


def test_every_character_of_every_set(server: MySqlServer) -> None:
    """Characters without an equal in Unicode are what the server makes of them."""
    _check(server, matrix_characters.every(_charsets(server)), METADATA.get(server.version, ("FULL",))[:1])


def test_zero_dates_as_text(server: MySqlServer) -> None:
    """With `sluice.zero.dates=string` nothing of a zero or partial date is lost; real ones are as printed."""

    def resolve(schema: TableSchema) -> TableSchema:
        return complete(schema, server.connect).with_dates_as_text()

    (group,) = grouped(type_matrix.zero_dates(random.Random(2)))
    with server.database() as database:
        make(server, database, [group])
        expected = selected(server, database, group)
        journal = changed(server, database, [group], METADATA.get(server.version, ("FULL",))[0])
        for table in decoded(server, journal, database, resolve, zero_dates="string")[group.table].values():
            assert not differences(expected, rows_of(table, group), group)
