"""The keeper: a thread that writes the log to disk, through full disks and damage."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import count
from pathlib import Path

import pytest

from cdc_core.errors import StoreDamaged
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.disk.volumes import Volumes
from cdc_core.store.keeper import Keeper
from cdc_core.store.ring import Ring
from cdc_core.store.store import Store
from tests.support.doubles import Clock, block, table, transaction
from tests.support.waiting import until

OWNER = {"source": "uuid-1"}
SECONDS = 60  # for what comes at once on an idle machine


class Disk:
    """`os.writev` while there is `room`."""

    def __init__(self) -> None:
        self.room = True

    def write(self, file: int, parts: Sequence[bytes | memoryview]) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.writev(file, parts)


def make(path: Path, disk: Disk | None = None, memory: int = 600, volume: int = 1 << 20) -> tuple[Store, Volumes]:
    registry = SchemaRegistry()
    registry.intern(table())
    store = Store(Ring(registry.get, memory, None, 1, disk_bytes=1 << 30))
    return store, Volumes(path, registry, volume, (disk or Disk()).write)


@contextmanager
def kept(store: Store, volumes: Volumes, **options: object) -> Iterator[Keeper]:
    """A keeper at work; at the end it writes what is left."""
    keeper = Keeper(store, volumes, 3600, flush_seconds=0, **options)  # type: ignore[arg-type]
    keeper.open(OWNER)
    stop = threading.Event()
    thread = threading.Thread(target=keeper.run, args=(stop,))
    thread.start()
    try:
        yield keeper
    finally:
        stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_what_is_put_gets_to_disk_and_is_there_again(tmp_path: Path) -> None:
    """Also what waits in memory when it stops. Memory has room for one block at a time."""
    store, volumes = make(tmp_path)
    with kept(store, volumes):
        for number in range(20):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())

    store, volumes = make(tmp_path)
    keeper = Keeper(store, volumes, 3600)
    assert keeper.open(OWNER) == EntryPosition("mysql-bin.000001", 4 + 160 * 20)
    assert (store.ring.put.rows, store.ring.log.parts.stored) == (20, len(store.ring.log.parts.all))
    volumes.close()


def test_the_source_waits_for_a_full_disk(tmp_path: Path) -> None:
    """Memory takes what it can, then a put waits; nothing is lost when there is room again."""
    disk = Disk()
    store, volumes = make(tmp_path, disk)
    with kept(store, volumes):
        disk.room = False
        assert store.put(block(transaction(1)), threading.Event())
        until(lambda: store.ring.stuck)
        waiting = threading.Thread(
            target=store.put, args=(block(transaction(1, 1, 1), start=164), threading.Event()), daemon=True
        )
        waiting.start()
        until(lambda: store.ring.full)
        assert store.ring.put.rows == 1

        disk.room = True
        waiting.join(SECONDS)
        assert (store.ring.put.rows, store.ring.stuck, store.ring.full) == (4, False, False)
        until(lambda: store.ring.log.parts.stored == 2)


def test_a_disk_that_takes_nothing_leaves_the_ring(tmp_path: Path) -> None:
    """What memory has room for goes through it as clients ack, again and again."""
    disk = Disk()
    disk.room = False
    store, volumes = make(tmp_path, disk)
    store.ring.subscribe(1)
    with kept(store, volumes):
        for number in range(6):
            assert store.put(block(transaction(1, 1), start=4 + 160 * number), threading.Event())
            with store.changed:
                store.ring.ack(1, store.ring.put)
        assert (store.ring.put.rows, store.ring.stuck) == (12, True)
        disk.room = True


def test_a_full_disk_takes_the_place_of_what_is_acked(tmp_path: Path) -> None:
    """What was kept for rewinds goes first; what is not acked stays."""
    disk = Disk()
    store, volumes = make(tmp_path, disk, volume=400)
    store.ring.subscribe(1)
    with kept(store, volumes):
        for number in range(4):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())
        until(lambda: store.ring.log.parts.stored == 4)
        with store.changed:
            store.ring.ack(1, store.ring.log.at(8))
        disk.room = False
        assert store.put(block(transaction(1), start=4 + 160 * 4), threading.Event())
        until(lambda: len(list(tmp_path.glob("*.volume"))) == 3)  # the last is empty
        assert (store.ring.log.begin.sequence, store.ring.put.rows) == (8, 5)
        disk.room = True
        until(lambda: store.ring.log.parts.stored == 3)


def test_what_was_acked_while_the_disk_was_full_leaves_no_gap(tmp_path: Path) -> None:
    """It is let go without having been written. What is not acked comes back after a restart."""
    disk = Disk()
    store, volumes = make(tmp_path, disk)
    store.ring.subscribe(1)

    def put(number: int) -> None:
        assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())

    with kept(store, volumes) as keeper:
        put(0)
        until(lambda: store.ring.log.parts.stored == 1)
        disk.room = False
        put(1)
        until(lambda: store.ring.stuck)
        with store.changed:
            store.ring.ack(1, store.ring.log.at(8))
        keeper._tidied = 0.0
        until(lambda: store.ring.log.begin.sequence == 8)
        disk.room = True
        put(2)
        until(lambda: store.ring.log.parts.stored == 1)

    again, volumes = make(tmp_path)
    with kept(again, volumes):
        assert (again.ring.log.begin.sequence, again.ring.log.end.sequence) == (8, 12)


def test_a_clock_that_is_set_back_or_forward_holds_nothing_up(tmp_path: Path) -> None:
    """What waits is written all the same. Only what is acked expires, whatever the time."""
    clock = Clock(1_700_000_000)
    store, volumes = make(tmp_path, volume=400)
    store.ring.subscribe(1)
    keeper = Keeper(store, volumes, 3600, clock, flush_seconds=30)
    keeper.open(OWNER)
    stop = threading.Event()
    thread = threading.Thread(target=keeper.run, args=(stop,))
    thread.start()
    try:
        for number, turn in enumerate((-1_000_000_000, 2_000_000_000, -86_400)):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())
            clock.turn(turn)
            until(lambda number=number: store.ring.log.parts.stored == number + 1)  # type: ignore[misc]
        assert store.ring.log.begin.sequence == 0
    finally:
        stop.set()
        thread.join(SECONDS)
    assert store.ring.put.rows == 3


def test_whatever_fails_is_tried_again(tmp_path: Path) -> None:
    """A volume that cannot be removed, too: the thread goes on, for without it the source would wait for ever."""
    store, volumes = make(tmp_path)
    failures = [RuntimeError("whatever")]
    forget = volumes.forget

    def fail_once(sequence: int) -> None:
        if failures:
            raise failures.pop()
        forget(sequence)

    volumes.forget = fail_once  # type: ignore[method-assign]
    with kept(store, volumes):
        until(lambda: not failures)
        assert store.put(block(transaction(1)), threading.Event())
        until(lambda: store.ring.log.parts.stored == 1 and not store.ring.stuck)


def test_damage_is_reported_once(tmp_path: Path) -> None:
    """After a restart the store ends before it."""
    store, volumes = make(tmp_path, volume=400)
    with kept(store, volumes):
        for number in range(4):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())
    second = sorted(tmp_path.glob("*.volume"))[1]
    data = bytearray(second.read_bytes())
    data[-20] ^= 1
    second.write_bytes(data)

    told: list[bool] = []
    store, volumes = make(tmp_path, volume=400)
    with kept(store, volumes, on_damage=lambda: told.append(True)):
        first, bad, *_ = store.ring.log.parts.unchecked(0, 16)
        first.check()
        for _ in range(2):
            with pytest.raises(StoreDamaged):
                bad.check()
        until(lambda: bool(told))
    assert told == [True]

    store, volumes = make(tmp_path)
    Keeper(store, volumes, 3600).open(OWNER)
    assert store.ring.put.rows == 1
    volumes.close()


def test_a_directory_that_is_removed_is_reported_once(tmp_path: Path) -> None:
    """What is written to it would be nowhere. One that is opened again in its place begins without rows."""
    told: list[bool] = []
    store, volumes = make(tmp_path / "store", volume=400)
    with kept(store, volumes, on_damage=lambda: told.append(True)):
        assert store.put(block(transaction(1)), threading.Event())
        until(lambda: store.ring.log.parts.stored == 1)
        shutil.rmtree(tmp_path / "store")
        until(lambda: bool(told))
        assert store.put(block(transaction(1), start=164), threading.Event())
    assert told == [True]

    store, volumes = make(tmp_path / "store")
    assert Keeper(store, volumes, 3600).open(OWNER) is None
    volumes.close()


def test_what_expired_leaves_the_disk(tmp_path: Path) -> None:
    """Whole volumes, once no client needs them."""
    clock = Clock(1_700_000_000)
    store, volumes = make(tmp_path, volume=400)
    store.ring.subscribe(1)
    with kept(store, volumes, clock=clock):
        for number in range(4):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())
        until(lambda: store.ring.log.parts.stored == 4)
        with store.changed:
            store.ring.ack(1, store.ring.put)
        assert len(list(tmp_path.glob("*.volume"))) == 4
        clock.turn(3601)
        until(lambda: len(list(tmp_path.glob("*.volume"))) == 1)
        assert not store.ring.log.events


def test_a_store_that_is_given_up_is_empty(tmp_path: Path) -> None:
    """What is put then has the sequences after those that there were."""
    store, volumes = make(tmp_path)
    with kept(store, volumes):
        assert store.put(block(transaction(1)), threading.Event())
    store, volumes = make(tmp_path)
    with kept(store, volumes) as keeper:
        keeper.discard()
        assert (store.ring.log.last_position, store.ring.log.events) == (None, 0)
        assert store.put(block(transaction(2), start=1000), threading.Event())
        until(lambda: store.ring.log.parts.stored == 1)
    store, volumes = make(tmp_path)
    Keeper(store, volumes, 3600).open(OWNER)
    (part,) = store.ring.log.parts.all
    assert isinstance(part, StoredSegment)
    assert (part.first.sequence, part.block.start) == (4, 1000)
    volumes.close()


def test_what_expired_leaves_the_disk_while_more_is_written(tmp_path: Path) -> None:
    """The files are as many as the room needs, though the keeper never waits for a block."""
    moments = count(1_700_000_000)
    store, volumes = make(tmp_path, volume=400)
    store.ring.disk_bytes = 2_000
    store.ring.subscribe(1)
    seen = 0
    with kept(store, volumes, clock=lambda: float(next(moments))):
        for number in range(300):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())
            with store.changed:
                store.ring.ack(1, store.ring.put)
            seen = max(seen, len(list(tmp_path.glob("*.volume"))))
    assert seen < 100


def test_the_room_is_looked_at_again(tmp_path: Path) -> None:
    """When there is less, what is acked goes, and the rest stays."""
    clock, rooms = Clock(1_700_000_000), [1 << 30]
    store, volumes = make(tmp_path, volume=400)
    store.ring.subscribe(1)
    with kept(store, volumes, clock=clock, room=lambda: rooms[-1]):
        for number in range(4):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())
        until(lambda: store.ring.log.parts.stored == 4)
        with store.changed:
            store.ring.ack(1, store.ring.log.at(8))
        rooms.append(1)
        clock.turn(61)
        until(lambda: len(list(tmp_path.glob("*.volume"))) == 2)
        assert (store.ring.disk_bytes, store.ring.log.begin.sequence, store.ring.put.rows) == (1, 8, 4)


def test_a_room_that_cannot_be_found_out_stays_as_it_is(tmp_path: Path) -> None:
    """And what is put is written all the same."""
    clock, looks = Clock(1_700_000_000), count()

    def fail() -> int:
        next(looks)
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    store, volumes = make(tmp_path)
    with kept(store, volumes, clock=clock, room=fail):
        clock.turn(61)
        until(lambda: next(copy(looks)) > 0)
        assert store.put(block(transaction(1)), threading.Event())
        until(lambda: store.ring.log.parts.stored == 1)
        assert (store.ring.disk_bytes, store.ring.stuck) == (1 << 30, False)


def test_an_idle_keeper_holds_one_file_open(tmp_path: Path) -> None:
    """The lock: a service may have hundreds of destinations."""
    store, volumes = make(tmp_path)
    with kept(store, volumes):
        for number in range(2):
            assert store.put(block(transaction(1), start=4 + 160 * number), threading.Event())
            until(lambda number=number: store.ring.log.parts.stored == number + 1)  # type: ignore[misc]
            until(lambda: open_files(tmp_path) == ["lock"])


def open_files(path: Path) -> list[str]:
    """Of this process, inside a directory."""
    found = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [one.name for one in found if one.parent == path]
