"""A source that goes away while a comparison waits for the lake is named, with what to do."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from cdc_core.errors import SourceUnavailable
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot import failures
from spark_jobs.snapshot.source import Source
from spark_jobs.verify import comparer as comparing
from spark_jobs.verify.comparer import TableComparer


def test_a_source_that_goes_away_is_no_error_of_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an audit saw it whose server was killed: a job shows the error and its remedy."""

    def lost(_: object) -> None:
        raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    connection: Any = SimpleNamespace(autocommit=lambda _: None, close=ExitStack().close)
    for module in (comparing, failures):
        monkeypatch.setattr(module, "connect", lambda *_: connection)
    monkeypatch.setattr(comparing, "position", lost)
    away: Any = None
    comparer = TableComparer(away, Source("127.0.0.1", 3306, "canal", ""), Lake("/lake"))
    with pytest.raises(SourceUnavailable, match="the source went away \\(2013\\)") as caught:
        comparer.table("shop", "orders")
    assert "compare again" in caught.value.hint
