"""When a history is compared with its table, and when it waits for it: by Delta's logs, without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import LakeError, TableStopped
from spark_jobs.changes.log_images import Emptied
from spark_jobs.following.history import historian as keeping
from spark_jobs.following.history.historian import Historian
from spark_jobs.following.history.note import HistoryNote
from spark_jobs.following.history.standing import Histories, HistoryState, lacks, standing
from spark_jobs.following.others import TakenOver
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.record import COPIED, DROPPED, FOLLOWED, MARKS, CopyNote, Mark, Marks
from spark_jobs.lake.state import DESTINATION, HISTORY, TABLE, UNFILLED, app_id, whole_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.append import LandingTask, append
from spark_jobs.landing.log import TableLog
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.result import Maintained
from spark_jobs.session import Sessions
from tests.support.lake_trial import version
from tests.support.spark_feed import Change, Feed, Table

ORDERS = Table("orders", pa.schema([("id", pa.int32()), ("v", pa.string())]), ("id",))
NAME = ORDERS.schema.name
WEEK = 168


@pytest.fixture
def service() -> Iterator[Feed]:
    feed = Feed()
    feed.put(ORDERS, [Change(at, None, (at, "x")) for at in (10, 20, 30, 40, 60)])
    yield feed
    feed.shutdown()


class World:
    """One table that lands, and what runs do to it."""

    def __init__(self, service: Feed, lake: Lake) -> None:
        self.service, self.lake, self.claims = service, lake, 0
        self.histories = Histories(lake, "d", 1)
        self.path, self.history = lake.path("shop", "orders"), lake.history_path("shop", "orders")

    def land(self, start: int, end: int, epoch: int = 0, *, noted: bool = True, emptied: bool = False) -> None:
        """A claim lands; where it is acked, the ledger has it."""
        self.claims += 1
        claim = self.service.claim(self.claims, start, end, epoch=epoch)
        fence, log = Fence(self.lake, Sessions("sc://127.0.0.1:1")), TableLog(self.lake, "d", 1, NAME)
        share = LandingTask(claim, log, RowsDoor(self.service.url), "run", fence, lambda: 1.0, has_rows=not emptied)
        append(replace(share, emptied=[Emptied(claim.end)]) if emptied else share)
        if noted:
            self.ack(start, end, epoch)

    def ack(self, start: int, end: int, epoch: int = 0) -> None:
        claim = self.service.claim(self.claims, start, end, epoch=epoch)
        Ledger(self.lake, "d", 1).note(claim, {}, "run", 1.0)

    def merge(self, to: int, epoch: int = 0, *, app: str = "", more: int = 0, **properties: str) -> None:
        """The table has the epoch's rows up to there."""
        noted = Transaction(app or app_id("d", 1, NAME, epoch), version(to) + more)
        rows = pa.table({"id": pa.array([1], pa.int32()), "v": ["x"]})
        write_deltalake(self.path, rows, mode="append", commit_properties=CommitProperties(app_transactions=[noted]))
        self.say(**{DESTINATION: "d", TABLE: NAME, **properties})

    def say(self, **properties: str) -> None:
        DeltaTable(self.path).alter.set_table_properties(properties, raise_if_not_exists=False)

    def copy(self, low: int, high: int, epoch: int = 0) -> None:
        """A copy, which is between two places."""
        note, mark = CopyNote(epoch, version(low), version(high)), Mark(epoch, version(low), version(low) + 1)
        self.merge(low, epoch, more=1, **{COPIED: note.to_json(), MARKS: Marks({epoch: mark}).to_json()})

    def compare(self) -> None:
        """The history is what the table is, at its place."""
        found = self.look()
        assert found.table is not None
        epoch, at = found.table.epoch, found.table.version
        apps = [Transaction(self.histories.app(NAME, epoch), at + 1)]
        rows = pa.table({"id": pa.array([1], pa.int32())})
        write_deltalake(self.history, rows, mode="append", commit_properties=CommitProperties(app_transactions=apps))
        note, marks = HistoryNote(stamp=found.stamp, compared=epoch), Marks({epoch: Mark(epoch, at, at + 1)})
        said = {DESTINATION: "d", TABLE: NAME, HISTORY: note.to_json(), MARKS: marks.to_json()}
        DeltaTable(self.history).alter.set_table_properties(said, raise_if_not_exists=False)

    def look(self) -> HistoryState:
        found = standing(self.histories, NAME)
        assert found is not None
        return found

    @property
    def is_due(self) -> bool:
        """Whether they are to be compared, and now."""
        found = self.look()
        return found.is_due and not found.waits


@pytest.fixture
def world(service: Feed, tmp_path: Path) -> World:
    """All three are at one place."""
    world = World(service, Lake(tmp_path))
    world.land(5, 25)
    world.merge(25)
    world.compare()
    assert not world.look().is_due
    return world


def test_rows_of_a_repair_come_after_its_note(world: World) -> None:
    """A run may look between the two. The next batch after it brings no comparison."""
    world.say(**{MARKS: Marks({0: Mark(0, version(25), version(25) + 1)}).to_json()})
    assert world.is_due
    world.compare()
    assert not world.is_due
    world.merge(25, more=1)
    assert world.look().table == world.look().place
    assert world.is_due
    world.compare()
    world.land(25, 45)
    world.merge(45)
    assert not world.look().is_due


def test_values_of_an_added_column_come_after_its_note(world: World) -> None:
    """They are there when the note is gone."""
    world.say(**{UNFILLED: json.dumps({"v": "'x'"})})
    assert world.is_due
    world.compare()
    assert not world.is_due
    world.say(**{UNFILLED: ""})
    assert world.is_due


def test_what_is_merged_past_the_log_in_a_later_epoch(world: World) -> None:
    """The log knows nothing of that epoch, and the ledger does. While the table is behind, nothing can be decided."""
    world.merge(20, 1)
    world.ack(15, 20, 1)
    with pytest.raises(TableStopped, match="went back"):
        world.look()
    world.merge(30, 1)
    world.ack(20, 30, 1)
    assert world.is_due
    world.compare()
    assert not world.is_due
    world.merge(40, 1)
    world.ack(30, 40, 1)
    assert world.is_due


def test_rows_that_a_foreign_key_changes(world: World) -> None:
    """The table's place stays as it is."""
    world.merge(0, app=f"{app_id('d', 1, NAME, 0)}:cascade", more=1)
    assert world.is_due
    world.compare()
    assert not world.is_due
    world.ack(25, 30, 1)
    world.merge(0, app=f"{app_id('d', 1, NAME, 1)}:cascade", more=1)
    assert world.is_due


def test_a_copy_between_two_places_is_waited_for(world: World) -> None:
    """It has rows up to its end, whose changes come again."""
    world.copy(25, 45)
    assert world.look().waits
    assert lacks(world.histories, NAME) is None
    world.land(25, 35)
    world.merge(35)
    assert world.look().waits
    world.land(35, 50)
    assert world.look().waits
    world.merge(50)
    assert world.is_due


def test_a_copy_after_which_the_table_has_no_change(world: World) -> None:
    """The ledger says so; a new history waits as well."""
    world.copy(25, 29)
    assert world.look().waits
    (Path(world.history) / "_delta_log").rename(Path(world.history) / "old")
    assert world.look().waits
    (Path(world.history) / "old").rename(Path(world.history) / "_delta_log")
    world.ack(25, 55)
    assert world.is_due


def test_a_statement_that_empties_is_landed_last(world: World) -> None:
    """Compared before, all rows would go at the time of the change before it, and the log's entry would be passed."""
    world.merge(30, **{FOLLOWED: f"0:{version(30)}"})
    assert world.look().waits
    world.land(25, 30, emptied=True, noted=False)
    assert world.look().waits
    world.ack(25, 30)
    found = lacks(world.histories, NAME)
    assert found is not None
    assert (found.part.upto, found.part.rows) == (version(30), 1)


def test_a_dropped_table_is_at_the_statement(world: World) -> None:
    """Its mark comes before the commit that has the statement's version."""
    world.say(**{FOLLOWED: f"0:{version(30)}", DROPPED: "there"})
    assert world.look().waits
    world.land(25, 30, emptied=True)
    found = lacks(world.histories, NAME)
    assert found is not None
    assert found.part.upto == version(30)


def test_what_the_log_lost_comes_with_the_table_alone(world: World) -> None:
    """Its retention was over before the table had it: until a copy, nothing is to be compared."""
    world.land(25, 45)
    lost = CommitProperties(app_transactions=[Transaction(whole_app_id("d", 1, NAME, 0), version(45))])
    path = world.lake.log_path("shop", "orders")
    DeltaTable(path).delete("_sluice_version < 0", commit_properties=lost)
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 0), mode="append", commit_properties=lost)
    assert world.look().waits
    world.copy(45, 45)
    assert world.is_due
    world.compare()
    assert not world.look().is_due


def test_a_lake_that_is_away_delays_the_merge(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the history would begin after what is merged. What is the history's own trouble delays nothing."""
    sessions = Sessions("sc://127.0.0.1:1")
    historian = Historian(Follows(world.lake, "d", 1), sessions, Fence(world.lake, sessions))

    def fails(error: LakeError) -> None:
        def raises(*_: object) -> HistoryState:
            raise error

        monkeypatch.setattr(keeping, "standing", raises)

    fails(TableStopped("its columns", place="h", hint="-"))
    historian.begin(NAME)
    fails(LakeError("it is away", place="h", hint="-"))
    with pytest.raises(LakeError, match="away"):
        historian.begin(NAME)


def test_rows_that_a_history_lacks_stay_in_the_log(world: World) -> None:
    """However long its table has had them."""
    world.land(25, 45)
    world.merge(45)
    then = time.time() + WEEK * 3600 + 2

    def maintained() -> Maintained:
        return LogUpkeep(Follows(world.lake, "d", 1), lambda: then).log(NAME, Retention(WEEK))

    time.sleep(2.2)
    found = maintained()
    assert (found.left, found.rows_deleted) == ("", 2)
    assert "history" in found.rows_kept
    world.compare()
    found = maintained()
    assert (found.rows_deleted, found.rows_kept) == (2, "")


@pytest.mark.full
@pytest.mark.integration
def test_a_late_statement_with_other_boundaries_is_refused(
    service: Feed, spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has checked its fence, and stands still while another takes the first half of its part."""
    world, sessions = World(service, Lake(tmp_path)), Sessions(spark_remote)
    world.land(5, 25)
    world.land(25, 45)

    def run(part_rows: int = 1000) -> Historian:
        return Historian(Follows(world.lake, "d", 1, part_rows), sessions, Fence(world.lake, sessions))

    late, other, real = run(), run(1), Fence.check

    def check(fence: Fence, path: str) -> None:
        real(fence, path)
        if fence is late.fence:
            monkeypatch.undo()
            other.next(NAME)

    late.begin(NAME)
    monkeypatch.setattr(Fence, "check", check)
    with sessions, pytest.raises(TakenOver):
        late.next(NAME)
    with Sessions(spark_remote) as again:
        Historian(Follows(world.lake, "d", 1), again, Fence(world.lake, again)).whole(NAME)
    asked = QueryBuilder().register("h", DeltaTable(world.history)).execute("SELECT id FROM h ORDER BY id")
    assert pa.table(asked.read_all()).column("id").to_pylist() == [10, 20, 30, 40]
