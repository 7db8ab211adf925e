"""Entries as a Java Canal 1.1.7 gives them for the same statements; `tests/canal_java/test_entries.py` recorded it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.entries.encode import Encoder
from cdc_core.entries.options import Options
from cdc_core.stream.ddl_events import DdlReader
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated
from tests.support.binlog_files import capture
from tests.support.canal_matrix import comparable, statements
from tests.support.entries import entries_of

pytestmark = pytest.mark.integration

FIXTURE = Path(__file__).parents[2] / "fixtures" / "canal_entries.json"


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
