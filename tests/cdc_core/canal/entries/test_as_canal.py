"""Entries as a Java Canal 1.1.7 gives them for the same statements; `tests/canal_java/test_entries.py` recorded it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.canal.entries.encode import Encoder
from cdc_core.canal.entries.options import Options
from cdc_core.stream.ddl_events import DdlReader, Traits
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated
from tests.support.binlog_files import capture
from tests.support.canal_matrix import TYPES, comparable, statements
from tests.support.entries import entries_of

pytestmark = pytest.mark.integration

FIXTURE = Path(__file__).parents[3] / "fixtures" / "canal_entries.json"


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_every_entry_is_canals(mysql8: MySqlServer, utc: None) -> None:
    """Types, flags, texts, headers and statements, one by one. Of the statement that drops several tables at once and
    of columns dropped since, `test_encode.py` says what we give."""
    with mysql8.database() as database:
        slices, registry = annotated(mysql8, capture(mysql8, *statements(database)))
        reader = DdlReader(lambda name, _: name == database)
        entries = comparable(entries_of(Encoder(registry, reader, Options()).pieces(slices)), database)
    expected = json.loads(FIXTURE.read_text())
    for found, canals in zip(entries, expected, strict=True):
        assert found == canals


@pytest.mark.parametrize("server", ["mysql57", "mysql9", "mariadb"])
def test_every_server_gives_the_same_texts(server: str, request: pytest.FixtureRequest, utc: None) -> None:
    """Of each type, but for how it is declared, and for JSON, which MariaDB has as text."""
    mysql: MySqlServer = request.getfixturevalue(server)
    expected = {entry[3]: entry[-1] for entry in json.loads(FIXTURE.read_text()) if entry[1] == "INSERT"}
    with mysql.database() as database:
        slices, registry = annotated(mysql, capture(mysql, *statements(database, types_only=True)))
        reader = DdlReader(lambda name, _: name == database, lambda: Traits(mariadb=server == "mariadb"))
        entries = comparable(entries_of(Encoder(registry, reader, Options()).pieces(slices)), database)
    found = {entry[3]: entry[-1] for entry in entries if entry[1] == "INSERT"}
    assert len(found) == len(TYPES)
    for table, (declared, _) in zip(found, TYPES, strict=True):
        if declared != "JSON" or server != "mariadb":
            assert _plain(found[table]) == _plain(expected[table]), declared
    assert [entry[0] for entry in entries].count("TRANSACTIONBEGIN") == len(TYPES)
    assert [entry[0] for entry in entries].count("TRANSACTIONEND") == len(TYPES)


def _plain(rows: list[Any]) -> list[Any]:
    """Rows without the types as declared."""
    return [[[column[:-1] for column in columns] for columns in row] for row in rows]
