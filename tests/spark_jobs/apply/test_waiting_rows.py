"""How many rows wait in quarantines, as they belong to their tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from spark_jobs.apply.batch import apply_batch
from spark_jobs.apply.waiting_rows import WaitingRows, WaitingTable
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.lake.record import COPIED, CopyNote
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Table, feed

FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32()})
EXPECTED = Expectations({"shop.*": (Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),)})


def filled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lake:
    """A lake in which two rows of orders wait, and none of users."""
    run_job_here(monkeypatch)
    lake = Lake(tmp_path)
    with feed() as service:
        for name, n in (("orders", 50), ("users", 5)):
            service.put(Table(name, FIELDS, key=("id",)), [Change(at, None, (at, n)) for at in (1, 2)])
        apply_batch(service.claim(1, 0, 2), lake, NO_SPARK, service.url, expectations=EXPECTED)
    return lake


def test_rows_are_counted_by_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With their checks; a table that has no quarantine has none."""
    waiting = WaitingRows(filled(monkeypatch, tmp_path), "d", 1, 1)
    assert waiting.counts() == {"shop.orders": 2, "shop.users": 0}
    assert waiting.counts(["shop.orders", "shop.none"]) == {"shop.orders": 2, "shop.none": 0}
    assert waiting.of("shop.orders") == WaitingTable(2, {"small": 2})


def test_rows_from_before_a_copy_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Their checks are named, so that these can end; the rows of a table that was dropped do not count either."""
    lake = filled(monkeypatch, tmp_path)
    waiting = WaitingRows(lake, "d", 1, 1)
    end = lake.applied(lake.path("shop", "orders"), [app_id("d", 1, "shop.orders", 1)])[0]
    assert end is not None
    copied = {COPIED: CopyNote(1, end, end).to_json()}
    DeltaTable(lake.path("shop", "orders")).alter.set_table_properties(copied, raise_if_not_exists=False)
    assert waiting.of("shop.orders") == WaitingTable(0, {"small": 0})
    shutil.rmtree(lake.path("shop", "orders"))
    assert waiting.of("shop.orders") == WaitingTable(0, {"small": 0})


def test_a_quarantine_that_cannot_be_read_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where it is, and what to do."""
    lake = filled(monkeypatch, tmp_path)
    for file in Path(lake.quarantine_path("shop", "orders")).glob("*.parquet"):
        file.unlink()
    with pytest.raises(LakeError, match="the quarantine is damaged"):
        WaitingRows(lake, "d", 1, 1).counts()
