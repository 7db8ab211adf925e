"""Which rows of a log its merged table lacks, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.client.changes import RowsDoor
from spark_jobs.changes.log_images import Emptied
from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import FOLLOWED
from spark_jobs.lake.state import DESTINATION, FENCE, TABLE, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.append import LandingTask, append
from spark_jobs.landing.log import TableLog
from spark_jobs.landing.parked import Parked, Parking
from spark_jobs.session import Sessions
from tests.support.lake_trial import version
from tests.support.spark_feed import Change, Feed, Table

ORDERS = Table("orders", pa.schema([("id", pa.int32()), ("v", pa.string())]), ("id",))
NAME = ORDERS.schema.name


@pytest.fixture
def service() -> Iterator[Feed]:
    feed = Feed()
    feed.put(ORDERS, [Change(at, None, (at, "x")) for at in (10, 20, 30, 40)])
    yield feed
    feed.shutdown()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def land(lake: Lake, service: Feed, number: int, start: int, end: int, epoch: int) -> None:
    log, fence = TableLog(lake, "d", 1, NAME), Fence(lake, Sessions("sc://127.0.0.1:1"))
    claim = service.claim(number, start, end, epoch=epoch)
    append(LandingTask(claim, log, RowsDoor(service.url), "run", fence, lambda: 1.0))


def merged(lake: Lake, epoch: int, to: int, **properties: str) -> None:
    """The merged table has the epoch's rows up to there."""
    path = lake.path("shop", "orders")
    noted = CommitProperties(app_transactions=[Transaction(app_id("d", 1, NAME, epoch), version(to))])
    write_deltalake(path, pa.table({"id": [1]}), mode="append", commit_properties=noted)
    owner = {DESTINATION: "d", TABLE: NAME, **properties}
    DeltaTable(path).alter.set_table_properties(owner, raise_if_not_exists=False)


def test_a_compacted_file_spans_an_epoch_without_changes(service: Feed, lake: Lake) -> None:
    """Epoch 2 had none: it is passed over, and what the table lacks is that of epochs 1 and 3."""
    land(lake, service, 1, 5, 25, 1)
    land(lake, service, 2, 5, 45, 3)
    merged(lake, 1, 15)
    DeltaTable(lake.log_path("shop", "orders")).optimize.compact()
    follows = Follows(lake, "d", 1)
    found = follows.pending(NAME)
    assert found is not None
    assert (found.part.epoch, found.part.after, found.part.upto) == (1, version(15), version(25))
    merged(lake, 1, 25)
    found = follows.pending(NAME)
    assert found is not None
    assert (found.part.epoch, found.part.upto) == (3, version(45))
    merged(lake, 3, 45)
    assert follows.pending(NAME) is None


def test_rows_of_before_a_statement_of_a_later_epoch_are_over(service: Feed, lake: Lake) -> None:
    """A TRUNCATE that the table followed in epoch 2 took what was not merged of epoch 1."""
    land(lake, service, 1, 5, 25, 1)
    merged(lake, 1, 15, **{FOLLOWED: f"2:{version(30)}"})
    assert Follows(lake, "d", 1).pending(NAME) is None


def test_a_log_that_begins_after_a_reset(service: Feed, lake: Lake) -> None:
    """The table was merged in epoch 0, of which the log has nothing."""
    merged(lake, 0, 15)
    land(lake, service, 1, 5, 45, 1)
    found = Follows(lake, "d", 1).pending(NAME)
    assert found is not None
    assert (found.part.epoch, found.part.after, found.part.upto) == (1, None, version(45))
    merged(lake, 1, 45)
    assert Follows(lake, "d", 1).pending(NAME) is None


def test_a_truncate_alone_is_the_first_change_of_an_epoch(service: Feed, lake: Lake) -> None:
    """Where the epoch began is in the log with it."""
    land(lake, service, 1, 5, 25, 0)
    merged(lake, 0, 25)
    claim, log = service.claim(2, 25, 45, epoch=1), TableLog(lake, "d", 1, NAME)
    fence = Fence(lake, Sessions("sc://127.0.0.1:1"))
    fence.skip(log.path)
    DeltaTable(log.path).alter.set_table_properties({FENCE: fence.token}, raise_if_not_exists=False)
    emptied = [Emptied(claim.end)]
    share = LandingTask(claim, log, RowsDoor(service.url), "run", fence, lambda: 1.0, emptied=emptied, has_rows=False)
    assert append(share).images == 1
    found = Follows(lake, "d", 1).pending(NAME)
    assert found is not None
    assert (found.part.epoch, found.part.upto) == (1, version(45))


def test_a_table_where_a_log_would_be_is_none(lake: Lake) -> None:
    """The source may have tables `orders` and `orders__log`."""
    merged(lake, 1, 15)
    path = lake.log_path("shop", "orders")
    write_deltalake(path, pa.table({"id": [1]}))
    own = {DESTINATION: "d", TABLE: f"{NAME}__log"}
    DeltaTable(path).alter.set_table_properties(own, raise_if_not_exists=False)
    assert Follows(lake, "d", 1).pending(NAME) is None
    assert lake.logs("d") == []


def test_a_log_that_cannot_be_read_makes_its_table_wait_alone(service: Feed, tmp_path: Path) -> None:
    """The others are looked at, and the run ends as any other."""

    class Torn(Lake):
        def open(self, path: str, version: int | None = None) -> DeltaTable:
            if path == self.log_path("shop", "orders") and torn:
                raise OSError("permission denied")
            return super().open(path, version)

    torn: list[bool] = []
    lake, sessions = Torn(tmp_path), Sessions("sc://127.0.0.1:1")
    land(lake, service, 1, 5, 45, 0)
    merged(lake, 0, 45)
    parking = Parking(lake, "d", 1)
    torn.append(True)
    merger = Works(Merger(Follows(lake, "d", 1), sessions, Fence(lake, sessions)), lambda _: False)
    pace = FollowOptions(linger_seconds=0.0)
    (outcome,) = Follow(merger, parking, lambda: [NAME, "shop.other"], pace).run()
    assert isinstance(outcome, Parked)
    assert "permission denied" in outcome.reason
    torn.clear()
    later = Follow(merger, parking, lambda: [NAME, "shop.other"], pace, now=lambda: outcome.next_try)
    assert list(later.run()) == []
    assert parking.tables() == {}
