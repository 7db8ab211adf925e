"""Rewinds over what a destination keeps on disk, from before what its source still has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.destination.capture import Capture
from cdc_core.destination.positions import positions
from cdc_core.destination.rewind import RewindPlan, RewindTarget, carry_out, plan
from cdc_core.errors import PositionError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes, Nodes
from cdc_core.position import EntryPosition
from cdc_core.source.start.tree import ByGtid
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, claim, drain, execute, on_disk, purge, running, until
from tests.support.marks import mostly_full
from tests.support.servers import MySqlFactory, discard, executed_gtids

pytestmark = pytest.mark.integration

OTHER = 1002
PLACES = ["position", "gtid", "time", "earliest"]
BY_DEFAULT = [("position", False), ("gtid", True)]


@pytest.fixture(scope="module")
def mysql(new_mysql: MySqlFactory) -> Iterator[MySqlServer]:
    """A server of their own, whose binlogs are purged."""
    server = new_mysql("8.0.31")
    yield server
    discard(server)


@pytest.fixture
def shop(mysql: MySqlServer) -> Iterator[str]:
    """A database with one table."""
    with mysql.database() as name:
        execute(mysql, name, "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(2000))")
        yield name


@contextmanager
def purged(
    own: InstanceConfig, nodes: Nodes, mysql: MySqlServer, shop: str
) -> Iterator[tuple[Capture, dict[str, EntryPosition | ByGtid | int | str]]]:
    """A capture that has acked five rows, of which the source has purged four; and names of the place between the
    second and the third. The transactions are ten seconds apart, and the last is of now."""
    begun = int(time.time()) - 1000
    with running(own, nodes) as capture:
        for number in range(4):
            moment = f"SET TIMESTAMP = {begun + 10 * number}"
            execute(mysql, shop, moment, f"INSERT INTO orders VALUES ({number}, 'a')")
            drain(capture, 1)
            if number == 1:
                cursor, executed = capture.service.client(CLIENT).cursor, executed_gtids(mysql)
        assert cursor is not None
        purge(mysql)
        execute(mysql, shop, "INSERT INTO orders VALUES (4, 'b')")
        drain(capture, 1)
        place = EntryPosition(cursor.journal_name, cursor.position)
        yield (
            capture,
            {"position": place, "gtid": ByGtid(executed), "time": (begun + 25) * 1000, "earliest": "earliest"},
        )


def planned(capture: Capture, nodes: Nodes, to: object, client: int = CLIENT) -> RewindPlan:
    assert capture.kept is not None
    return plan(capture.settings, Cursors(nodes, "shop"), RewindTarget(to, client), kept=capture.kept.places())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("to", "gtid_mode"), mostly_full(list(product(PLACES, [False, True])), BY_DEFAULT.__contains__)
)
def test_a_rewind_needs_no_binlog_of_the_source(
    mysql: MySqlServer, shop: str, tmp_path: Path, to: str, gtid_mode: bool
) -> None:
    """Whatever names the place. The rows after it come once more, those before it do not."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path, gtid_mode=gtid_mode)
    with purged(own, nodes, mysql, shop) as (capture, places):
        if to != "earliest":
            with pytest.raises(PositionError):
                plan(capture.settings, Cursors(nodes, "shop"), RewindTarget(places[to]))  # type: ignore[arg-type]
        found = planned(capture, nodes, places[to])
    carry_out(Cursors(nodes, "shop"), found)

    rows = {"earliest": 5}.get(to, 3)
    with running(own, nodes) as capture:
        all_read(capture, mysql)
        again = claim(capture)
        assert (again.rows, again.epoch) == (rows, 1)
        capture.service.ack(CLIENT, again.batch_id, "run-1")
        execute(mysql, shop, "INSERT INTO orders VALUES (5, 'c')")
        assert drain(capture, 1) == 1
        if gtid_mode:
            cursor = capture.service.client(CLIENT).cursor
            assert cursor is not None
            assert str(cursor.gtid) == executed_gtids(mysql)


def test_a_new_client_begins_at_what_is_on_disk(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """It gets the rows that all others have acked, and they get none again."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with purged(own, nodes, mysql, shop) as (capture, places):
        capture.service.subscribe(OTHER)
        found = planned(capture, nodes, places["position"], OTHER)
    carry_out(Cursors(nodes, "shop"), found)

    with running(own, nodes) as capture:
        all_read(capture, mysql)
        until(lambda: capture.service.client(OTHER).backlog_rows == 3, capture)
        assert capture.service.client(CLIENT).backlog_rows == 0
        one = capture.service.claim(OTHER, 10, 60, "run-1", 60)
        assert one is not None
        assert one.rows == 3


def test_what_is_kept_is_reported(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """A cursor whose journal is gone from the source is no trouble while the store has what lies after it; neither is
    it for the warning of binlogs that expire."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with purged(own, nodes, mysql, shop) as (capture, places):
        kept, place = capture.kept, places["position"]
        assert kept is not None
        assert isinstance(place, EntryPosition)
        cursors = Cursors(nodes, "shop")
        cursors.rewind(CLIENT, planned(capture, nodes, place).position)

        told = positions(capture.settings, cursors, time.time, kept.start)
        assert told.kept == kept.start
        assert [(one.purged, one.kept, one.bytes) for one in told.clients] == [(False, True, None)]
        without = positions(capture.settings, cursors, time.time)
        assert [(one.purged, one.kept) for one in without.clients] == [(True, False)]

        end = capture.store.ring.log.last_commit
        assert kept.start is not None
        before = EntryPosition(kept.start.journal_name, kept.start.position - 1)
        assert kept.needed({CLIENT: place, OTHER: before}) == {CLIENT: end, OTHER: before}


def test_what_is_not_on_disk_is_refused(mysql: MySqlServer, shop: str, tmp_path: Path) -> None:
    """A place inside a transaction, a set that the server never executed, a time before the first transaction, one in
    the future."""
    nodes, own = MemoryNodes(), on_disk(mysql, shop, tmp_path)
    with purged(own, nodes, mysql, shop) as (capture, places):
        place = places["position"]
        assert isinstance(place, EntryPosition)
        inside = [replace(place, position=place.position + by) for by in (-1, 1)]
        never = ByGtid("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-9")
        for one in (*inside, never, 1000, int(time.time() + 3600) * 1000):
            with pytest.raises(PositionError):
                planned(capture, nodes, one)
