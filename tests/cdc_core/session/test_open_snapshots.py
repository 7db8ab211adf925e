"""The registration of snapshots: one owner a table, what an ack notes, what breaks them. It outlives the service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from cdc_core.contract.snapshot import Progress, Snapshot
from cdc_core.errors import SessionError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Change, MemoryNodes, Nodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.session.open_snapshots import OpenSnapshots
from cdc_core.session.session import Session
from cdc_core.session.state import PendingAck
from cdc_core.session.stops import Stops
from cdc_core.store.mark import Mark
from cdc_core.store.range import Range
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store

CLIENT, TABLE = 1001, "shop.orders"


def place(position: int) -> EntryPosition:
    return EntryPosition("bin.000001", position)


class Trial:
    """A client with cursors in `nodes`, and a clock that is set by hand."""

    def __init__(self, nodes: Nodes) -> None:
        self.now, self.nodes = 1000.0, nodes
        self.cursors = Cursors(nodes, "shop")
        self.cursors.subscribe(CLIENT)
        registry = SchemaRegistry()
        store = Store(Ring(registry.get, 1 << 20, 1000))
        session = Session("shop", store.ring, registry.get, 1)
        session.subscribe(CLIENT, place(4), self.cursors.epoch(CLIENT))
        self.stops = Stops(self.cursors.stopped, store, session, nullcontext)
        self.snapshots = OpenSnapshots(self.cursors.snapshots, self.stops, session, nullcontext, lambda: self.now)
        self.stops.load(CLIENT, None)
        self.snapshots.load(CLIENT)

    def open(self, owner: str, *, first: bool = False) -> Snapshot:
        return self.snapshots.open(CLIENT, TABLE, owner, 60.0, first=first)

    def acked(self, end: int, *redefined: str) -> list[Snapshot]:
        mark = Mark()
        pending = PendingAck(CLIENT, Range(mark, mark, None), place(end), None, 7, (TABLE,), frozenset(redefined))
        return self.snapshots.passed_by(pending)


def test_one_owner_reads_a_table() -> None:
    """A second one is refused while the first lives, and goes on with the same snapshot when its lease has ended; the
    first one's word does not count any more."""
    trial = Trial(MemoryNodes())
    first = trial.open("a")
    trial.snapshots.note(CLIENT, TABLE, first.id, "a", 60.0, Progress(low=place(9), groups=3))
    trial.now += 50
    with pytest.raises(SessionError, match=r"a reads shop\.orders already") as refused:
        trial.open("b")
    assert "sluice snapshot shop shop.orders --cancel" in refused.value.hint
    trial.snapshots.note(CLIENT, TABLE, first.id, "a", 60.0, None)
    trial.now += 61
    second = trial.open("b")
    assert (second.id, second.owner, second.progress) == (first.id, "b", Progress(low=place(9), groups=3))
    with pytest.raises(SessionError, match="belongs to b now"):
        trial.snapshots.note(CLIENT, TABLE, first.id, "a", 60.0, None)
    with pytest.raises(SessionError, match="belongs to b now"):
        trial.snapshots.close(CLIENT, TABLE, first.id, "a")
    trial.snapshots.close(CLIENT, TABLE, second.id, "b")
    trial.snapshots.close(CLIENT, TABLE, second.id, "b")
    assert trial.cursors.snapshots.of(CLIENT) == []


def test_anybody_cancels_a_snapshot() -> None:
    """Its owner learns of it with the next word."""
    trial = Trial(MemoryNodes())
    found = trial.open("a")
    trial.snapshots.close(CLIENT, TABLE, None, None)
    with pytest.raises(SessionError, match="was cancelled"):
        trial.snapshots.note(CLIENT, TABLE, found.id, "a", 60.0, Progress())
    assert trial.open("b").id != found.id


def test_a_ddl_statement_or_a_word_of_the_run_breaks_it() -> None:
    """Claims name a broken snapshot no more; its owner begins another one. A dropped database breaks all of its
    tables."""
    for redefined in (TABLE, "shop."):
        trial = Trial(MemoryNodes())
        found = trial.open("a")
        assert trial.snapshots.names(CLIENT) == ((TABLE, found.id),)
        (broken,) = trial.acked(100, redefined)
        assert "definition changed" in broken.broken
        trial.snapshots.note_acked(CLIENT, [broken])
        assert trial.snapshots.names(CLIENT) == ()
        trial.snapshots.break_off(CLIENT, TABLE, found.id, "twice")
        assert trial.snapshots.note(CLIENT, TABLE, found.id, "a", 60.0, None).broken == broken.broken
        fresh = trial.open("a")
        assert (fresh.id != found.id, fresh.broken, fresh.acked) == (True, "", None)
        trial.snapshots.break_off(CLIENT, TABLE, found.id, "of the first one")
        assert trial.snapshots.names(CLIENT) == ((TABLE, fresh.id),)


def test_what_its_rows_were_read_after_is_none_of_its_concern() -> None:
    """A statement that a run follows late: it broke the snapshot that was begun because of it. Neither that nor the
    changes before it are kept for the snapshot, but those after its first place are."""
    trial = Trial(MemoryNodes())
    found = trial.open("a")
    trial.snapshots.note(CLIENT, TABLE, found.id, "a", 60.0, Progress(low=place(100)))
    assert trial.acked(100, TABLE) == []
    assert trial.snapshots.names(CLIENT, place(100)) == ()
    assert trial.snapshots.names(CLIENT, place(101)) == trial.snapshots.names(CLIENT) == ((TABLE, found.id),)
    (broken,) = trial.acked(101, TABLE)
    assert "definition changed" in broken.broken


def test_an_ack_notes_how_far_changes_of_the_table_went() -> None:
    """In the write of the cursor: so a copy that misses some of them is seen."""
    trial = Trial(MemoryNodes())
    trial.open("a")
    for end, noted in ((100, 100), (300, 300), (200, 300)):
        found = trial.acked(end)
        cursor = LogPosition("127.0.0.1", 3306, place(end))
        if end != 200:
            trial.cursors.write(CLIENT, cursor, place(end), snapshots=found)
        trial.snapshots.note_acked(CLIENT, found)
        assert found[0].acked == place(noted)
    assert trial.cursors.snapshots.of(CLIENT)[0].acked == place(300)


def test_a_table_that_the_lake_does_not_have_is_stopped_meanwhile() -> None:
    """So no run makes it in part; a stop that it has already stays as it is."""
    trial = Trial(MemoryNodes())
    trial.open("a", first=True)
    (stop,) = trial.cursors.stopped.of(CLIENT)
    assert (stop.table, stop.passed, trial.stops.names(CLIENT)) == (TABLE, None, (TABLE,))
    assert "sluice snapshot shop shop.orders" in stop.hint
    trial.stops.note(CLIENT, [stop.at(place(900), moved=True)])
    trial.open("a", first=True)
    assert trial.stops.of[CLIENT][TABLE].passed == place(900)


def test_it_outlives_the_service(tmp_path: Path) -> None:
    """With its progress; the lease begins again. A reset and a move to another server break it."""
    nodes = FileNodes(tmp_path / "meta.json")
    before = Trial(nodes)
    found = before.open("a")
    progress = Progress(place(9), place(99), "v1", 3, 40, '["7"]')
    before.snapshots.note(CLIENT, TABLE, found.id, "a", 60.0, progress)
    after = Trial(FileNodes(tmp_path / "meta.json"))
    after.now = 5000.0
    after.snapshots.load(CLIENT)
    kept = after.snapshots.of[CLIENT][TABLE]
    assert (kept.id, kept.progress, kept.lease_deadline) == (found.id, progress, 5060.0)
    after.cursors.rewind(CLIENT, LogPosition("127.0.0.1", 3306, place(4)))
    assert after.cursors.snapshots.of(CLIENT)[0].broken == "the destination was reset"
    other = Trial(FileNodes(tmp_path / "meta.json"))
    assert other.snapshots.names(CLIENT) == ()
    assert (other.open("a").id != found.id, other.open("a").epoch) == (True, 1)


def test_reading_another_server_breaks_it() -> None:
    """Positions of two servers cannot be compared."""
    trial = Trial(MemoryNodes())
    trial.cursors.write(CLIENT, LogPosition("127.0.0.1", 3306, place(4)), place(4))
    trial.open("a")
    trial.cursors.move([CLIENT], LogPosition("127.0.0.2", 3306, place(4)), "uuid")
    assert "another server" in trial.cursors.snapshots.of(CLIENT)[0].broken


def at(position: int) -> LogPosition:
    return LogPosition("127.0.0.1", 3306, place(position))


def lost(trial: Trial) -> LogPosition:
    """The source purged what comes next."""
    return at(90)


def foreign(trial: Trial) -> LogPosition:
    """A Java Canal acked for the client."""
    path = f"/otter/canal/destinations/shop/{CLIENT}/cursor"
    node = trial.nodes.read(path)
    trial.nodes.write({path: Change(at(90).to_json().encode(), node.version if node else None)})
    return at(90)


def forgotten(trial: Trial) -> LogPosition:
    """The client was unsubscribed, and is back."""
    trial.cursors.unsubscribe(CLIENT, keep_cursor=False)
    return at(90)


@pytest.mark.parametrize("passed", [lost, foreign, forgotten])
def test_changes_that_no_run_could_keep_break_it(passed: Callable[[Trial], LogPosition]) -> None:
    """They were passed over while the snapshot was open. A restart breaks nothing, neither before nor after it."""
    trial = Trial(MemoryNodes())
    trial.cursors.begin(CLIENT, at(40))
    before = trial.open("a")
    trial.cursors.begin(CLIENT, at(40))
    assert not trial.cursors.snapshots.of(CLIENT)[0].broken
    trial.cursors.begin(CLIENT, passed(trial))
    trial.snapshots.load(CLIENT)
    assert "skipped" in trial.snapshots.of[CLIENT][TABLE].broken
    assert trial.open("a").id != before.id
    trial.cursors.begin(CLIENT, at(90))
    assert not trial.cursors.snapshots.of(CLIENT)[0].broken
