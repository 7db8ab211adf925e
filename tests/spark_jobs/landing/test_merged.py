"""A change log that lost what was acked and not merged is found, and one whose changes come again is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import Range
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.log import TableLog
from spark_jobs.landing.merged import check_known
from tests.support.lake_trial import version
from tests.support.spark_feed import JOURNAL

TABLE = "shop.orders"


def claim(start: int, end: int, epoch: int = 0, moved: int = 0) -> Claim:
    places = EntryPosition(JOURNAL, start), EntryPosition(JOURNAL, end)
    return Claim("d", 1, end, *places, (), 1, 1, 1, (), epoch, "run", 0.0, moved=moved)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Two batches were acked, and the log had both."""
    made = Ledger(Lake(tmp_path), "d", 1)
    made.note(claim(5, 25), {}, "run", 1.0, {TABLE: version(25)})
    made.note(claim(25, 45), {}, "run", 2.0, {TABLE: version(45)})
    assert made.landed(TABLE, 2, made.opened()) == {0: version(45)}
    return made


def merged(ledger: Ledger, to: int) -> None:
    """The merged table has the log up to there."""
    noted = CommitProperties(app_transactions=[Transaction(app_id("d", 1, TABLE, 0), version(to))])
    write_deltalake(ledger.lake.path("shop", "orders"), pa.table({"id": [1]}), commit_properties=noted)


def check(ledger: Ledger, present: Claim) -> None:
    log = TableLog(ledger.lake, "d", 1, TABLE)
    check_known(log, log.open(), ledger, Range.of(present))


def test_what_was_acked_and_not_merged_is_missed(ledger: Ledger) -> None:
    """Whether the table has some of it or nothing."""
    for _ in range(2):
        with pytest.raises(TableStopped, match="its change log is gone"):
            check(ledger, claim(45, 60))
        if not ledger.lake.has("shop", "orders"):
            merged(ledger, 25)


def test_a_log_that_was_merged_whole_may_go(ledger: Ledger) -> None:
    """Nothing is missing: the next rows begin another one."""
    merged(ledger, 45)
    check(ledger, claim(45, 60))


@pytest.mark.parametrize(("start", "to", "found"), [(5, 0, True), (20, 25, True), (30, 25, False), (30, 0, False)])
def test_a_rewind_may_bring_it_again(ledger: Ledger, start: int, to: int, found: bool) -> None:
    """From where the table is or before it, or all that the epoch had; also when the rewind's first batch is noted."""
    if to:
        merged(ledger, to)
    again = claim(start, 40, epoch=1)
    for present in (again, claim(40, 60, epoch=1)):
        if found:
            check(ledger, present)
        else:
            with pytest.raises(TableStopped, match="is gone"):
                check(ledger, present)
        ledger.note(again, {}, "run", 3.0)


def test_another_servers_changes_do_not_come_again(ledger: Ledger) -> None:
    """Its positions say nothing about those that went."""
    with pytest.raises(TableStopped, match="is gone"):
        check(ledger, replace(claim(5, 60, epoch=1), moved=1))
