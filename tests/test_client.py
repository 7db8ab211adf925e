"""The connector over real sockets: claims as blocks, leases, lost answers, errors."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from cdc_core.client.calls import Calls
from cdc_core.client.connector import Connector, beside
from cdc_core.client.failures import ServiceUnavailable, error_from
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import (
    AccessDenied,
    ConfigError,
    CursorError,
    RunsElsewhere,
    RunsNowhere,
    SessionError,
    SluiceError,
    TableStopped,
    UnknownDestination,
)
from cdc_core.ha.doors import Doors
from cdc_core.position import EntryPosition
from tests.door_double import TABLE, Instance, Server, cursor_store_away, opened


@pytest.fixture
def instance() -> Instance:
    return Instance()


@pytest.fixture
def connector(instance: Instance) -> Iterator[Connector]:
    server = Server(instance)
    with (
        opened(HttpDoor(server, "127.0.0.1", 0, "s3cret")) as http,
        opened(FlightDoor(server, "127.0.0.1", 0, "s3cret")) as rows,
        Connector(http.url, "shop", flight_url=rows.url, token="s3cret") as connector,
    ):
        yield connector


def test_leaving_the_block_acks(connector: Connector, instance: Instance) -> None:
    """Claimed, read, acked; the cursor stands at the claim's end."""
    instance.put(40)
    with connector.claim(100, owner="run-1") as claim:
        assert claim is not None
        assert connector.changes(claim, TABLE).read_all().num_rows == 40

    assert connector.client_state()["cursor"]["position"] == claim.end.position
    assert instance.held == {}


def test_nothing_to_claim_is_none(connector: Connector, instance: Instance) -> None:
    """An empty store yields None, and nothing is acked."""
    with connector.claim(100, owner="run-1") as claim:
        assert claim is None
    assert instance.calls == []


@pytest.mark.parametrize("error", [ValueError("merge failed"), KeyboardInterrupt()])
def test_an_exception_rolls_back(connector: Connector, instance: Instance, error: BaseException) -> None:
    """Whatever leaves the block by an exception gives the batch back, and goes on its way."""
    instance.put(1)
    with pytest.raises(type(error)), connector.claim(100, owner="run-1"):
        raise error
    assert instance.held == {}
    assert len(instance.blocks) == 1
    assert type(error).__name__ in instance.calls[-1][2]


def test_an_abandoned_generator_rolls_back(connector: Connector, instance: Instance) -> None:
    """Who drops a generator in the middle of its block has not acked."""
    instance.put(1)

    def work() -> Iterator[int]:
        with connector.claim(100, owner="run-1"):
            yield 1

    running = work()
    next(running)
    running.close()
    assert instance.calls[-1][:2] == ("rollback", 1)
    assert len(instance.blocks) == 1


def test_the_lease_is_kept_while_the_block_runs(connector: Connector, instance: Instance) -> None:
    """A third of the lease is how often it is renewed, and leaving ends that."""
    instance.put(1)
    with connector.claim(100, owner="run-1", lease_seconds=0.6):
        time.sleep(1.0)
    renewals = [call for call in instance.calls if call[0] == "renew"]
    assert 3 <= len(renewals) <= 5
    assert renewals[0][2] == 0.6
    time.sleep(0.4)
    assert not any(thread.name.startswith("lease of") for thread in threading.enumerate())


def test_a_lost_lease_makes_leaving_fail(connector: Connector, instance: Instance) -> None:
    """A claim that somebody took away is not acked, and the block says so."""
    instance.put(1)

    def work() -> None:
        with connector.claim(100, owner="run-1", lease_seconds=0.3):
            instance.rollback(1001, None, None, "taken away")
            time.sleep(0.5)

    with pytest.raises(SessionError, match="lost"):
        work()
    assert not any(call[0] == "ack" for call in instance.calls)


def test_a_failed_ack_is_told_and_gives_the_claim_back(
    connector: Connector, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ack that the cursor store refuses fails the block with its own error; the batch can be claimed again."""

    def refused(*_: object) -> None:
        raise cursor_store_away()

    instance.put(1)
    with monkeypatch.context() as patched, pytest.raises(CursorError) as failed, connector.claim(100, owner="run-1"):
        patched.setattr(instance, "ack", refused)
    assert failed.value.hint == "Start ZooKeeper."
    assert connector.client_state()["claims"] == []


def test_a_rollback_that_fails_does_not_hide_why(instance: Instance) -> None:
    """The block's own exception is told, with a note that the lease has to end."""
    instance.put(1)
    door = HttpDoor(Server(instance), "127.0.0.1", 0)
    door.start()
    connector = Connector(door.url, "shop", sleep=lambda _: None)

    def work() -> None:
        with connector.claim(100, owner="run-1"):
            door.stop()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as failed:
        work()
    assert "its lease will end" in failed.value.__notes__[0]


def test_errors_are_the_services_own(connector: Connector, instance: Instance) -> None:
    """Classes, places and hints come back."""
    instance.put(1)
    claim = connector.get_without_ack(10, owner="run-1")
    assert claim is not None
    connector.ack(claim)
    with pytest.raises(SessionError):
        connector.renew(claim, 30)
    with pytest.raises(UnknownDestination, match="Known: shop"):
        Connector(connector.http_url, "nope", token="s3cret").status()
    with pytest.raises(AccessDenied):
        Connector(connector.http_url, "shop").status()


def test_tables_stop_and_resume(connector: Connector, instance: Instance) -> None:
    """A stopped table is kept beside the cursor."""
    instance.put(1)
    connector.stop_table(TABLE, reason="r", hint="h", position=EntryPosition("b.000001", 9))
    assert connector.client_state()["stopped"][0]["reason"] == "r"
    connector.resume_table(TABLE)
    assert connector.client_state()["stopped"] == []
    assert connector.tables()[0].name == TABLE
    assert connector.status()["state"] == "running"


def test_rollback_of_one_and_of_all(connector: Connector, instance: Instance) -> None:
    """The ids that were given back come back."""
    for first in (1, 10, 20):
        instance.put(1, first)
    first, second, _ = (connector.get_without_ack(10, owner="run-1") for _ in range(3))
    assert second is not None
    assert connector.rollback(second, reason="test") == [2, 3]
    assert connector.rollback(owner="run-1", reason="test") == [1]
    assert first is not None


def test_nobody_there_is_told_with_a_remedy() -> None:
    """After a few tries the address is named."""
    pauses: list[float] = []
    connector = Connector("http://127.0.0.1:9", "shop", sleep=pauses.append)
    with pytest.raises(ServiceUnavailable) as away:
        connector.status()
    assert away.value.place == "http://127.0.0.1:9"
    assert "sluice status" in away.value.hint
    assert len(pauses) == 3


def test_an_ack_whose_answer_was_lost_counts(instance: Instance) -> None:
    """The connection breaks after the ack was applied: repeating it succeeds, and it was applied once."""
    instance.put(1)
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door, _Cut(door.port) as cut:
        connector = Connector(cut.url, "shop", sleep=lambda _: None)
        claim = connector.get_without_ack(10, owner="run-1")
        assert claim is not None
        cut.lose_next_answer()
        assert connector.ack(claim) == claim.end
    assert [call[0] for call in instance.calls] == ["ack", "ack"]


def test_a_claim_whose_answer_was_lost_is_not_repeated(instance: Instance) -> None:
    """Repeating it would claim a second batch beside the first."""
    instance.put(1)
    instance.put(1, 10)
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door, _Cut(door.port) as cut:
        connector = Connector(cut.url, "shop", sleep=lambda _: None)
        cut.lose_next_answer()
        with pytest.raises(ServiceUnavailable):
            connector.get_without_ack(10, owner="run-1")
    assert list(instance.held) == [1]


class _Named:
    """A finder that names one server after the other, the last one for ever; None is nobody."""

    hosts = "zk:2181"

    def __init__(self, *urls: str | None) -> None:
        self.urls = list(urls)

    def find(self) -> Doors:
        url = self.urls.pop(0) if len(self.urls) > 1 else self.urls[0]
        if url is None:
            raise ServiceUnavailable("nobody runs shop", place=self.hosts, hint="Wait.")
        return Doors(url, "grpc://127.0.0.1:9")


def following(finder: _Named) -> Calls:
    """Looks for ten seconds by a clock that its pauses move."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    return Calls(None, finder, follow_seconds=10, sleep=sleep, clock=lambda: now[0])


def test_calls_go_where_it_runs(instance: Instance) -> None:
    """From one that does not answer, and from one that stands by, to the one that ZooKeeper names next."""
    standby = Instance(fail=RunsElsewhere("it runs elsewhere", place="10.0.0.2:11111", hint="Call there."))
    instance.put(1)
    with (
        opened(HttpDoor(Server(standby), "127.0.0.1", 0)) as first,
        opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as second,
    ):
        calls = following(_Named("http://127.0.0.1:9", None, first.url, None, first.url, second.url))
        body = {"batch_size": 1, "owner": "me"}
        assert calls.call("POST", "/v1/destinations/shop/clients/1001/claims", body, repeat=False)["batch_id"] == 1
        assert calls.doors.http == second.url


def test_a_server_that_is_about_to_run_it_is_waited_for(instance: Instance) -> None:
    """For a bounded time, with a fixed address too; one that names another server is not asked again."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        instance.fail = instance.fail if now[0] < healed else None

    path, body = "/v1/destinations/shop/clients/1001/claims", {"batch_size": 1, "owner": "me"}
    instance.put(1)
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door:
        calls = Calls(Doors(door.url, ""), follow_seconds=10, sleep=sleep, clock=lambda: now[0])
        healed, instance.fail = 5.0, RunsNowhere("nobody runs it just now", place="shop", hint="Wait.")
        assert calls.call("POST", path, body, repeat=False)["batch_id"] == 1
        healed, instance.fail = 100.0, RunsNowhere("nobody runs it just now", place="shop", hint="Wait.")
        with pytest.raises(RunsNowhere):
            calls.call("POST", path, body, repeat=False)
        assert 15 <= now[0] < 16
        instance.fail = RunsElsewhere("it runs elsewhere", place="10.0.0.2:11111", hint="Call there.")
        with pytest.raises(RunsElsewhere):
            calls.call("POST", path, body, repeat=False)
        assert now[0] < 16


def test_looking_ends() -> None:
    """Nobody runs it, or nobody who answers: an error after the time that was given."""
    with pytest.raises(ServiceUnavailable, match="nobody runs"):
        following(_Named(None)).call("GET", "/v1/destinations/shop")
    with pytest.raises(ServiceUnavailable) as away:
        following(_Named("http://127.0.0.1:9")).call("GET", "/v1/destinations/shop")
    assert away.value.place == "http://127.0.0.1:9"


def test_a_claim_that_may_have_been_made_is_made_again_elsewhere_alone(instance: Instance) -> None:
    """At the same server it would be a second one; another server knows nothing of it."""
    instance.put(1)
    instance.put(1, 10)
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door, _Cut(door.port) as cut:
        path, body = "/v1/destinations/shop/clients/1001/claims", {"batch_size": 1, "owner": "me"}
        cut.lose_next_answer()
        with pytest.raises(ServiceUnavailable):
            following(_Named(cut.url)).call("POST", path, body, repeat=False)
        assert list(instance.held) == [1]
        cut.lose_next_answer()
        instance.put(1, 20)
        assert following(_Named(cut.url, door.url)).call("POST", path, body, repeat=False)["batch_id"] == 3


def test_flight_is_the_next_port() -> None:
    """Where rows are is derived from where control is."""
    assert beside("http://127.0.0.1:11112") == "grpc://127.0.0.1:11113"
    assert beside("http://[::1]:11112") == "grpc://[::1]:11113"
    with pytest.raises(ConfigError):
        beside("127.0.0.1:11112")


def test_errors_by_name() -> None:
    """Each class of ours comes back by its name; a name not known here keeps it in the message."""
    told = TableStopped("stopped", place="shop.orders", hint="Rebuild.").as_dict()
    assert isinstance(error_from(told), TableStopped)
    assert error_from(told).as_dict() == told
    other = error_from({"error": "Newer", "message": "m", "place": "", "hint": "h"})
    assert type(other) is SluiceError
    assert other.message == "Newer: m"


def test_reading_rows_imports_little() -> None:
    """Spark's workers get pyarrow and nothing of the service."""
    code = "import sys, cdc_core.client.changes; print([m for m in ('httpx', 'numba', 'fastapi') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


class _Cut:
    """A proxy that can swallow an answer and hang up."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lose = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> _Cut:
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def lose_next_answer(self) -> None:
        self._lose = True

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        service = socket.create_connection(("127.0.0.1", self._port))
        threading.Thread(target=self._answer, args=(service, client), daemon=True).start()
        with client, service:
            while asked := _receive(client):
                service.sendall(asked)

    def _answer(self, service: socket.socket, client: socket.socket) -> None:
        while answer := _receive(service):
            if self._lose:
                self._lose = False
                break
            client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)


def _receive(side: socket.socket) -> bytes:
    try:
        return side.recv(65536)
    except OSError:
        return b""
