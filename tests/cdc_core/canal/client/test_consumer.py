"""Canal's client in Python against the TCP door: connector, consumer, retries, quarantine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from cdc_core.canal.client import CanalConnector, Consumer, Handler, Policy, Row
from cdc_core.canal.client.connector import FOREVER
from cdc_core.canal.client.events import Event, Header, Statement
from cdc_core.canal.client.quarantine import Quarantine
from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.canal.protocol.scramble import stored
from cdc_core.canal.tcp import TcpDoor
from cdc_core.errors import ConfigError, ServiceUnavailable, SessionError
from tests.support.door_double import Destination, Server, opened


@pytest.fixture
def shop() -> Destination:
    found = Destination()
    found.config.tcp_user, found.config.tcp_passwd = "canal", SecretStr(stored("secret"))
    return found


@pytest.fixture
def door(shop: Destination) -> Iterator[TcpDoor]:
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0)) as door:  # type: ignore[arg-type]
        yield door


@pytest.fixture
def connector(door: TcpDoor) -> Iterator[CanalConnector]:
    with CanalConnector("127.0.0.1", door.port, "shop", user="canal", password="secret") as connector:
        yield connector


class Gathered(Handler):
    """Keeps rows; fails as often as `failures` says."""

    def __init__(self, failures: int = 0) -> None:
        self.rows: list[Row] = []
        self.failures = failures
        self.bounds: list[str] = []

    def on_insert(self, row: Row) -> None:
        self.rows.append(row)

    def on_transaction_begin(self, boundary: Any) -> None:
        self.bounds.append("begin" if boundary.begins else "")

    def on_transaction_end(self, boundary: Any) -> None:
        self.bounds.append(boundary.number)

    def on_batch_end(self, batch_id: int) -> None:
        assert batch_id > 0
        if self.failures:
            self.failures -= 1
            self.rows.clear()
            raise RuntimeError("no room")


def consumer(connector: CanalConnector, handler: Handler, **policy: Any) -> tuple[Consumer, list[str]]:
    """A consumer that does not pause, and the lines that it shows."""
    lines: list[str] = []
    made = Consumer(connector, handler, Policy(wait_seconds=0.2, **policy), tell=lines.append, sleep=lambda _: None)
    return made, lines


def test_rows_arrive_as_values(connector: CanalConnector, shop: Destination) -> None:
    """Each row with its place, its key and its values; the batch is acked and summed up."""
    shop.put(3)
    handler = Gathered()
    made, lines = consumer(connector, handler)
    assert made.run(batches=1) == 1
    connector.get_without_ack()  # the ack has arrived when this is answered
    assert shop.last_acked == 1
    assert [row.after["id"] for row in handler.rows] == ["1", "2", "3"]
    row = handler.rows[0]
    assert (row.kind, row.header.name, row.key, row.before) == (CanalEventType.INSERT, "shop.orders", ("id",), {})
    assert row.after == {"id": "1", "qty": "1", "name": "n1"}
    assert handler.bounds == ["begin", "7"]
    assert lines[0].startswith("batch 1: 3 rows, 1 transactions, 0 statements")


def test_a_handler_that_fails_gets_the_batch_again(connector: CanalConnector, shop: Destination) -> None:
    """Twice it fails, then all rows are there once, and the batch is acked once."""
    shop.put(4)
    handler = Gathered(failures=2)
    made, _ = consumer(connector, handler, tries=3)
    made.run(batches=1)
    connector.get_without_ack()
    assert len(handler.rows) == 4
    assert [call for call in shop.calls if call[0] == "ack"] == [("ack", 1)]


def test_a_consumer_stops_with_the_handlers_error(connector: CanalConnector, shop: Destination) -> None:
    """The batch is rolled back, and comes again."""
    shop.put(4)
    made, _ = consumer(connector, Gathered(failures=9), tries=2)
    with pytest.raises(RuntimeError, match="no room"):
        made.run()
    assert connector.get_without_ack(1000, 5).id > 0
    assert shop.last_acked == 0


def test_what_is_skipped_is_kept(connector: CanalConnector, shop: Destination, tmp_path: Path) -> None:
    """The quarantine has the whole batch with its error; the next batch is taken as usual."""
    shop.put(4)
    shop.put(2, first=50)
    handler = Gathered(failures=2)
    made, lines = consumer(connector, handler, tries=2, then="skip", quarantine=tmp_path / "aside.jsonl")
    made.run(batches=2)
    assert [row.after["id"] for row in handler.rows] == ["50", "51"]
    ((message, error),) = Quarantine(tmp_path / "aside.jsonl").read()
    ids = [event.after["id"] for event in message.events() if isinstance(event, Row)]
    assert (ids, error) == (["1", "2", "3", "4"], "RuntimeError: no room")
    assert "put aside: no room" in lines[0]


def test_a_quarantine_that_cannot_be_written_keeps_the_batch(
    connector: CanalConnector, shop: Destination, tmp_path: Path
) -> None:
    """Nothing is acked that is not safe."""
    shop.put(1)
    policy = {"tries": 1, "then": "skip", "quarantine": tmp_path / "missing" / "file"}
    made, _ = consumer(connector, Gathered(failures=1), **policy)
    with pytest.raises(ConfigError, match="quarantine cannot be written"):
        made.run()
    assert shop.last_acked == 0


def test_a_policy_that_skips_needs_a_file() -> None:
    """It is refused before anything is read."""
    with pytest.raises(ConfigError, match="needs a quarantine"):
        Policy(then="skip")


def test_a_server_that_goes_and_comes_back(shop: Destination) -> None:
    """The consumer connects again, and takes what was outstanding again."""
    server = Server(shop)
    first = TcpDoor(server, "127.0.0.1", 0)  # type: ignore[arg-type]
    first.start()
    connector = CanalConnector("127.0.0.1", first.port, "shop", user="canal", password="secret")
    connector.connect()
    handler, lines = Gathered(), []
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(0.05)

    made = Consumer(connector, handler, Policy(wait_seconds=0.2), tell=lines.append, sleep=sleep)
    stop = threading.Event()
    thread = threading.Thread(target=made.run, args=(stop,))
    thread.start()
    shop.put(1)
    _until(lambda: len(handler.rows) == 1)
    first.stop()
    _until(lambda: len(pauses) > 2)
    service = shop.service
    shop.service = _starts  # type: ignore[method-assign] # the door opens before the destination has connected
    second = TcpDoor(server, "127.0.0.1", first.port)  # type: ignore[arg-type]
    second.start()
    seen = len(pauses)
    _until(lambda: len(pauses) > seen + 2)
    shop.service = service  # type: ignore[method-assign]
    shop.put(1, first=9)
    _until(lambda: len(handler.rows) == 2)
    stop.set()
    thread.join(20)
    second.stop()
    assert pauses[1] > pauses[0]


def _starts() -> Destination:
    raise SessionError("destination shop is starting", hint="Call again.")


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_get_acks_at_once(connector: CanalConnector, shop: Destination) -> None:
    """Canal's `get`."""
    shop.put(1)
    assert not connector.get().empty
    assert connector.get().id == -1
    assert shop.last_acked == 1


def test_a_get_without_end_waits(connector: CanalConnector, shop: Destination) -> None:
    """FOREVER is answered by the first rows."""
    threading.Timer(0.3, shop.put, (2,)).start()
    assert connector.get_without_ack(1000, FOREVER).id == 1


def test_errors_say_what_the_server_said(door: TcpDoor) -> None:
    """A wrong password, an unknown destination, nobody there, not connected."""
    with pytest.raises(SessionError, match="auth failed for user:canal"):
        CanalConnector("127.0.0.1", door.port, "shop", user="canal", password="wrong").connect()
    with pytest.raises(SessionError, match="no destination 'nobody'"):
        CanalConnector("127.0.0.1", door.port, "nobody", user="canal", password="secret").connect()
    with pytest.raises(ServiceUnavailable, match="failed"):
        CanalConnector("127.0.0.1", 1, "shop").connect()
    with pytest.raises(SessionError, match="not connected"):
        CanalConnector("127.0.0.1", 1, "shop").ack(1)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (CanalEventType.CREATE, "on_create_table"),
        (CanalEventType.ALTER, "on_alter_table"),
        (CanalEventType.ERASE, "on_drop_table"),
        (CanalEventType.TRUNCATE, "on_truncate"),
        (CanalEventType.RENAME, "on_rename"),
        (CanalEventType.CINDEX, "on_create_index"),
        (CanalEventType.DINDEX, "on_delete_index"),
        (CanalEventType.QUERY, "on_other"),
        (CanalEventType.INSERT, "on_insert"),
        (CanalEventType.UPDATE, "on_update"),
        (CanalEventType.DELETE, "on_delete"),
    ],
)
def test_each_kind_of_event_has_its_method(kind: CanalEventType, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other one is called."""
    header = Header("mysql-bin.1", 4, 1, 0, "shop", "orders", {})
    is_row = kind <= CanalEventType.DELETE
    event: Event = Row(kind, header, {}, {}, (), ()) if is_row else Statement(kind, header, "...", "shop")
    called: list[str] = []
    for name in dir(Handler):
        if name.startswith("on_"):
            monkeypatch.setattr(Handler, name, lambda *_, name=name: called.append(name))
    Handler().handle(event)
    assert called == [method]
