"""spark_jobs.apply.forgotten: a stop that the service has lost is set again. It needs no Spark."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.apply.forgotten import forgotten_stops
from spark_jobs.apply.result import BatchResult
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.lake.ledger import Ledger, TableNote
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake

TABLE, STOPPED = "shop.t", TableNote(stopped=True)


def claim(start: int, end: int, epoch: int = 0, moved: int = 0) -> Claim:
    places = EntryPosition("bin.000003", start), EntryPosition("bin.000003", end)
    return Claim("shop", 1001, 1, *places, (), 0, 0, 0, (), epoch, "test", 0.0, moved=moved)


def write(lake: Lake, applied: int) -> None:
    """The table at a batch that ended there."""
    transaction = Transaction(app_id("shop", 1001, TABLE, 0), claim(0, applied).end.version())
    properties = CommitProperties(app_transactions=[transaction])
    write_deltalake(lake.path("shop", "t"), pa.table({"id": [1]}), mode="append", commit_properties=properties)


def test_a_stop_that_the_service_lost_is_known_to_the_lake(tmp_path: Path) -> None:
    """The table is stopped again, and only a copy lifts that; unless its changes come again, or are there."""
    ledger = Ledger(Lake(tmp_path), "shop", 1001)
    write(ledger.lake, 100)
    ledger.note(claim(100, 200), {TABLE: STOPPED}, "run", time.time())
    ledger.note(claim(200, 300), {"shop.other": TableNote(inserts=1)}, "run", time.time())
    (found,) = forgotten_stops(ledger, claim(300, 400))
    assert (found.table, found.copy_needed) == (TABLE, True)
    assert "sluice copy shop shop.t" in found.error.hint
    assert forgotten_stops(ledger, claim(200, 400, epoch=1, moved=1))[0].table == TABLE

    assert not forgotten_stops(ledger, replace(claim(300, 400), stopped=(TABLE,)))
    assert not forgotten_stops(ledger, claim(100, 400, epoch=1))  # a reset to the stop, which was then lifted
    write(ledger.lake, 200)
    assert not forgotten_stops(ledger, claim(300, 400))


def test_a_table_that_went_on_is_left_alone(tmp_path: Path) -> None:
    """A later batch has changed it: its stop was lifted for good. So it was where the table was reloaded since."""
    ledger = Ledger(Lake(tmp_path), "shop", 1001)
    assert not forgotten_stops(ledger, claim(300, 400))
    ledger.note(claim(100, 200), {TABLE: STOPPED}, "run", time.time())
    assert not forgotten_stops(ledger, claim(300, 400))  # there is no table
    write(ledger.lake, 100)
    assert not forgotten_stops(ledger, claim(300, 400))  # it was made after the note
    ledger.note(claim(300, 400), {TABLE: TableNote(inserts=1)}, "run", time.time())
    assert ledger.stops() == {}


def test_the_first_batch_that_a_paused_table_misses_is_noted(tmp_path: Path) -> None:
    """Once, so that its pause is known when the service has lost it; not where a statement mended the table."""
    ledger = Ledger(Lake(tmp_path), "shop", 1001)
    write(ledger.lake, 100)
    share = TableRange(TableSchema("shop", "t", (Column("id", 3, 0),), ("id",)), 1, 1, 0)

    def batch(start: int, end: int, **result: Any) -> None:
        lake = SparkLake(None, ledger.lake, None, "", None)  # type: ignore[arg-type]
        lake = replace(lake, connector=Connector("http://127.0.0.1:1", "shop"))
        missed = replace(claim(start, end), tables=(share,), stopped=(TABLE,))
        lake.note(missed, BatchResult(**result), "run")

    batch(100, 200, whole=(TABLE,))
    assert ledger.stops() == {}
    batch(200, 300)
    batch(300, 400)

    assert ledger.stops()[TABLE].version == claim(200, 300).end.version()
    assert [one.table for one in forgotten_stops(ledger, claim(400, 500))] == [TABLE]
