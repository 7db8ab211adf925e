"""How many rows wait in quarantines, as they belong to their tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cdc_core.errors import LakeError, TableStopped
from spark_jobs.apply.waiting_rows import WaitingRows, WaitingTable
from spark_jobs.expectations import quarantine_table
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.expectations.quarantine import BatchEnd
from spark_jobs.expectations.quarantine_table import OpenedQuarantine, QuarantineTable
from spark_jobs.lake.record import COPIED, CopyNote
from spark_jobs.lake.state import FENCE, app_id
from spark_jobs.lake.tables import Lake
from tests.support.applying import apply_batch
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


@pytest.mark.parametrize(
    "text",
    [
        "External error: Parquet error: Object Store error: Generic S3 error: Error performing GET http://host/lake/a "
        "in 3.2s, after 1 retries - Server returned non-2xx status code: 503",
        "External error: Object Store error: The operation lacked the necessary privileges to complete for path a",
        "Object Store error: Generic LocalFileSystem error: Unable to open file a: Too many open files (os error 24)",
    ],
    ids=["busy", "denied", "files"],
)
def test_a_store_that_fails_damages_no_quarantine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """The run fails and comes again; a table that stopped would wait for a person."""
    waiting = WaitingRows(filled(monkeypatch, tmp_path), "d", 1, 1)

    def away(_: DeltaTable) -> pa.Table:
        raise Exception(text)  # as arro3 raises it, of no other class

    monkeypatch.setattr(quarantine_table, "_rows", away)
    with pytest.raises(LakeError, match="the quarantine cannot be read") as caught:
        waiting.counts()
    assert not isinstance(caught.value, TableStopped)


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("Failed to parse parquet: External: Generic S3 error: Error performing PUT http://host/lake/a: 503", False),
        ("Failed to parse parquet: Generic LocalFileSystem error: Unable to copy data to file: No space left", False),
        ("Generic error: Schema error: Cannot cast", True),
    ],
    ids=["busy", "full", "rows"],
)
def test_a_full_store_stops_no_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, *, stops: bool
) -> None:
    """Rows that a quarantine cannot have do."""
    lake = filled(monkeypatch, tmp_path)
    place = QuarantineTable(lake, "d", "shop.orders")
    opened = OpenedQuarantine(lake.open(place.path), pa.table({}))
    token = opened.table.metadata().configuration[FENCE]

    def refused(*_: object, **__: object) -> None:
        raise DeltaError(text)

    monkeypatch.setattr(quarantine_table, "write_deltalake", refused)
    with pytest.raises(LakeError) as caught:
        place.commit(opened, opened.rows, token, BatchEnd(1, 1, 1), "app")
    assert isinstance(caught.value, TableStopped) == stops
