"""Canal's embedded server in front of a real MySQL: the API of `CanalServerWithEmbedded`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.canal.client.events import Message, Row
from cdc_core.embedded import ClientIdentity, EmbeddedCanalServer
from cdc_core.errors import ConfigError, SessionError, SourceUnavailable, UnknownDestination
from orchestration.stack.mysql.server import MySqlServer

pytestmark = pytest.mark.integration

ME, OTHER = ClientIdentity("shop"), ClientIdentity("shop", 1002)


@pytest.fixture
def database(mysql8: MySqlServer) -> Iterator[str]:
    with mysql8.database() as name:
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=name)
        yield name


@pytest.fixture
def server(mysql8: MySqlServer, database: str, tmp_path: Path) -> Iterator[EmbeddedCanalServer]:
    """It reads, and its first client is subscribed."""
    conf = tmp_path / "conf"
    (conf / "shop").mkdir(parents=True)
    (conf / "canal.properties").write_text("")
    (conf / "shop" / "instance.properties").write_text(
        f"canal.instance.master.address = {mysql8.host}:{mysql8.port}\n"
        f"canal.instance.dbUsername = {mysql8.user}\ncanal.instance.dbPassword = {mysql8.password}\n"
        f"canal.instance.filter.regex = {database}\\\\..*\nsluice.heartbeat.seconds = 1\n"
    )
    with EmbeddedCanalServer(conf) as server:
        deadline = time.monotonic() + 60
        while True:
            try:
                server.subscribe(ME)
                break
            except (SourceUnavailable, SessionError):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield server


def ids(message: Message) -> list[str | None]:
    return [event.after["id"] for event in message.events() if isinstance(event, Row)]


def insert(mysql: MySqlServer, database: str, *keys: int) -> None:
    for key in keys:
        mysql.execute(f"INSERT INTO t VALUES ({key})", database=database)


def waited(server: EmbeddedCanalServer, client: ClientIdentity = ME) -> Message:
    message = server.get_without_ack(client, 1000, 60)
    assert message.id > 0
    return message


def test_several_batches_are_outstanding(server: EmbeddedCanalServer, mysql8: MySqlServer, database: str) -> None:
    """They are listed in order, acked in order, and rolled back from one on."""
    batches = []
    for key in (1, 2, 3):
        insert(mysql8, database, key)
        batches.append(waited(server))
    numbers = [message.id for message in batches]
    assert [ids(message) for message in batches] == [["1"], ["2"], ["3"]]
    assert server.list_batch_ids(ME) == numbers
    with pytest.raises(SessionError, match="cannot be acked"):
        server.ack(ME, numbers[1])
    server.ack(ME, numbers[0])
    server.rollback(ME, numbers[1])
    assert server.list_batch_ids(ME) == []
    assert ids(waited(server)) == ["2", "3"]
    with pytest.raises(SessionError, match="cannot be acked"):
        server.ack(ME, numbers[1])
    server.rollback(ME)
    assert server.list_batch_ids(ME) == []


def test_nothing_is_minus_one(server: EmbeddedCanalServer, mysql8: MySqlServer, database: str) -> None:
    """Without a time-out at once, with one after it; `get` acks what it gives."""
    assert server.get_without_ack(ME, 10).id == -1
    began = time.monotonic()
    assert server.get(ME, 10, 0.5).id == -1
    assert 0.4 < time.monotonic() - began < 10
    insert(mysql8, database, 1)
    assert ids(server.get(ME, 10, 60)) == ["1"]
    assert (server.list_batch_ids(ME), server.get(ME, 10).id) == ([], -1)


def test_clients_come_and_go(server: EmbeddedCanalServer, mysql8: MySqlServer, database: str) -> None:
    """Each has its own place and filter; who was not subscribed, or is no more, gets an error."""
    insert(mysql8, database, 1)
    assert ids(waited(server)) == ["1"]
    with pytest.raises(SessionError, match="client 1002 is not subscribed"):
        server.get_without_ack(OTHER, 10)
    server.subscribe(ClientIdentity("shop", 1002, f"{database}\\.t"))
    assert [one.client_id for one in server.list_all_subscribe("shop")] == [1001, 1002]
    assert server.list_all_subscribe("shop")[1].filter == f"{database}\\.t"
    insert(mysql8, database, 2)
    held = waited(server, OTHER)
    assert ids(held) == ["2"]
    server.unsubscribe(OTHER)
    assert [one.client_id for one in server.list_all_subscribe("shop")] == [1001]
    with pytest.raises(SessionError, match="client 1002 is not subscribed"):
        server.ack(OTHER, held.id)


@pytest.mark.parametrize("size", [0, -1])
def test_bad_input_is_named(server: EmbeddedCanalServer, size: int) -> None:
    """A fetch size below 1, an unknown destination, a filter that is no expression, the end of a configured client."""
    calls: list[tuple[type[Exception], Any]] = [
        (ConfigError, lambda: server.get_without_ack(ME, size)),
        (UnknownDestination, lambda: server.subscribe(ClientIdentity("nobody"))),
        (ConfigError, lambda: server.subscribe(ClientIdentity("shop", 1001, "("))),
        (SessionError, lambda: server.unsubscribe(ME)),
    ]
    for expected, call in calls:
        with pytest.raises(expected):
            call()
