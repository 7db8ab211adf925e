"""A destination with a store on disk, in front of a real MySQL."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_core.binlog.block import BlockSlice
from cdc_core.contract.claim import Claim
from cdc_core.destination import kept
from cdc_core.destination.capture import Capture
from cdc_core.destination.events import Configuration
from cdc_core.destination.kept import out_of_reach
from cdc_core.destination.runner import Destination
from cdc_core.errors import SluiceError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.rows.net import plan_changes, plan_net, read
from cdc_core.store.disk.stored import StoredSegment
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, claim, config, drain, execute, on_disk, purge, running, until
from tests.support.servers import MySqlFactory, discard

JOURNAL = "mysql-bin.000001"


pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def mysql(new_mysql: MySqlFactory) -> Iterator[MySqlServer]:
    """A server of their own, whose binlogs are purged and reset."""
    server = new_mysql("8.0.31")
    yield server
    discard(server)


@pytest.fixture
def shop(mysql: MySqlServer) -> Iterator[str]:
    """A database with one table."""
    with mysql.database() as name:
        execute(mysql, name, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(2000))")
        yield name


def bytes_of(slices: list[BlockSlice]) -> bytes:
    return b"".join(
        part.block.data[row["offset"] : row["offset"] + row["length"]].tobytes()
        for part in slices
        for row in part.index
    )


def rows_of(capture: Capture, found: Claim) -> list[pa.Table]:
    """The claim's one table, as net changes and as all changes."""
    slices = capture.service.slices(CLIENT, found.batch_id)
    plans = [plan(slices, capture.registry, found.tables[0].name) for plan in (plan_net, plan_changes)]
    return [pa.Table.from_batches(batch for n in range(len(plan.splits)) for batch in read(plan, n)) for plan in plans]


def test_a_claim_reaches_over_more_than_memory_holds(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """The rows are those that a destination in memory alone gives, and so they are from disk after a restart."""
    own, nodes = on_disk(mysql, shop, tmp_path, buffer_size=64), MemoryNodes()
    found = []
    with running(config(mysql, shop), MemoryNodes()) as memory, running(own, nodes) as disk:
        for start in range(0, 1000, 50):
            values = ", ".join(f"({start + n}, '{'x' * 1000}')" for n in range(50))
            execute(mysql, shop, f"INSERT INTO orders VALUES {values}")
        execute(mysql, shop, "UPDATE orders SET note = id WHERE id % 7 = 0")
        rows = 1000 + 143
        for capture in (memory, disk):
            all_read(capture, mysql)
            one = claim(capture, rows=2000)
            assert (one.rows, one.nbytes > 10 * 64 * 1024) == (rows, True)
            found.append(rows_of(capture, one))
    with running(own, nodes) as disk:
        all_read(disk, mysql)
        found.append(rows_of(disk, claim(disk, rows=2000)))
        assert all(isinstance(part, StoredSegment) for part in disk.store.ring.log.parts.all)
    assert found[0] == found[1] == found[2]


def test_a_restart_goes_on_after_what_is_on_disk(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """What was read is not asked of the source again, also when the source does not have it any more; DDL included."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with running(own, nodes) as capture:
        execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
        acked = claim(capture)
        capture.service.ack(CLIENT, acked.batch_id, "run-1")
        execute(mysql, shop, "ALTER TABLE orders ADD COLUMN more INT")
        execute(mysql, shop, "INSERT INTO orders VALUES (2, 'b', 3)")
        purge(mysql)
        execute(mysql, shop, "INSERT INTO orders VALUES (3, 'c', 4)")
        all_read(capture, mysql)
        last = capture.status().position

    with running(own, nodes) as capture:
        all_read(capture, mysql)
        status = capture.status()
        assert status.start is not None
        assert status.start.chosen == last
        again = claim(capture)
        assert (again.start, again.rows, len(again.ddl)) == (acked.end, 2, 1)
        assert [column.name for column in again.tables[0].schema.columns] == ["id", "note", "more"]
        capture.service.ack(CLIENT, again.batch_id, "run-1")
        execute(mysql, shop, "INSERT INTO orders VALUES (4, 'd', 5)")
        assert claim(capture).rows == 1


@pytest.mark.parametrize("harm", ["cut", "flipped bit", "gone"])
def test_what_is_damaged_is_read_from_the_source_again(
    mysql: MySqlServer, shop: str, tmp_path: Path, harm: str
) -> None:
    """Whatever is left on disk, each row comes once."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with running(own, nodes) as capture:
        for number in range(5):
            execute(mysql, shop, f"INSERT INTO orders VALUES ({number}, 'a')")
        all_read(capture, mysql)
    (volume,) = (tmp_path / "shop").glob("*.volume")
    data = bytearray(volume.read_bytes())
    if harm == "flipped bit":
        data[len(data) * 2 // 3] ^= 4
    volume.write_bytes(data if harm == "flipped bit" else data[: len(data) * 2 // 3] if harm == "cut" else b"")

    with running(own, nodes) as capture:
        execute(mysql, shop, "INSERT INTO orders VALUES (5, 'b')")
        assert drain(capture, 6) == 6
        assert capture.service.claim(CLIENT, 10, 0.2, "run-1", 60) is None


@pytest.mark.parametrize("purged", [False, True])
def test_a_killed_process_may_have_served_more_than_is_on_disk(
    mysql: MySqlServer, shop: str, tmp_path: Path, purged: bool
) -> None:
    """What lies between the disk's end and the cursor comes from the source and is passed over; where the source does
    not have it any more, the disk is given up."""
    nodes, written, left = MemoryNodes(), tmp_path / "written", tmp_path / "left"
    with running(on_disk(mysql, shop, written), nodes) as capture:
        execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
        all_read(capture, mysql)
        capture.store.ring.crowded = True  # the keeper writes at once
        until(lambda: capture.store.ring.log.parts.memory is None, capture)
        shutil.copytree(written, left)
        execute(mysql, shop, "INSERT INTO orders VALUES (2, 'b')")
        if purged:
            purge(mysql)
            execute(mysql, shop, "INSERT INTO orders VALUES (3, 'c')")
        drain(capture, 3 if purged else 2)

    with running(on_disk(mysql, shop, left), nodes) as capture:
        execute(mysql, shop, "INSERT INTO orders VALUES (4, 'd')")
        assert claim(capture).rows == 1
        assert capture.service.slices(CLIENT, capture.service.client(CLIENT).claims[0].batch_id)


def acked(destination: Destination, least: int) -> int:
    """How many rows were claimed and acked, when they are that many at least."""
    rows, deadline = 0, time.monotonic() + 120
    while rows < least:
        assert time.monotonic() < deadline, destination.status()
        with suppress(SluiceError):  # damaged, between two captures, or not connected yet
            found = destination.service().claim(CLIENT, 10, 1, "run-1", 60)
            if found is not None:
                rows += found.rows
                destination.service().ack(CLIENT, found.batch_id, "run-1")
    return rows


def test_damage_that_a_claim_meets_begins_a_new_capture(
    mysql: MySqlServer, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit in a volume that no start reads as a whole: its rows come from the source, and each comes once."""
    monkeypatch.setattr(kept, "volume_bytes", lambda _: 1)
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with running(own, nodes) as capture:
        for number in range(5):
            execute(mysql, shop, f"INSERT INTO orders VALUES ({number}, 'a')")
            all_read(capture, mysql)
            capture.store.ring.crowded = True  # the keeper writes at once
            until(lambda: capture.store.ring.log.parts.memory is None, capture)
    volume = sorted((tmp_path / "shop").glob("*.volume"))[2]
    data = bytearray(volume.read_bytes())
    data[len(data) // 2] ^= 4
    volume.write_bytes(data)

    destination = Destination("shop", Configuration(own), nodes, pauses=(0.2, 1.0))
    destination.start()
    try:
        assert acked(destination, 5) == 5
    finally:
        destination.end("the test is over")


def test_a_directory_that_is_removed_begins_a_new_capture(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """Its rows come from the source again, and are on disk again."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with running(own, nodes) as capture:
        execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
        all_read(capture, mysql)
    destination = Destination("shop", Configuration(own), nodes, pauses=(0.2, 1.0))
    destination.start()
    try:
        assert acked(destination, 1) == 1
        execute(mysql, shop, "INSERT INTO orders VALUES (2, 'a')")
        shutil.rmtree(tmp_path / "shop")
        deadline = time.monotonic() + 120
        while not (tmp_path / "shop" / "lock").exists():
            assert time.monotonic() < deadline, destination.status()
            time.sleep(0.1)
        execute(mysql, shop, "INSERT INTO orders VALUES (3, 'a')")
        assert acked(destination, 2) == 2
    finally:
        destination.end("the test is over")


def test_a_directory_that_cannot_be_used_is_reported(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """Nothing is read without it, and it is tried again."""
    (tmp_path / "shop").write_text("a file in its place")
    with running(on_disk(mysql, shop, tmp_path), MemoryNodes(), wait=False) as capture:
        error = until(lambda: capture.status().error, capture)
        assert ("cannot be opened" in error.message, error.place) == (True, str(tmp_path / "shop"))
        (tmp_path / "shop").unlink()
        until(lambda: capture.status().state == "running", capture)


def test_what_other_filters_made_is_not_used(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """The rows that the filter leaves out now are gone from it, and those that it takes in are there."""
    nodes = MemoryNodes()
    execute(mysql, shop, "CREATE TABLE items (id INT PRIMARY KEY)")
    with running(on_disk(mysql, shop, tmp_path), nodes) as capture:
        execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')", "INSERT INTO items VALUES (1)")
        all_read(capture, mysql)

    with running(on_disk(mysql, shop, tmp_path, filter_regex=rf"{shop}\.items"), nodes) as capture:
        assert [table.name for table in claim(capture).tables] == [f"{shop}.items"]


def test_binlogs_that_were_reset_are_not_those_on_disk(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """The same server and the same journal name, other events at the place: the disk is given up, and says why."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("RESET MASTER")
    with running(own, nodes) as capture:
        execute(mysql, shop, "INSERT INTO orders VALUES (1, 'a')")
        all_read(capture, mysql)
        place = capture.status().position
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("RESET MASTER")
    execute(mysql, shop, "INSERT INTO orders VALUES (2, 'b')")
    start = LogPosition(mysql.host, mysql.port, EntryPosition(place.journal_name, 157))
    Cursors(nodes, "shop").rewind(CLIENT, start)

    with running(own, nodes) as capture:
        found = claim(capture)
        assert b"b" in bytes_of(capture.service.slices(CLIENT, found.batch_id))
        assert found.rows == 1


@pytest.mark.parametrize(
    ("cursor", "why"),
    [
        (EntryPosition(JOURNAL, 99), "a cursor lies before it"),
        (EntryPosition(JOURNAL, 100), ""),
        (EntryPosition(JOURNAL, 500), ""),
        (EntryPosition(JOURNAL, 5000), ""),
        (EntryPosition(JOURNAL, 1 << 30), "the cursors are far behind its end"),
        (EntryPosition("mysql-bin.000002", 4), "the cursors are far behind its end"),
    ],
)
def test_what_can_be_served_from_disk(cursor: EntryPosition, why: str) -> None:
    """A cursor in it, or a little after it: a process that was killed served what it had not written yet."""
    assert out_of_reach(EntryPosition(JOURNAL, 100), EntryPosition(JOURNAL, 500), cursor) == why
