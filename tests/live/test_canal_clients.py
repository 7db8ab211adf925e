"""Canal's TCP door in front of a real MySQL: clients subscribe, get, ack, roll back, reconnect."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from cdc_core.canal.protocol.declared import Messages
from cdc_core.canal.tcp import TcpDoor
from orchestration.commands.consume import connector_of, run
from orchestration.stack.mysql.server import MySqlServer
from tests.support.canal_client import CanalClient, connected
from tests.support.canal_service import canal_service, served
from tests.support.entries import store_of, values
from tests.support.reading import until_read
from tests.support.servers import executed_gtids
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
def database(mysql8: MySqlServer) -> Iterator[str]:
    with mysql8.database() as name:
        mysql8.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))", "CREATE TABLE u (id INT PRIMARY KEY)", database=name
        )
        yield name


@pytest.fixture
def door(mysql8: MySqlServer, database: str, tmp_path: Path) -> Iterator[TcpDoor]:
    with canal_service(mysql8, database, tmp_path) as door:
        yield door


def ids(client: CanalClient, messages: Any) -> list[str | None]:
    """The ids of the rows in a batch."""
    rows = [entry for entry in client.entries(messages) if entry.entryType == EntryType.ROWDATA]
    changes = [row for entry in rows for row in store_of(entry).rowDatas]
    return [values(row.afterColumns or row.beforeColumns)["id"] for row in changes]


def waited(client: CanalClient, fetch_size: int = 1000) -> Any:
    messages = client.get(fetch_size, 60, 3)
    assert messages.batch_id > 0
    return messages


def test_a_client_gets_acks_and_goes_on(door: TcpDoor, mysql8: MySqlServer, database: str) -> None:
    """Batches come in order, an acked one never again, one that is not acked after a rollback."""
    with connected(door.port) as client:
        assert client.subscribe().error_code == 0
        assert client.get().batch_id == -1
        mysql8.execute("INSERT INTO t VALUES (1, 'a')", database=database)
        first = waited(client)
        assert ids(client, first) == ["1"]
        mysql8.execute("INSERT INTO t VALUES (2, 'b')", database=database)
        second = waited(client)
        assert ids(client, second) == ["2"]
        client.ack(first.batch_id)
        client.rollback(0)
        again = waited(client)
        assert ids(client, again) == ["2"]
        client.ack(again.batch_id)
        assert client.get(1000, 300, 2).batch_id == -1


def test_a_configured_client_may_unsubscribe(door: TcpDoor, mysql8: MySqlServer, database: str) -> None:
    """It is answered OK, as by Canal, and goes on at its cursor when it subscribes again."""
    with connected(door.port) as client:
        client.subscribe()
        mysql8.execute("INSERT INTO t VALUES (1, 'a')", database=database)
        client.ack(waited(client).batch_id)
        assert client.unsubscribe().error_code == 0
    mysql8.execute("INSERT INTO t VALUES (2, 'b')", database=database)
    with connected(door.port) as client:
        assert client.subscribe().error_code == 0
        assert ids(client, waited(client)) == ["2"]


def test_a_get_waits_for_rows(door: TcpDoor, mysql8: MySqlServer, database: str) -> None:
    """A GET that waits for ever is answered when a row comes, and soon."""
    with connected(door.port) as client:
        client.subscribe()
        client.ask(timeout=0)
        time.sleep(0.5)
        began = time.monotonic()
        mysql8.execute("INSERT INTO t VALUES (7, 'x')", database=database)
        packet = client.read()
        assert time.monotonic() - began < 10
        assert ids(client, Messages.FromString(packet.body)) == ["7"]


def test_a_client_that_reconnects_may_ack_what_it_has(door: TcpDoor, mysql8: MySqlServer, database: str) -> None:
    """A batch belongs to the client, not to its connection; when it stays away, its lease ends and it comes again."""
    mysql8.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')", database=database)
    with connected(door.port) as client:
        client.subscribe()
        held = waited(client)
    with connected(door.port) as client:
        client.ack(held.batch_id)
        mysql8.execute("INSERT INTO t VALUES (3, 'c')", database=database)
        lost = waited(client)
        assert ids(client, lost) == ["3"]
    time.sleep(3)
    with connected(door.port) as client:
        assert ids(client, waited(client)) == ["3"]


def test_each_client_has_its_own_filter_and_cursor(door: TcpDoor, mysql8: MySqlServer, database: str) -> None:
    """One client's filter changes nothing for the other, and outlives its connection; batches without any entry for a
    client are acked for it."""
    with connected(door.port) as one, connected(door.port, client_id=1002) as other:
        one.subscribe(f"{database}\\.u")
        other.subscribe()
        mysql8.execute("INSERT INTO t VALUES (1, 'a')", "INSERT INTO u VALUES (5)", database=database)
        assert ids(one, waited(one)) == ["5"]
        seen: list[Any] = []
        while len(seen) < 2:
            batch = waited(other)
            seen += ids(other, batch)
            other.ack(batch.batch_id)
        assert seen == ["1", "5"]
        one.rollback()
    with connected(door.port) as one:
        one.subscribe()
        batch = waited(one)
        assert ids(one, batch) == ["5"]
        one.ack(batch.batch_id)
        assert one.subscribe("(").error_code == 400


def test_statements_without_rows_reach_their_reader(
    mysql8: MySqlServer, database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index made alone comes to a client of this door, also one that was away while the service restarted, each
    once. A client that is read over Flight passes over it; the log reports two kinds of readers of one client."""
    with canal_service(mysql8, database, tmp_path) as door, connected(door.port) as client:
        client.subscribe()
        mysql8.execute("CREATE INDEX one ON t (a)", database=database)
        batch = waited(client)
        assert statements(client, batch) == ["CINDEX CREATE INDEX one ON t (a)"]
        client.ack(batch.batch_id)
        cursor = door.server.destination("shop").service().client(1002).cursor
        until(lambda: door.server.destination("shop").service().client(1002).cursor != cursor)
    mysql8.execute("ALTER TABLE t ENGINE = InnoDB", database=database)
    with served(tmp_path / "conf") as door:
        service = door.server.destination("shop").service()
        time.sleep(3)  # the service looks at its clients in between
        with connected(door.port) as client:
            client.subscribe()
            batch = waited(client)
            assert statements(client, batch) == ["ALTER ALTER TABLE t ENGINE = InnoDB"]
            client.ack(batch.batch_id)
            assert client.get(1000, 300, 2).batch_id == -1
        assert "two readers" not in capfd.readouterr().out
        assert service.claim(1001, 1, 0.0, "dagster", 60.0) is None
        assert "a client has two readers" in capfd.readouterr().out
        mysql8.execute("DROP INDEX one ON t", database=database)
        passed = service.client(1001).cursor
        until(lambda: service.client(1001).cursor != passed)
        assert service.claim(1001, 1, 0.0, "dagster", 60.0) is None


def test_statements_are_isolated(mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """Where the configuration says so, a batch with a statement has nothing else, also with one of an index."""
    alone = "canal.instance.get.ddl.isolation = true"
    with canal_service(mysql8, database, tmp_path, alone) as door, connected(door.port) as client:
        client.subscribe()
        for sql in ("INSERT INTO u VALUES (1)", "CREATE INDEX one ON t (a)", "DROP INDEX one ON t"):
            mysql8.execute(sql, database=database)
        for sql in ("INSERT INTO u VALUES (2)", "ALTER TABLE t ADD c INT", "INSERT INTO u VALUES (3)"):
            mysql8.execute(sql, database=database)
        until_read(door.server.destination("shop").status, mysql8)
        found = []
        while len(found) < 6:
            batch = waited(client)
            kinds = [one.header.eventType for one in client.entries(batch) if one.entryType == EntryType.ROWDATA]
            found.append([CanalEventType(kind).name for kind in kinds])
            client.ack(batch.batch_id)
    assert found == [["INSERT"], ["CINDEX"], ["DINDEX"], ["INSERT"], ["ALTER"], ["INSERT"]]


def shape(client: CanalClient, count: int, fetch_size: int = 1000) -> list[str]:
    """What comes until `count` transactions have ended: `B`, `E`, statements as `q`, rows as their number."""
    found: list[str] = []
    while found.count("E") < count:
        batch = waited(client, fetch_size)
        for one in client.entries(batch):
            store = store_of(one)
            rows = len(store.rowDatas) if one.entryType == EntryType.ROWDATA else 0
            found.append({1: "B", 2: str(rows) if rows else "q", 3: "E"}[one.entryType])
        client.ack(batch.batch_id)
    return found


@pytest.mark.in_turn
@pytest.mark.parametrize("server", ["mysql57", "mysql8", "mysql9", "mariadb"])
def test_a_transactions_begin_comes_with_its_first_captured_row(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Also where rows of other tables fill the blocks before it, in one event or in many; the text of the statement
    that has both too; and where the transaction was prepared with XA before."""
    mysql: MySqlServer = request.getfixturevalue(server)
    with mysql.database() as name:
        mysql.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))",
            "CREATE TABLE u (id INT PRIMARY KEY)",
            "CREATE TABLE other (id INT PRIMARY KEY, a LONGTEXT)",
            database=name,
        )
        with canal_service(mysql, name, tmp_path, tables="[tu]") as door, connected(door.port) as client:
            client.subscribe()
            large = "INSERT INTO other VALUES ({}, REPEAT('x', {}))"
            both = "UPDATE other JOIN t ON other.id = 1 SET other.a = CONCAT(other.a, 'y'), t.a = 'z'"
            texts = "binlog_annotate_row_events" if server == "mariadb" else "binlog_rows_query_log_events"
            mysql.execute("BEGIN", large.format(1, 600_000), "INSERT INTO t VALUES (1, 'a')", "COMMIT", database=name)
            many = [large.format(2 + number, 20_000) for number in range(30)]
            mysql.execute("BEGIN", *many, "INSERT INTO t VALUES (2, 'a'), (3, 'b')", "COMMIT", database=name)
            mysql.execute(f"SET SESSION {texts} = OFF", "XA START 'x'", "INSERT INTO u VALUES (1)", "XA END 'x'",
                          "XA PREPARE 'x'", "XA COMMIT 'x'", database=name)  # fmt: skip
            mysql.execute(f"SET SESSION {texts} = ON", "BEGIN", both, "COMMIT", database=name)
            found = shape(client, 4)
    plain = [one for one in found if one != "q"]
    assert plain == ["B", "1", "E", "B", "2", "E", "B", "1", "E", "B", "3", "E"]
    assert found[-3:] == ["q", "3", "E"]


def test_parts_of_a_transaction_have_one_begin_and_one_end(mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """One that is larger than a batch, and of which the first or the last part is not for the client."""
    one = [f"INSERT INTO u VALUES ({number})" for number in range(20)]
    other = [f"INSERT INTO t VALUES ({number}, 'x')" for number in range(20)]
    later = [text.replace("(", "(10", 1) for text in (*other, *one)]
    mode = "canal.instance.memory.batch.mode = ITEMSIZE"
    with (
        canal_service(mysql8, database, tmp_path, mode) as door,
        connected(door.port) as client,
        connected(door.port, client_id=1002) as second,
    ):
        client.subscribe(f"{database}\\.u")
        second.subscribe()
        mysql8.execute("BEGIN", *one, *other, "COMMIT", database=database)
        mysql8.execute("BEGIN", *later, "COMMIT", database=database)
        until_read(door.server.destination("shop").status, mysql8)
        assert shape(client, 2, 7) == 2 * ["B", *["1"] * 20, "E"]
        assert shape(second, 2, 7) == 2 * ["B", *["1"] * 40, "E"]


def statements(client: CanalClient, messages: Any) -> list[str]:
    """The statements in a batch, with Canal's names of their types."""
    entries = [one for one in client.entries(messages) if one.entryType == EntryType.ROWDATA]
    return [f"{CanalEventType(one.header.eventType).name} {store_of(one).sql}" for one in entries]


def test_a_filter_that_replaces_the_destinations(mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """With `override`, the first client's filter decides what is captured, as in Canal, also after a restart; another
    client's does not."""
    more = "sluice.client.filter = override"
    with canal_service(mysql8, database, tmp_path, more, "u") as door:
        with connected(door.port) as client:
            assert client.subscribe().error_code == 0
            mysql8.execute("INSERT INTO t VALUES (1, 'a')", "INSERT INTO u VALUES (2)", database=database)
            batch = waited(client)
            assert ids(client, batch) == ["2"]
            client.ack(batch.batch_id)
            assert client.subscribe(f"{database}\\.t").error_code == 0
            mysql8.execute("INSERT INTO u VALUES (3)", "INSERT INTO t VALUES (4, 'd')", database=database)
            batch = waited(client)
            assert ids(client, batch) == ["4"]
            client.ack(batch.batch_id)
        with connected(door.port, client_id=1002) as other:
            assert other.subscribe(f"{database}\\.u").error_code == 0
    with served(tmp_path / "conf") as door, connected(door.port) as client:
        assert client.subscribe().error_code == 0
        mysql8.execute("INSERT INTO u VALUES (5)", "INSERT INTO t VALUES (6, 'f')", database=database)
        assert ids(client, waited(client)) == ["6"]


def test_the_executed_set_in_gtid_mode(mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """The header of an entry has the set up to its transaction, in every batch of a client."""
    more = "canal.instance.gtidon = true"
    with canal_service(mysql8, database, tmp_path, more) as door, connected(door.port) as client:
        assert client.subscribe().error_code == 0
        for number in range(3):
            mysql8.execute(f"INSERT INTO u VALUES ({number})", database=database)
            executed = executed_gtids(mysql8).replace("\n", "")
            batch = waited(client)
            assert {entry.header.gtid for entry in client.entries(batch)} == {executed}
            client.ack(batch.batch_id)


def test_fetch_sizes_are_memory_units(door: TcpDoor, mysql8: MySqlServer, database: str) -> None:
    """With MEMSIZE a fetch size of 4 is 4 KB of the binlog: several small batches instead of one."""
    mysql8.execute(*(f"INSERT INTO t VALUES ({number}, 'x')" for number in range(60)), database=database)
    with connected(door.port) as client:
        client.subscribe()
        seen, sizes = [], []
        while len(seen) < 60:
            batch = waited(client, 4)
            sizes.append(len(ids(client, batch)))
            seen += ids(client, batch)
            client.ack(batch.batch_id)
    assert seen == [str(number) for number in range(60)]
    assert len(sizes) > 3


def test_the_command_prints_what_comes(
    door: TcpDoor, mysql8: MySqlServer, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`sluice consume`: rows as text and as JSON lines; a passing client is forgotten, and takes no one's rows."""
    for as_json in (False, True):
        connector = connector_of(f"127.0.0.1:{door.port}", "", "shop", 9001, "", "", "")
        command = threading.Thread(target=run, args=(connector, 1000, 1), kwargs={"passing": True, "as_json": as_json})
        command.start()
        with connected(door.port, client_id=9001) as other:
            other.subscribe()
            _until(lambda: other.get().batch_id == -1)
        mysql8.execute(f"INSERT INTO t VALUES ({int(as_json)}, 'a,b')", database=database)
        command.join(60)
        assert not command.is_alive()
    printed = capsys.readouterr().out
    assert f"+ {database}.t  id=0, a='a,b'" in printed
    line = json.loads(next(line for line in printed.splitlines() if line.startswith('{"kind"')))
    assert (line["kind"], line["table"], line["after"], line["key"]) == ("INSERT", "t", {"id": "1", "a": "a,b"}, ["id"])
    with connected(door.port, client_id=9001) as other:
        other.ask()
        assert "client 9001 is not subscribed" in other.acked().error_message
    with connected(door.port) as own:
        own.subscribe()
        assert ids(own, waited(own)) == ["0", "1"]


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
