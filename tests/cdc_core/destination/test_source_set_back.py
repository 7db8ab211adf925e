"""The server that was read is provisioned, numbers its binlogs again, or is set back to an older copy of its disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.contract.status import ErrorReport
from cdc_core.destination.capture import Capture
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Change, MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, config, drain, on_disk, purge, running, until
from tests.support.marks import tiers
from tests.support.pair import capture_of, destination, reads
from tests.support.pair import drain as drain_all
from tests.support.pair import until as until_it
from tests.support.proxy import Proxy
from tests.support.servers import MySqlFactory, discard, executed_gtids, kill_dumps
from tests.support.source_soak import SourceSoak

pytestmark = pytest.mark.integration

OTHER = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


@pytest.fixture
def mysql(new_mysql: MySqlFactory) -> Iterator[MySqlServer]:
    """A server of its own, with one table."""
    server = new_mysql("8.0.31")
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    yield server
    discard(server)


def provision(mysql: MySqlServer, purged: str) -> None:
    mysql.execute("RESET MASTER", f"SET GLOBAL gtid_purged = '{purged}'")


def insert(mysql: MySqlServer, *ids: int) -> None:
    """A transaction for each."""
    with mysql.root("shop") as connection, connection.cursor() as cursor:
        for number in ids:
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'x')")


@pytest.mark.parametrize("purged", [f"{OTHER}:1-500", f"{OTHER}:7-500", f"{OTHER}:1-500,bbbbbbbb{OTHER[8:]}:3"])
def test_a_provisioned_server(mysql: MySqlServer, purged: str) -> None:
    """Its journals do not name what it was provisioned with. Restarts go on, and so does a start at a position."""
    provision(mysql, purged)
    nodes, own = MemoryNodes(), config(mysql, "shop", gtid_mode=True)
    journal, offset = mysql.position()
    insert(mysql, 1)
    for number in (2, 3):
        with running(own, nodes) as capture:
            insert(mysql, number)
            drain(capture, 1)
    placed, nodes = config(mysql, "shop", gtid_mode=True, journal_name=journal, position=offset), MemoryNodes()
    for number, rows in ((4, 4), (5, 1)):
        with running(placed, nodes) as capture:
            insert(mysql, number)
            assert drain(capture, rows) == rows


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "stopped"])
def test_a_purge_of_all_that_was_read(mysql: MySqlServer, reads: bool) -> None:
    """By GTID it takes nothing away: reading goes on in the same epoch, with and without an event read before."""
    nodes, own = MemoryNodes(), config(mysql, "shop", gtid_mode=True)
    mysql.execute("FLUSH BINARY LOGS")
    with running(own, nodes):
        mysql.execute("FLUSH BINARY LOGS")
    for number in range(3):
        with running(own, nodes) as capture:
            if number:
                insert(mysql, number)
                drain(capture, 1)
            if reads:
                purge(mysql)
                kill_dumps(mysql)
                insert(mysql, number + 10)
                drain(capture, 1)
        if not reads:
            purge(mysql)
    assert Cursors(nodes, "shop").epoch(CLIENT).number == 0


MODES = pytest.mark.parametrize("gtid_mode", [False, True], ids=["place", "gtid"])


def set_back(mysql: MySqlServer, copy: Path, *, take: bool = False) -> None:
    """Takes a copy of the server's disk, or puts it back; the server is down meanwhile."""
    mysql.kill()
    data = mysql._directory / "data"
    source, target = (data, copy) if take else (copy, data)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    mysql.start()


def refused(capture: Capture, what: str) -> None:
    """It says that the server was set back, and names the remedy."""

    def error() -> ErrorReport | None:
        found = capture.status().error
        return found if found and what in found.message and "--anew" in found.hint else None

    until(error, capture)


@MODES
@pytest.mark.parametrize("disk", [pytest.param(False, marks=pytest.mark.full), True], ids=["ring", "disk"])
def test_a_server_that_was_set_back(mysql: MySqlServer, tmp_path: Path, gtid_mode: bool, disk: bool) -> None:
    """It stays refused when the server has written past the cursor, over restarts, until the cursor is set by hand."""
    nodes = MemoryNodes()
    own = (
        on_disk(mysql, "shop", tmp_path / "store", gtid_mode=gtid_mode)
        if disk
        else config(mysql, "shop", gtid_mode=gtid_mode)
    )
    with running(own, nodes) as capture:
        insert(mysql, 1, 2, 3)
        drain(capture, 3)
        set_back(mysql, tmp_path / "copy", take=True)
        insert(mysql, *range(10, 60))
        drain(capture, 50)
        set_back(mysql, tmp_path / "copy")
        insert(mysql, *range(100, 300))
        refused(capture, "the server has")
    for _ in range(2):
        with running(own, nodes, wait=False) as capture:
            refused(capture, "the server has")
    journal, offset = mysql.position()
    Cursors(nodes, "shop").rewind(CLIENT, LogPosition(mysql.host, mysql.port, EntryPosition(journal, offset)))
    with running(own, nodes) as capture:
        insert(mysql, 1000)
        drain(capture, 1)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("gtid_mode", "way"),
    [
        (True, "reset"),
        (False, "by hand"),
        *(pytest.param(*one, marks=pytest.mark.full) for one in ((True, "restored"), (False, "restored"))),
    ],
)
def test_what_was_seen_is_not_forgotten(mysql: MySqlServer, tmp_path: Path, gtid_mode: bool, way: str) -> None:
    """Rows that were claimed and not acked are gone from the source, which has the cursor's event. A restart does not
    take others for them, also when the journals that show it are purged: a person decides, or the events come back."""
    nodes, own = MemoryNodes(), config(mysql, "shop", gtid_mode=gtid_mode)
    with running(own, nodes) as capture:
        insert(mysql, 1, 2, 3)
        drain(capture, 3)
        set_back(mysql, tmp_path / "old", take=True)
        insert(mysql, *range(10, 60))
        all_read(capture, mysql)
        assert capture.service.claim(CLIENT, 10, 10, "run-1", 60) is not None
        set_back(mysql, tmp_path / "last", take=True)
        set_back(mysql, tmp_path / "old")
        insert(mysql, *range(100, 150))
        refused(capture, "the server ")
    with running(own, nodes, wait=False) as capture:
        refused(capture, "the server ")
    purge(mysql)
    with running(own, nodes, wait=False) as capture:
        refused(capture, "the server ")
    journal, offset = mysql.position()
    place = LogPosition(mysql.host, mysql.port, EntryPosition(journal, offset))
    if way == "reset":
        Cursors(nodes, "shop").rewind(CLIENT, place)
    elif way == "by hand":
        path = f"/otter/canal/destinations/shop/{CLIENT}/cursor"
        node = nodes.read(path)
        assert node is not None
        nodes.write({path: Change(place.to_json().encode(), node.version)})
    else:
        set_back(mysql, tmp_path / "last")
    for number in (1000, 1001):
        with running(own, nodes) as capture:
            insert(mysql, number)
            drain(capture, 1 if way != "restored" or number == 1001 else 51)


def test_a_server_that_has_not_come_so_far_again(mysql: MySqlServer, tmp_path: Path) -> None:
    """By GTID the error names the transactions that are gone, not a damaged journal."""
    nodes, own = MemoryNodes(), config(mysql, "shop", gtid_mode=True)
    with running(own, nodes) as capture:
        set_back(mysql, tmp_path / "copy", take=True)
        insert(mysql, 1, 2)
        drain(capture, 2)
        set_back(mysql, tmp_path / "copy")
        refused(capture, "the server does not have the transactions")


@MODES
@pytest.mark.parametrize("how", ["reset", pytest.param("another log-bin", marks=pytest.mark.full), "removed"])
def test_journals_that_begin_again(mysql: MySqlServer, gtid_mode: bool, how: str) -> None:
    """By GTID reading goes on in a new epoch, after what was read; by place it is refused. Nothing is missing."""
    nodes, own = MemoryNodes(), config(mysql, "shop", gtid_mode=gtid_mode)
    with destination(own, nodes) as one:
        insert(mysql, *range(1, 50))
        drain_all(one, 49)
        if how == "reset":
            gtids = executed_gtids(mysql)
            provision(mysql, gtids)
            kill_dumps(mysql)
        else:
            mysql.kill()
            if how == "removed":
                for file in (mysql._directory / "data").glob("mysql-bin.*"):
                    file.unlink()
            else:
                mysql.process._command.append("--log-bin=other-bin")
            mysql.start()
        insert(mysql, *range(100, 104))
        if gtid_mode:
            until_it(lambda: Cursors(nodes, "shop").epoch(CLIENT).number == 1, one)
            until_it(lambda: reads(one), one)
            drain_all(one, 4)
            insert(mysql, 200)
            drain_all(one, 1)
        else:
            refused(capture_of(one), "")
            insert(mysql, *range(300, 400))
            refused(capture_of(one), "a different event at the position" if how != "another log-bin" else "")


_INSERT = "INSERT INTO orders (id, note) VALUES (1, 'a')"
ENDS = {
    "rows": (_INSERT,),
    "xa": ("XA START 'x'", _INSERT, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"),
    "one phase": ("XA START 'x'", _INSERT, "XA END 'x'", "XA COMMIT 'x' ONE PHASE"),
    "rolled back xa": ("XA START 'x'", _INSERT, "XA END 'x'", "XA PREPARE 'x'", "XA ROLLBACK 'x'"),
    "ddl": ("ALTER TABLE orders ADD COLUMN more INT",),
    "myisam": ("INSERT INTO old VALUES (1)",),
    "mixed": ("BEGIN", "INSERT INTO old VALUES (2)", _INSERT, "ROLLBACK"),
    "savepoint": ("BEGIN", "SAVEPOINT s", "INSERT INTO old VALUES (3)", "ROLLBACK TO s", "COMMIT"),
    "large": ("INSERT INTO big VALUES (REPEAT('x', 3000000))",),
}


@pytest.mark.in_turn
@pytest.mark.full
@MODES
@pytest.mark.parametrize("option", ["", "binlog_transaction_compression", "log_bin_compress", "mariadb"])
def test_whatever_ends_a_transaction_is_found_again(
    new_mysql: MySqlFactory, tmp_path: Path, option: str, gtid_mode: bool
) -> None:
    """At a reconnect and at a restart, from the ring and from the store on disk."""
    version = "8.0.31" if "transaction" in option or not option else "mariadb"
    server = new_mysql(version, **{option: "ON"} if "compress" in option else {})
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    server.execute("CREATE TABLE shop.old (id INT) ENGINE = MyISAM", "CREATE TABLE shop.big (t LONGTEXT)")
    nodes, own = MemoryNodes(), on_disk(server, "shop", tmp_path, gtid_mode=gtid_mode)
    for name, statements in ENDS.items():
        with running(own, nodes) as capture:
            server.execute("DELETE FROM orders", *statements, database="shop")
            all_read(capture, server)
            before = capture._dump.status.reconnects
            kill_dumps(server)
            until(lambda: capture._dump.status.reconnects > before, capture)  # noqa: B023
            until(lambda: capture.status().state == "running", capture)
            while found := capture.service.claim(CLIENT, 1000, 0.0, "run-1", 60):
                capture.service.ack(CLIENT, found.batch_id, "run-1")
            cursor = Cursors(nodes, "shop").read(CLIENT)
            assert cursor is not None
            print(name, cursor.postion, cursor.postion.anchor)
            assert cursor.postion.anchor is not None
    discard(server)


@MODES
def test_a_large_compressed_transaction_at_the_cursor(new_mysql: MySqlFactory, tmp_path: Path, gtid_mode: bool) -> None:
    """Another one has its GTID, and ends near it in the journal: it is recognized when the server is past the place."""
    server = new_mysql("8.0.31", binlog_transaction_compression="ON")
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note LONGTEXT)")
    nodes, own = MemoryNodes(), config(server, "shop", gtid_mode=gtid_mode)
    large = "INSERT INTO orders VALUES (%d, REPEAT('%s', 3000000))"
    with running(own, nodes) as capture:
        server.execute(large % (1, "a"), database="shop")
        drain(capture, 1)
        kill_dumps(server)
        set_back(server, tmp_path / "copy", take=True)
        server.execute(large % (2, "b"), database="shop")
        drain(capture, 1)
        place = server.position()
        set_back(server, tmp_path / "copy")
        server.execute(large % (3, "c"), database="shop")
        assert server.position()[0] == place[0]
        insert(server, *range(10, 60))
        refused(capture, "the server has")
    with running(own, nodes, wait=False) as capture:
        refused(capture, "the server has")
    discard(server)


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.parametrize(("version", "seed"), tiers([("8.0.31", 2), ("mariadb", 5)], turns=[("5.7.22", 1), ("9", 3)]))
def test_random_events(new_mysql: MySqlFactory, tmp_path: Path, version: str, seed: int) -> None:
    """Restarts, purges, resets and older copies of the disk: no row is lost or comes twice, and what must be refused is
    refused."""
    server = new_mysql(version)
    outcome = SourceSoak(server, tmp_path, seed, gtid=bool(seed % 2), stored=seed > 2).run(12)
    discard(server)
    assert not outcome.fault, outcome


NO_GTIDS = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}


@pytest.mark.parametrize(
    ("version", "options", "refusal"),
    [
        ("8.0.31", {}, "this server lacks the transactions"),
        ("8.0.31", NO_GTIDS, "is before the oldest journal"),
        ("mariadb", {}, "the server has a different event at the position"),
    ],
    ids=["gtids", "no gtids", "mariadb"],
)
def test_a_new_server_in_the_place_of_the_one_on_disk(
    new_mysql: MySqlFactory, tmp_path: Path, version: str, options: dict[str, str], refusal: str
) -> None:
    """At the address of a lost server, whose rows are in the store on disk and not acked. They are never served as the
    new one's: MySQL tells the servers apart by their uuids, MariaDB by the event at the cursor. A person decides."""
    first, second = new_mysql(version, **options), new_mysql(version, **options)
    for server in (first, second):
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    proxy, nodes = Proxy(first.port), MemoryNodes()
    own = on_disk(first, "shop", tmp_path / "store", address=proxy.address)
    try:
        with running(own, nodes) as capture:
            insert(first, *range(20))
            drain(capture, 20)
            insert(first, *range(20, 60))
            all_read(capture, first)
        discard(first)
        insert(second, *range(1000, 1300))
        proxy.move(second.port)
        own = own.model_copy(update={"password": config(second, "shop").password})
        with running(own, nodes, wait=False) as capture:
            until(lambda: refusal in getattr(capture.status().error, "message", ""), capture)
        journal, offset = second.position()
        place = LogPosition("127.0.0.1", int(proxy.address.partition(":")[2]), EntryPosition(journal, offset))
        Cursors(nodes, "shop").rewind(CLIENT, place, moved=True)
        with running(own, nodes) as capture:
            insert(second, *range(2000, 2006))
            all_read(capture, second)
            assert drain(capture, 6) == 6
    finally:
        proxy.close()
        discard(second)
