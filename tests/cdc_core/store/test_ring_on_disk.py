"""The ring over a store on disk serves what a ring in memory serves, also after restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.binlog.block import Block
from cdc_core.errors import StoreError
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.disk.volumes import Volumes
from cdc_core.store.ring import Ring
from cdc_core.store.segment import merge
from cdc_core.stream.trim import trim
from tests.support.doubles import block, ddl, table, transaction

OWNER = {"source": "uuid-1"}
PLENTY = 1 << 30


def registry() -> SchemaRegistry:
    made = SchemaRegistry()
    made.intern(table())
    return made


def content(ring: Ring, start: int, end: int) -> list[tuple[int, bytes]]:
    """The ends and bytes of the events between two sequences."""
    return [
        (int(row["end"]), part.block.data[row["offset"] : row["offset"] + row["length"]].tobytes())
        for part in ring.log.slices(start, end)
        for row in part.index
    ]


@dataclass
class OnDisk:
    """A ring over volumes, written by hand. `open` is a restart: the clients' marks are gone with the process."""

    path: Path
    capacity: int = 2000
    volumes: Volumes = field(init=False)
    ring: Ring = field(init=False)

    def open(self, known: SchemaRegistry | None = None, merge_bytes: int = 600) -> None:
        known = known or SchemaRegistry()
        self.volumes = Volumes(self.path, known, 3000)
        self.ring = Ring(known.get, self.capacity, None, merge_bytes, disk_bytes=PLENTY)
        self.ring.log.restore(self.volumes.open(OWNER))
        known.intern(table())  # as the annotator does

    def write(self, *, at_once: bool) -> None:
        parts = self.ring.log.parts
        while found := parts.unwritten(at_once=at_once):
            assert parts.keep(found, self.volumes.append(reduce(merge, found)))

    def put(self, one: Block) -> None:
        if not self.ring.try_put(one):
            assert self.ring.crowded
            self.write(at_once=True)
            assert self.ring.try_put(one)


STEPS = st.sampled_from(["put", "put", "put", "take", "take", "ack", "rollback", "write", "flush", "restart", "lost"])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_it_serves_what_a_ring_in_memory_serves(data: st.DataObject) -> None:
    """The same ranges with the same bytes, through merges, writes, dropped transactions, restarts and what comes again
    from the source after them."""
    with TemporaryDirectory() as directory:
        Course(data, OnDisk(Path(directory) / "s")).run(data.draw(st.lists(STEPS, max_size=40)))


class Course:
    """The same steps on both rings. A second client of the one in memory keeps it from freeing anything."""

    def __init__(self, data: st.DataObject, disk: OnDisk) -> None:
        self.data, self.disk = data, disk
        disk.open(registry())
        self.memory = Ring(registry().get, PLENTY)
        for ring in (self.memory, disk.ring):
            ring.subscribe(1)
        self.memory.subscribe(2)
        self.blocks: list[Block] = []
        self.cursor: EntryPosition | None = None

    def run(self, steps: list[str]) -> None:
        for step in steps:
            getattr(self, step)()
        self.flush()
        self.restart()
        while self.take():
            self.ack()
        self.disk.volumes.close()

    def put(self) -> None:
        """One to three transactions, of which the last may go on in the next block."""
        sizes = self.data.draw(st.lists(st.integers(1, 3), max_size=4))
        events = transaction(*sizes) if sizes else ddl()
        cut = self.data.draw(st.integers(1, len(events)))
        for part in (events[:cut], events[cut:]):
            if part:
                one = block(part, start=self.blocks[-1].end if self.blocks else 4)
                self.blocks.append(one)
                assert self.memory.try_put(one)
                self.disk.put(one)

    def take(self) -> bool:
        rows = self.data.draw(st.sampled_from([1, 3, 1000]))
        mine, theirs = self.memory.take(1, rows), self.disk.ring.take(1, rows)
        assert (mine is None) == (theirs is None)
        if mine is None or theirs is None:
            return False
        assert (mine.rows, mine.events, mine.statements, mine.partial) == (
            theirs.rows, theirs.events, theirs.statements, theirs.partial
        )  # fmt: skip
        expected = content(self.memory, mine.start.sequence, mine.end.sequence)
        assert content(self.disk.ring, theirs.start.sequence, theirs.end.sequence) == expected
        self.memory.advance(1, mine.end)
        self.disk.ring.advance(1, theirs.end)
        return True

    def ack(self) -> None:
        for ring in (self.memory, self.disk.ring):
            to = ring.marks(1).get
            commit = ring.log.last_commit_within(ring.marks(1).ack.sequence, to.sequence) if to.sequence else None
            if ring is self.memory and commit is not None:
                self.cursor = ring.log.position(commit)
            ring.ack(1, to)

    def rollback(self) -> None:
        for ring in (self.memory, self.disk.ring):
            ring.advance(1, ring.marks(1).ack)

    def write(self) -> None:
        self.disk.write(at_once=False)

    def flush(self) -> None:
        self.disk.write(at_once=True)

    def lost(self) -> None:
        """The source lost its open transaction: nobody holds a claim of it."""
        self.rollback()
        for ring in (self.memory, self.disk.ring):
            ring.drop_uncommitted()
        last = self.memory.log.last_position
        while self.blocks and (last is None or self.blocks[-1].end > max(last.position, 4)):
            one = self.blocks.pop()
            if last is not None and one.start < last.position:
                kept = one.index[one.index["end"] <= last.position]
                self.blocks.append(Block(one.journal_name, one.start, one.data, kept))
                break

    def restart(self) -> None:
        """The source sends again what the disk does not have; a client goes on at its cursor."""
        self.disk.volumes.close()
        self.disk.open()
        ring, log = self.disk.ring, self.disk.ring.log
        for each in (ring, self.memory):
            each.subscribe(1, self.cursor or EntryPosition("mysql-bin.000001", 4))
        again = self.blocks if log.last_commit is None else [trim(b, log.last_commit.position) for b in self.blocks]
        for one in again:
            if one is not None:
                self.disk.put(one)


def test_memory_holds_what_is_not_written_yet(tmp_path: Path) -> None:
    """A put is refused as crowded, not as full: no part of a transaction is served for it."""
    disk = OnDisk(tmp_path, capacity=600)
    disk.open(registry())
    disk.ring.subscribe(1)
    first, second = block(transaction(1, 1)[:-1]), block(transaction(1, 1, 1), start=164)

    assert disk.ring.try_put(first)
    assert not disk.ring.try_put(second)
    assert (disk.ring.crowded, disk.ring.full, disk.ring.take(1, 100)) == (True, False, None)

    disk.write(at_once=True)
    assert disk.ring.try_put(second)
    assert not disk.ring.crowded


def test_a_full_disk_lets_a_transaction_pass_in_parts(tmp_path: Path) -> None:
    """As a full ring does: what is acked of it makes room."""
    disk = OnDisk(tmp_path, capacity=600)
    disk.open(registry())
    disk.ring.subscribe(1)
    assert disk.ring.try_put(block(transaction(1, 1)[:-1]))
    disk.ring.stuck = True

    assert not disk.ring.try_put(block(transaction(1, 1, 1), start=164))

    assert disk.ring.full
    found = disk.ring.take(1, 100)
    assert found is not None
    assert found.partial


def test_acked_events_stay_until_their_room_is_needed(tmp_path: Path) -> None:
    """Then the oldest go, as many as make room; what is not acked never goes."""
    disk = OnDisk(tmp_path)
    disk.open(registry(), merge_bytes=1)
    ring = disk.ring
    ring.subscribe(1)
    one = block(transaction(1))
    ring.disk_bytes = 3 * one.nbytes
    for number in range(3):
        assert ring.try_put(block(transaction(1), start=4 + 160 * number))
        disk.write(at_once=True)
    assert not ring.try_put(block(transaction(1), start=484))
    assert ring.full

    taken = ring.take(1, 2)
    assert taken is not None
    ring.ack(1, taken.end)
    assert ring.log.nbytes == 3 * one.nbytes
    assert ring.try_put(block(transaction(1), start=484))
    assert (ring.full, ring.log.begin.sequence) == (False, 4)


def test_what_is_older_than_the_retention_expires(tmp_path: Path) -> None:
    """If all clients have acked it."""
    disk = OnDisk(tmp_path)
    disk.open(registry(), merge_bytes=1)
    ring = disk.ring
    ring.subscribe(1)
    for number, time in enumerate((100, 200, 300)):
        assert ring.try_put(block(transaction(1), start=4 + 160 * number, timestamp=time))
        disk.write(at_once=True)

    ring.expire(250)
    assert ring.log.begin.sequence == 0

    ring.ack(1, ring.put)
    ring.expire(250)
    assert ring.log.begin.sequence == 8


def test_what_is_acked_is_kept_up_to_so_many_bytes(tmp_path: Path) -> None:
    """Whole segments, oldest first; nothing that a client has not acked."""
    disk = OnDisk(tmp_path)
    disk.open(registry(), merge_bytes=1)
    ring = disk.ring
    ring.subscribe(1)
    for number in range(4):
        assert ring.try_put(block(transaction(1), start=4 + 160 * number))
        disk.write(at_once=True)
    size = ring.log.nbytes // 4

    ring.expire(0, 0)
    assert ring.log.begin.sequence == 0
    ring.ack(1, ring.log.at(12))
    ring.expire(0, 2 * size)
    assert ring.log.begin.sequence == 4
    ring.expire(0, 0)
    assert ring.log.begin.sequence == 12


def test_a_client_begins_at_its_place_in_what_is_on_disk(tmp_path: Path) -> None:
    """In front of it, it is refused: events would be missing."""
    disk = OnDisk(tmp_path)
    disk.open(registry())
    disk.put(block(transaction(1), start=1000))
    disk.put(block(transaction(2), start=1160))
    disk.write(at_once=True)
    disk.volumes.close()
    disk.open()

    disk.ring.subscribe(1, EntryPosition("mysql-bin.000001", 1160))
    taken = disk.ring.take(1, 100)
    assert taken is not None
    assert (taken.rows, taken.start.sequence) == (2, 4)
    with pytest.raises(StoreError, match="begins after"):
        disk.ring.subscribe(2, EntryPosition("mysql-bin.000001", 999))


def test_several_segments_become_one_record(tmp_path: Path) -> None:
    """Of one journal, and only when enough are there for a record; a flush takes what there is."""
    disk = OnDisk(tmp_path, capacity=PLENTY)
    disk.open(registry(), merge_bytes=400)
    ends = []
    for number in range(9):
        journal = f"mysql-bin.00000{1 + number // 7}"
        assert disk.ring.try_put(block(transaction(1, 1), start=4 + 200 * number, journal_name=journal))
        ends.append(disk.ring.put.sequence)
    before, parts = content(disk.ring, 0, ends[-1]), disk.ring.log.parts
    memory = len(parts.all)

    disk.write(at_once=False)
    assert 0 < parts.stored < len(parts.all) < memory
    disk.write(at_once=True)
    assert [part.start.journal_name for part in parts.all][-1] == "mysql-bin.000002"
    assert parts.stored == len(parts.all) < memory
    assert content(disk.ring, 0, ends[-1]) == before
    disk.volumes.close()
    disk.open()
    assert content(disk.ring, 0, ends[-1]) == before


def test_only_what_a_range_has_is_to_be_checked(tmp_path: Path) -> None:
    """Each segment once: a claim reads its bytes before it goes out."""
    disk = OnDisk(tmp_path)
    disk.open(registry(), merge_bytes=1)
    for number in range(3):
        disk.put(block(transaction(1), start=4 + 160 * number))
    disk.write(at_once=True)
    parts = disk.ring.log.parts

    assert [part.first.sequence for part in parts.unchecked(4, 8)] == [4]
    for part in parts.unchecked(0, 12):
        part.check()
    assert parts.unchecked(0, 12) == []
    assert all(isinstance(part, StoredSegment) for part in parts.all)
