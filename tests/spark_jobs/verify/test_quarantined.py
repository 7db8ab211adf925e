"""Rows that wait in a quarantine are told apart from lost ones, without a source."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.position import EntryPosition
from spark_jobs.apply.batch import apply_batch
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.lake.tables import Lake
from spark_jobs.verify.quarantined import waiting_keys
from spark_jobs.verify.verified import Comparison, Verified
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Table, feed

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string(), "n": pa.int32()}), key=("what", "id"))
EXPECTED = Expectations({"shop.orders": (Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),)})


def place(lake: Lake, table: Table) -> Any:
    """A table as a comparison has it."""
    client = SimpleNamespace(destination="d", client_id=1, client_status=lambda: SimpleNamespace(epoch=1))
    return SimpleNamespace(connector=client, lake=lake, schema=table.schema, path=lake.path("shop", table.name))


def test_keys_that_wait_have_the_text_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all columns of the key, in its order; none of a table without a key or a quarantine."""
    run_job_here(monkeypatch)
    lake = Lake(tmp_path)
    with feed() as service:
        service.put(ORDERS, [Change(1, None, (1, "a", 5)), Change(2, None, (2, "b,c", 50))])
        apply_batch(service.claim(1, 0, 2), lake, NO_SPARK, service.url, expectations=EXPECTED)
    assert waiting_keys(place(lake, ORDERS)) == {b"3:b,c,2"}
    assert waiting_keys(place(lake, Table("users", ORDERS.fields, key=("id",)))) == frozenset()
    assert waiting_keys(place(lake, Table("orders", ORDERS.fields))) == frozenset()


def test_rows_that_wait_are_no_differences() -> None:
    """They are counted by themselves, where there are some."""
    at = EntryPosition("bin.000001", 4)
    found = Verified("shop.orders", Comparison(7, 5, 0, 0, 0, quarantined=2), at)
    assert (found.differences, found.to_dict()["quarantined"]) == (0, 2)
    assert "quarantined" not in Verified("shop.orders", Comparison(7, 7, 0, 0, 0), at).to_dict()
