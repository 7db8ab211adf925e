"""Destinations of one real MySQL share a connection: what each gets, through kills, stops, full rings and the past."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from cdc_core.destination.capture import Capture
from cdc_core.destination.shared.pool import Pool
from cdc_core.gtid import GtidSet
from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, config, execute, running, until
from tests.support.marks import tiers
from tests.support.servers import MySqlFactory, kill_dumps

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def mysql(new_mysql: MySqlFactory) -> MySqlServer:
    return new_mysql("8.0.31")


@dataclass
class Shop:
    """A database with one table, a destination that captures it, and how many rows were written and claimed."""

    mysql: MySqlServer
    name: str
    nodes: MemoryNodes = field(default_factory=MemoryNodes)
    written: int = 0
    seen: int = 0

    def write(self, count: int = 1, note: str = "'x'") -> None:
        values = ", ".join(f"({self.written + number}, {note})" for number in range(count))
        execute(self.mysql, self.name, f"INSERT INTO orders VALUES {values}")
        self.written += count

    def running(self, pool: Pool, **changes: Any) -> Any:
        changes = {"destination": self.name} | changes
        return running(config(self.mysql, self.name, **changes), self.nodes, pool=pool)

    def drain(self, capture: Capture) -> None:
        """All that was written so far, and nothing more."""
        all_read(capture, self.mysql)
        while self.claim(capture):
            pass
        assert self.seen == self.written

    def claim(self, capture: Capture) -> int:
        """Claims and acks what is there. Returns the number of rows."""
        found = capture.service.claim(CLIENT, 1000, 0.05, "run-1", 60)
        if found is None:
            return 0
        self.seen += found.rows
        capture.service.ack(CLIENT, found.batch_id, "run-1")
        return found.rows


@contextmanager
def shops(mysql: MySqlServer, count: int) -> Iterator[list[Shop]]:
    with ExitStack() as stack:
        found = [Shop(mysql, stack.enter_context(mysql.database())) for _ in range(count)]
        for shop in found:
            execute(mysql, shop.name, "CREATE TABLE orders (id INT PRIMARY KEY, note LONGTEXT)")
        yield found


def dumps(mysql: MySqlServer) -> list[str]:
    """The names of the replicas."""
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW PROCESSLIST")
        ids = [int(row[0]) for row in cursor.fetchall() if str(row[4]).startswith("Binlog Dump")]
        return list(map(str, ids))


def wait(ready: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def joined(mysql: MySqlServer, shops: list[Shop], count: int = 1) -> None:
    """Writes until the server has so many dumps."""

    def ready() -> bool:
        shops[0].write()
        time.sleep(0.1)
        return len(dumps(mysql)) == count

    wait(ready)


def test_destinations_share_one_connection(mysql: MySqlServer) -> None:
    """Each gets its own rows once, at once; statements too. The last one to leave ends the connection."""
    pool = Pool()
    with shops(mysql, 3) as three, ExitStack() as stack:
        captures = [stack.enter_context(shop.running(pool)) for shop in three]
        joined(mysql, three)
        for shop, capture in zip(three, captures, strict=True):
            shop.write(5)
            begun = time.monotonic()
            found = capture.service.claim(CLIENT, 1000, 10, "run-1", 60)
            assert time.monotonic() - begun < 4  # it does not wait for what comes later
            capture.service.ack(CLIENT, found.batch_id, "run-1")
            shop.seen += found.rows
        execute(mysql, three[1].name, "ALTER TABLE orders ADD more INT FIRST", "ALTER TABLE orders DROP more")
        for shop, capture in zip(three, captures, strict=True):
            shop.write(2)
            shop.drain(capture)
            assert capture.status().state == "running"
        assert len(dumps(mysql)) == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("shared ")]


@pytest.mark.parametrize("name", tiers(["mysql"], full=["mysql57", "mysql9", "mariadb"]))
def test_through_killed_connections(name: str, request: pytest.FixtureRequest) -> None:
    """Each destination connects again by itself, and joins again, to each kind of server."""
    mysql: MySqlServer = request.getfixturevalue(name)
    pool, chance = Pool(pauses=(0.3, 1.0)), random.Random(7)
    with shops(mysql, 3) as three, ExitStack() as stack:
        captures = [stack.enter_context(shop.running(pool)) for shop in three]
        joined(mysql, three)
        for _ in range(8):
            for shop in chance.choices(three, k=6):
                shop.write(chance.randint(1, 20))
            kill_dumps(mysql)
            for shop in chance.choices(three, k=3):
                shop.write(chance.randint(1, 20))
            time.sleep(chance.random())
        for shop, capture in zip(three, captures, strict=True):
            shop.drain(capture)
        joined(mysql, three)
        execute(mysql, three[0].name, "FLUSH BINARY LOGS")
        for shop, capture in zip(three, captures, strict=True):
            shop.write(3)
            shop.drain(capture)


def test_one_that_stops_and_one_that_starts_in_the_past(mysql: MySqlServer) -> None:
    """The others go on; who is behind reads by itself until it has caught up, and gets all of it."""
    pool = Pool()
    with shops(mysql, 3) as three, ExitStack() as stack:
        one, two, late = three
        journal, position = mysql.position()
        first = stack.enter_context(one.running(pool))
        with two.running(pool) as capture:
            joined(mysql, three)
            two.write(3)
            two.drain(capture)
        two.write(4)
        late.write(50)
        one.write(1)
        one.drain(first)
        again = stack.enter_context(two.running(pool))
        past = stack.enter_context(late.running(pool, journal_name=journal, position=position))
        for shop, capture in ((one, first), (two, again), (late, past)):
            shop.write(2)
            shop.drain(capture)
        joined(mysql, three)
        for shop, capture in ((one, first), (two, again), (late, past)):
            shop.write(2)
            shop.drain(capture)


def test_a_full_ring_holds_up_nobody(mysql: MySqlServer) -> None:
    """The destination is overtaken and goes on by its own connection, from where it was."""
    pool = Pool(held=1 << 17)
    small = {"buffer_size": 64, "block_bytes": 4096}
    with shops(mysql, 2) as two, ExitStack() as stack:
        quick, slow = two
        fast, full = (stack.enter_context(shop.running(pool, **small)) for shop in (quick, slow))
        joined(mysql, two)
        for _ in range(30):
            slow.write(10, "REPEAT('x', 1000)")
        until(lambda: full.store.ring.full, full)
        for _ in range(30):
            slow.write(10, "REPEAT('x', 1000)")
            quick.write()
            until(lambda: quick.claim(fast) == 0 and quick.seen == quick.written, fast)
        until(lambda: slow.claim(full) == 0 and slow.seen == slow.written, full)
        for shop, capture in ((quick, fast), (slow, full)):
            shop.write()
            shop.drain(capture)
        wait(lambda: len(dumps(mysql)) == 2)  # it does not join at once again


@pytest.mark.parametrize("change", [{"dump_shared": False}, {"heartbeat_seconds": 2}])
def test_who_differs_has_its_own_connection(mysql: MySqlServer, change: dict[str, Any]) -> None:
    """Without the key, or with other settings of the connection."""
    pool = Pool()
    with shops(mysql, 3) as three, ExitStack() as stack:
        captures = [stack.enter_context(shop.running(pool)) for shop in three[:2]]
        captures.append(stack.enter_context(three[2].running(pool, **change)))
        joined(mysql, three, 2)
        for shop, capture in zip(three, captures, strict=True):
            shop.write(3)
            shop.drain(capture)
        assert len(dumps(mysql)) == 2


def executed(mysql: MySqlServer) -> GtidSet:
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        return GtidSet.parse(str(cursor.fetchall()[0][0]))


def test_by_gtid_each_gets_what_its_set_lacks(mysql: MySqlServer) -> None:
    """What is in the set lies after what is not: the server leaves it out, and so does the shared connection, which
    begins after both. After a break each goes on by its own set."""
    pool = Pool(pauses=(0.3, 1.0))
    with shops(mysql, 3) as three, ExitStack() as stack:
        begun = executed(mysql)
        lacked, had = three[2], 0
        lacked.write(3)
        after = executed(mysql)
        lacked.write(5)
        had = 5
        for shop in three[:2]:
            shop.write(2)
        known = begun | (executed(mysql) - after)  # all but the first three rows
        sets = [str(begun), None, str(known)]
        captures = [
            stack.enter_context(shop.running(pool, **({"gtid_mode": True, "gtid": gtids} if gtids else {})))
            for shop, gtids in zip(three, sets, strict=True)
        ]
        lacked.written -= had
        until(lambda: lacked.claim(captures[2]) == 0 and lacked.seen == lacked.written, captures[2])
        lacked.written += had
        lacked.seen += had
        three[1].seen = 2  # it started at the end
        for _ in range(3):
            joined(mysql, three)
            for shop, capture in zip(three, captures, strict=True):
                shop.write(3)
                shop.drain(capture)
            kill_dumps(mysql)
            for shop in three:
                shop.write(2)
        for shop, capture in zip(three, captures, strict=True):
            shop.drain(capture)


def test_one_destination_has_its_own_connection(mysql: MySqlServer) -> None:
    """Nothing is shared with nobody."""
    with shops(mysql, 1) as (shop,), shop.running(Pool()) as capture:
        for _ in range(5):
            shop.write()
            shop.drain(capture)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("shared ")]


def test_a_position_is_there_when_somebody_asks(mysql: MySqlServer) -> None:
    """Rows of other destinations move it late; a status hurries it."""
    pool = Pool()
    with shops(mysql, 2) as two, ExitStack() as stack:
        captures = [stack.enter_context(shop.running(pool)) for shop in two]
        joined(mysql, two)
        two[0].drain(captures[0])
        two[0].write()
        begun = time.monotonic()
        all_read(captures[1], mysql)
        assert time.monotonic() - begun < 2
