"""The TCP door on real sockets, in front of a destination whose batches are put in by hand."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from pydantic import SecretStr

from cdc_core.canal.entries.encode import Encoder
from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import PacketType
from cdc_core.canal.protocol.scramble import stored
from cdc_core.canal.tcp import TcpDoor, commands
from cdc_core.canal.tcp import connection as connections
from cdc_core.canal.tcp.reply import Budget, Reply
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import ConfigError, DecodeError, SourceUnavailable
from tests.support.canal_client import CanalClient, connected
from tests.support.door_double import Destination, Server, opened
from tests.support.waiting import until


@pytest.fixture
def shop() -> Destination:
    found = Destination()
    found.config.tcp_anyone = True
    return found


@pytest.fixture
def door(shop: Destination) -> Iterator[TcpDoor]:
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0)) as door:  # type: ignore[arg-type]
        yield door


@pytest.fixture
def client(door: TcpDoor) -> Iterator[CanalClient]:
    with connected(door.port) as client:
        client.subscribe()
        yield client


def rows(client: CanalClient, messages: Any) -> int:
    entries = client.entries(messages)
    changes = [declared.RowChange.FromString(one.storeValue) for one in entries if one.entryType == 2]
    return sum(len(change.rowDatas) for change in changes)


def test_batches_are_handed_out_and_acked(client: CanalClient, shop: Destination) -> None:
    """All rows of a batch come, and its ack arrives."""
    assert client.get().batch_id == -1
    shop.put(250)
    messages = client.get()
    assert (messages.batch_id, rows(client, messages)) == (1, 250)
    client.ack(1)
    assert client.get().batch_id == -1
    assert shop.last_acked == 1


def test_only_who_asks_gets_the_binlog(client: CanalClient, shop: Destination) -> None:
    """Other clients get Canal's fields and no more, since their parsers may not pass over another one."""
    shop.put(3)
    assert client.get().source == 0
    client.rollback()
    client.send(PacketType.GET, declared.Get(**client.names, fetch_size=10, timeout=-1, names_source=True))
    assert declared.Messages.FromString(client.read().body).source != 0


def test_large_batches_are_whole(client: CanalClient, shop: Destination) -> None:
    """A batch of many windows, larger than what a socket takes at once."""
    shop.put(200_000)
    assert rows(client, client.get()) == 200_000


def test_the_next_batch_is_ready_and_waits_to_be_asked_for(
    client: CanalClient, shop: Destination, monkeypatch: Any
) -> None:
    """Each batch is encoded once, the next one while the client has this one; nothing is handed out but what was asked
    for, and what is rolled back comes again."""
    encoded: list[int] = []
    pieces = Encoder.pieces

    def counted(self: Encoder, slices: Any, *args: Any) -> Any:
        encoded.append(int(slices[0].index["rows"].sum()))
        return pieces(self, slices, *args)

    monkeypatch.setattr(Encoder, "pieces", counted)
    for count in (100, 200, 300):
        shop.put(count)
    assert rows(client, client.get()) == 100
    until(lambda: encoded == [100, 200])
    assert (list(shop.held), len(shop.blocks)) == ([1], 2)
    assert rows(client, client.get()) == 200
    until(lambda: encoded == [100, 200, 300])
    client.rollback(0)
    assert rows(client, client.get()) == 100
    assert rows(client, client.get()) == 200
    assert rows(client, client.get()) == 300
    assert sorted(shop.held) == [3, 4, 5]


def test_batches_beyond_the_budget_wait_on_disk() -> None:
    """Pieces that do not fit the memory are read from a file, in order, and what was taken is given back."""
    budget = Budget(10)
    reply = Reply(1, budget)
    for piece in (b"12345678", b"abcdefgh", b"xy"):
        reply.add(piece)
    assert b"".join(bytes(part) for part in reply.parts()) == b"12345678abcdefghxy"
    assert reply.size == 18
    assert not budget.take(5)
    reply.close()
    assert budget.take(10)


def test_a_batch_that_no_frame_can_carry(client: CanalClient, shop: Destination, monkeypatch: Any) -> None:
    """It is rolled back with an error that names its table, and the connection goes on."""
    monkeypatch.setattr(commands, "MOST_REPLY", 1000)
    shop.put(300)
    client.ask()
    assert "larger than Canal's protocol can carry" in client.acked().error_message
    assert shop.held == {}
    monkeypatch.undo()
    assert rows(client, client.get()) == 300


def test_an_ack_of_nobodys_batch_ends_the_connection(client: CanalClient) -> None:
    """It has no answer of its own, so its error would be taken for that of the next request."""
    client.ack(77)
    assert "batch 77 is not outstanding" in client.acked().error_message
    assert client.ends()


def test_a_client_that_calls_after_its_refused_ack_reads_the_reason(client: CanalClient) -> None:
    """Its next requests are read and dropped; a closed connection would reset them, and take the error with it."""
    client.ack(77)
    time.sleep(0.3)
    for _ in range(3):
        client.ask()
        time.sleep(0.05)
    assert "batch 77 is not outstanding" in client.acked().error_message
    assert client.ends()


def test_what_follows_an_error_is_read_for_a_bounded_time(shop: Destination, monkeypatch: Any) -> None:
    """Who stays after its error is closed when the time or the bytes are over, and makes room for others before."""
    monkeypatch.setattr(connections, "LINGER_SECONDS", 1.0)
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0, connections=2)) as door:  # type: ignore[arg-type]
        refused = [CanalClient(door.port) for _ in range(2)]
        for client in refused:
            client.login()
            client.ack(77)
            assert client.acked().error_code == 400
        with connected(door.port), connected(door.port):
            pass
        chatty = CanalClient(door.port)
        chatty.login()
        chatty.ack(77)
        with pytest.raises(ConnectionError):
            chatty.socket.sendall(bytes(64 << 20))
        late = CanalClient(door.port)
        late.login()
        late.ack(77)
        assert late.acked().error_code == 400
        until(lambda: "0 connections" in repr(door))


def test_errors_of_requests_with_an_answer_leave_the_connection_open(client: CanalClient, shop: Destination) -> None:
    """A source that is away is reported, with the remedy, and rows come when it is back."""
    shop.fail = SourceUnavailable("the server cannot be reached", place="db:3306", hint="Start it.")
    client.ask()
    answer = client.acked()
    assert (answer.error_code, "Start it." in answer.error_message) == (400, True)
    shop.fail = None
    shop.put(1)
    assert rows(client, client.get()) == 1


def test_unknown_destinations_are_named(door: TcpDoor) -> None:
    """The error lists those that there are."""
    with connected(door.port, destination="nobody") as client:
        assert "no destination 'nobody'" in client.subscribe().error_message


def test_rows_that_cannot_be_encoded_come_back(client: CanalClient, shop: Destination, monkeypatch: Any) -> None:
    """The batch is rolled back and the destination shows the error."""
    shop.put(3)
    broken = DecodeError("a rows event is damaged", place="mysql-bin.1:4", hint="Look.")
    monkeypatch.setattr(shop, "slices", lambda *_: (_ for _ in ()).throw(broken))
    client.ask()
    assert "a rows event is damaged at mysql-bin.1:4" in client.acked().error_message
    assert ("read", 1, "the entries", "DecodeError") in shop.calls
    monkeypatch.undo()
    assert rows(client, client.get()) == 3


def test_a_wrong_password_ends_the_connection(shop: Destination) -> None:
    """User and password must both fit; the answer shows nothing of the configuration."""
    shop.config.tcp_anyone = False
    shop.config.tcp_user, shop.config.tcp_passwd = "canal", SecretStr(stored("secret"))
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0)) as door:  # type: ignore[arg-type]
        for user, password in (("canal", "wrong"), ("other", "secret"), ("canal", None)):
            client = CanalClient(door.port)
            answer = client.login(user, password)
            assert (answer.error_code, answer.error_message) == (400, f"auth failed for user:{user}")
            assert client.ends()
            client.close()
        client = CanalClient(door.port)
        assert client.login("canal", "secret").error_code == 0
        client.close()


def test_without_users_nobody_is_let_in(shop: Destination) -> None:
    """`anyone` must be configured."""
    shop.config.tcp_anyone = False
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0)) as door:  # type: ignore[arg-type]
        client = CanalClient(door.port)
        assert client.login().error_code == 400
        client.close()


def test_a_user_of_one_destination_gets_no_other(shop: Destination) -> None:
    """Each request is checked against the destination that it names."""
    secret = Destination("secret")
    secret.config.tcp_passwd = SecretStr(stored("x"))
    secret.put(1)
    with (
        opened(TcpDoor(Server(shop, secret), "127.0.0.1", 0)) as door,  # type: ignore[arg-type]
        connected(door.port, destination="secret") as client,
    ):
        assert "auth failed" in client.subscribe().error_message
        client.ask()
        assert "auth failed" in client.acked().error_message
        client.ack(1)
        assert "auth failed" in client.acked().error_message
    assert secret.calls == []


def test_idle_clients_are_sent_away(door: TcpDoor, shop: Destination) -> None:
    """After the read time-out that the client itself names."""
    client = CanalClient(door.port)
    assert client.login(net_read_timeout=300).error_code == 0
    began = time.monotonic()
    assert client.ends()
    assert 0.2 < time.monotonic() - began < 10
    client.close()


def test_a_client_that_does_not_read_is_sent_away(door: TcpDoor, shop: Destination) -> None:
    """Its write time-out counts; its batch stays its own until its lease ends. Others are served meanwhile."""
    shop.put(300_000)
    slow = CanalClient(door.port)
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.login(net_write_timeout=1000)
    slow.subscribe()
    slow.ask()
    with connected(door.port) as other:
        began = time.monotonic()
        while not shop.held:
            assert time.monotonic() - began < 30
            time.sleep(0.02)
        shop.put(5)
        assert rows(other, other.get(1000, 10, 3)) == 5
    deadline = time.monotonic() + 20
    while not any(call[0] == "renew" and call[2] == shop.config.lease_seconds for call in shop.calls):
        assert time.monotonic() < deadline, shop.calls
        time.sleep(0.05)
    slow.close()


def test_a_client_that_leaves_while_it_waits_gets_nothing(door: TcpDoor, shop: Destination) -> None:
    """Rows that come later are for the next one."""
    client = CanalClient(door.port)
    client.login()
    client.subscribe()
    client.ask(timeout=0)
    time.sleep(0.3)
    client.close()
    time.sleep(2)
    shop.put(2)
    with connected(door.port) as other:
        assert rows(other, other.get(1000, 10, 3)) == 2


def test_connections_are_bounded(shop: Destination) -> None:
    """One too many is answered and closed; when another leaves, there is room."""
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0, connections=2)) as door:  # type: ignore[arg-type]
        with connected(door.port), connected(door.port):
            extra = CanalClient(door.port)
            assert extra.acked().error_code == 400
            assert extra.ends()
            extra.close()
        deadline = time.monotonic() + 10
        while True:
            client = CanalClient(door.port)
            packet = client.read()
            client.close()
            if packet.type == PacketType.HANDSHAKE:
                break
            assert time.monotonic() < deadline


def test_hostile_bytes_end_their_connection_alone(door: TcpDoor, shop: Destination) -> None:
    """Random, truncated and huge frames: each connection ends, and the door goes on; its memory does not grow."""
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    for number in range(60):
        with socket.create_connection(("127.0.0.1", door.port), 10) as raw:
            data = os.urandom(1 + number * 7) if number % 3 else b"\x7f\xff\xff\xff" + bytes(1000)
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65536):
                pass
    shop.put(1)
    with connected(door.port) as client:
        assert rows(client, client.get()) == 1
    assert process.memory_info().rss - before < 50 << 20


def test_many_connections_wait_for_little(door: TcpDoor, shop: Destination) -> None:
    """Two hundred clients wait for rows with few threads."""
    clients = [CanalClient(door.port) for _ in range(200)]
    threads = threading.active_count()
    for client in clients:
        client.login()
        client.ask(timeout=0)
    time.sleep(0.5)
    assert threading.active_count() - threads < 12
    for client in clients:
        client.close()


def test_a_destination_that_hangs_holds_its_own_threads_alone(shop: Destination, monkeypatch: Any) -> None:
    """Thirty clients of one whose calls do not return: a client of another one is served at once."""
    hung, released = Destination("hung"), threading.Event()
    hung.config.tcp_anyone = True
    monkeypatch.setattr(hung, "claim", lambda *_, **__: released.wait(60) and None)
    shop.put(3)
    with opened(TcpDoor(Server(shop, hung), "127.0.0.1", 0)) as door:  # type: ignore[arg-type]
        waiting = [CanalClient(door.port, destination="hung") for _ in range(30)]
        for client in waiting:
            client.login()
            client.ask(timeout=0)
        time.sleep(0.2)
        with connected(door.port) as other:
            began = time.monotonic()
            other.subscribe()
            assert rows(other, other.get()) == 3
            assert time.monotonic() - began < 5
        released.set()
        for client in waiting:
            client.close()


def test_a_login_must_come_soon(door: TcpDoor, monkeypatch: Any) -> None:
    """Whoever only connects is sent away."""
    monkeypatch.setattr(connections, "LOGIN_SECONDS", 0.3)
    client = CanalClient(door.port)
    assert client.read().type == PacketType.HANDSHAKE
    assert client.ends()
    client.close()


def test_a_rollback_before_the_subscription_is_nothing(door: TcpDoor, shop: Destination) -> None:
    """Some clients roll back before they subscribe."""
    with connected(door.port, client_id=1002) as client:
        client.rollback()
        assert client.subscribe().error_code == 0
    assert not [call for call in shop.calls if call[0] == "rollback"]


def test_a_port_that_cannot_be_used(shop: Destination) -> None:
    """The error names the key."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match=r"canal\.port"):
        TcpDoor(Server(shop), "127.0.0.1", taken.getsockname()[1]).start()  # type: ignore[arg-type]


def test_answers_are_counted(shop: Destination) -> None:
    """By type, with their bytes, for the metrics."""
    traffic = Traffic()
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0, traffic)) as door, connected(door.port) as client:  # type: ignore[arg-type]
        client.subscribe()
        client.get()
        shop.put(3)
        size = sum(len(one) for one in client.get().messages)
    ((name, calls),) = traffic.items()
    assert name == "shop"
    assert calls.packets == {"ACK": 1, "MESSAGES": 2}
    assert (calls.empty, calls.nbytes >= size) == (1, True)


def test_names_before_a_login_are_not_kept(shop: Destination) -> None:
    """Whoever names a destination of a megabyte is refused, and neither counts nor log grow by the name."""
    traffic = Traffic(Server(shop).has)
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0, traffic)) as door:  # type: ignore[arg-type]
        for size in (200, 300, 20_000, 1_000_000):
            client = CanalClient(door.port)
            assert client.login(destination=f"{size}-" + "x" * size, client_id="1001").error_code == 400
            client.close()
    assert list(traffic.items()) == []


def test_connections_without_a_login_make_room(shop: Destination) -> None:
    """They hold no place that a client needs; a client that has logged in stays."""
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0, connections=4)) as door, connected(door.port) as client:  # type: ignore[arg-type]
        client.subscribe()
        idle = [socket.create_connection(("127.0.0.1", door.port), 10) for _ in range(20)]
        shop.put(3)
        with connected(door.port) as other:
            other.subscribe()
            assert client.get().batch_id == 1
        for one in idle:
            one.close()
