"""The connector over real sockets: claims as blocks, leases, lost answers, errors."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from cdc_core.client.calls import Calls
from cdc_core.client.connector import Connector, beside
from cdc_core.contract.doors import Doors
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import (
    AccessDenied,
    ConfigError,
    CursorError,
    RunsElsewhere,
    RunsNowhere,
    ServiceUnavailable,
    SessionError,
    UnknownDestination,
)
from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name
from tests.support.door_double import TABLE, Destination, Server, cursor_store_away, opened
from tests.support.odd_names import ODD_NAMES
from tests.support.proxy import Proxy
from tests.support.waiting import until


@pytest.fixture
def destination() -> Destination:
    return Destination()


@pytest.fixture
def connector(destination: Destination) -> Iterator[Connector]:
    server = Server(destination)
    with (
        opened(HttpDoor(server, "127.0.0.1", 0, "s3cret")) as http,
        opened(FlightDoor(server, "127.0.0.1", 0, "s3cret")) as rows,
        Connector(http.url, "shop", flight_url=rows.url, token="s3cret") as connector,
    ):
        yield connector


def test_leaving_the_block_acks(connector: Connector, destination: Destination) -> None:
    """Leaving the block acks, and the cursor stands at the end of the claim."""
    destination.put(40)
    with connector.claim(100, owner="run-1") as claim:
        assert claim is not None
        assert connector.changes(claim, TABLE).read_all().num_rows == 40

    assert connector.client_status().cursor.position == claim.end.position
    assert destination.held == {}


def test_nothing_to_claim_is_none(connector: Connector, destination: Destination) -> None:
    """An empty store yields None, and nothing is acked."""
    with connector.claim(100, owner="run-1") as claim:
        assert claim is None
    assert destination.calls == []


@pytest.mark.parametrize("error", [ValueError("merge failed"), KeyboardInterrupt()])
def test_an_exception_rolls_back(connector: Connector, destination: Destination, error: BaseException) -> None:
    """An exception that leaves the block gives the batch back and is passed on."""
    destination.put(1)
    with pytest.raises(type(error)), connector.claim(100, owner="run-1"):
        raise error
    assert destination.held == {}
    assert len(destination.blocks) == 1
    assert type(error).__name__ in destination.calls[-1][2]


def test_an_abandoned_generator_rolls_back(connector: Connector, destination: Destination) -> None:
    """Dropping a generator inside its block rolls back."""
    destination.put(1)

    def work() -> Iterator[int]:
        with connector.claim(100, owner="run-1"):
            yield 1

    running = work()
    next(running)
    running.close()
    assert destination.calls[-1][:2] == ("rollback", 1)
    assert len(destination.blocks) == 1


def test_the_lease_is_kept_while_the_block_runs(connector: Connector, destination: Destination) -> None:
    """The lease is renewed every third of its length, until the block is left."""
    destination.put(1)
    began = time.monotonic()
    with connector.claim(100, owner="run-1", lease_seconds=0.6):
        until(lambda: len(renewals(destination)) >= 3)
    assert time.monotonic() - began > 0.55
    assert renewals(destination)[0] == 0.6
    until(lambda: not leases())


def renewals(destination: Destination) -> list[float]:
    """The leases asked for."""
    return [call[2] for call in destination.calls if call[0] == "renew"]


def leases() -> list[str]:
    """The threads that renew leases."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lease of")]


def test_a_lost_lease_makes_leaving_fail(connector: Connector, destination: Destination) -> None:
    """A claim that was taken away is not acked, and leaving the block raises."""
    destination.put(1)

    def work() -> None:
        with connector.claim(100, owner="run-1", lease_seconds=0.3):
            destination.rollback(1001, None, None, "taken away")
            until(lambda: not leases())  # it ends when a renewal is refused

    with pytest.raises(SessionError, match="lost"):
        work()
    assert not any(call[0] == "ack" for call in destination.calls)


def test_a_failed_ack_raises_and_gives_the_claim_back(
    connector: Connector, destination: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ack that the cursor store refuses raises its own error; the batch can be claimed again."""

    def refused(*_: object) -> None:
        raise cursor_store_away()

    destination.put(1)
    with monkeypatch.context() as patched, pytest.raises(CursorError) as failed, connector.claim(100, owner="run-1"):
        patched.setattr(destination, "ack", refused)
    assert failed.value.hint == "Start ZooKeeper."
    assert connector.client_status().claims == ()


def test_a_rollback_that_fails_does_not_hide_why(destination: Destination) -> None:
    """The block's own exception is raised, with a note that the lease must end first."""
    destination.put(1)
    door = HttpDoor(Server(destination), "127.0.0.1", 0)
    door.start()
    connector = Connector(door.url, "shop", sleep=lambda _: None)

    def work() -> None:
        with connector.claim(100, owner="run-1"):
            door.stop()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as failed:
        work()
    assert "when its lease ends" in failed.value.__notes__[0]


def test_errors_are_the_services_own(connector: Connector, destination: Destination) -> None:
    """Classes, places and hints are those of the service."""
    destination.put(1)
    claim = connector.get_without_ack(10, owner="run-1")
    assert claim is not None
    connector.ack(claim)
    with pytest.raises(SessionError):
        connector.renew(claim, 30)
    with pytest.raises(UnknownDestination, match="Known: shop"):
        Connector(connector.http_url, "nope", token="s3cret").status()
    with pytest.raises(AccessDenied):
        Connector(connector.http_url, "shop").status()


def test_tables_stop_and_resume(connector: Connector, destination: Destination) -> None:
    """A stopped table is kept next to the cursor."""
    destination.put(1)
    connector.stop_table(TABLE, reason="r", hint="h", position=EntryPosition("b.000001", 9))
    assert connector.client_status().stopped[0].reason == "r"
    assert not connector.client_status().stopped[0].is_blocked
    connector.stop_table(TABLE, reason="r", hint="h", position=EntryPosition("b.000001", 9), kind="blocked")
    assert connector.client_status().stopped[0].is_blocked
    connector.lift_stop(TABLE)
    assert connector.client_status().stopped == ()
    assert connector.tables()[0].name == TABLE
    assert connector.status().state == "running"


def test_rows_that_wait_are_reported(connector: Connector, destination: Destination) -> None:
    """Very many tables take several calls; of a whole report those with the most rows are kept."""
    connector.report_quarantined({f"shop.t{at:03}": 1 for at in range(600)} | {TABLE: 7})
    assert [call[1:] for call in destination.calls if call[0] == "quarantined"] == [(500, False), (101, False)]
    found = connector.client_status().quarantined
    assert (len(found), found[TABLE]) == (500, 7)
    connector.report_blocked([StoppedTable(TABLE, "x" * 900, "Accept it.", None)])
    (blocked,) = connector.client_status().blocked
    assert (blocked.table, len(blocked.reason), blocked.is_blocked) == (TABLE, 500, True)
    connector.report_quarantined({TABLE: 2}, whole=True)
    assert connector.client_status().quarantined == connector.status().clients[0].quarantined == {TABLE: 2}


def test_a_table_of_any_name_stops_and_resumes(connector: Connector, destination: Destination) -> None:
    """The name is part of the call's path: slashes and dots in it too."""
    for name in ODD_NAMES:
        table = full_name("my.shop", name)
        connector.stop_table(table, reason="r", hint="h", position=EntryPosition("b.000001", 9))
        assert [one.table for one in connector.client_status().stopped] == [table]
        connector.lift_stop(table)
        assert connector.client_status().stopped == ()


def test_rollback_of_one_and_of_all(connector: Connector, destination: Destination) -> None:
    """The ids of the batches given back are returned."""
    for first in (1, 10, 20):
        destination.put(1, first)
    first, second, _ = (connector.get_without_ack(10, owner="run-1") for _ in range(3))
    assert second is not None
    assert connector.rollback(second, reason="test") == [2, 3]
    assert connector.rollback(owner="run-1", reason="test") == [1]
    assert first is not None


def test_a_missing_service_is_an_error_with_a_remedy() -> None:
    """After a few tries the error names the address."""
    pauses: list[float] = []
    connector = Connector("http://127.0.0.1:9", "shop", sleep=pauses.append)
    with pytest.raises(ServiceUnavailable) as away:
        connector.status()
    assert away.value.place == "http://127.0.0.1:9"
    assert "sluice server" in away.value.hint
    assert len(pauses) == 3


def test_an_ack_whose_answer_was_lost_counts(destination: Destination) -> None:
    """The connection breaks after the ack was applied. Repeating it succeeds, and it is applied once."""
    destination.put(1)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door, Proxy(door.port) as cut:
        connector = Connector(f"http://{cut.address}", "shop", sleep=lambda _: None)
        claim = connector.get_without_ack(10, owner="run-1")
        assert claim is not None
        cut.lose_next_answer()
        assert connector.ack(claim) == claim.end
    assert [call[0] for call in destination.calls] == ["ack", "ack"]


def test_a_claim_whose_answer_was_lost_is_not_repeated(destination: Destination) -> None:
    """Repeating it would claim a second batch."""
    destination.put(1)
    destination.put(1, 10)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door, Proxy(door.port) as cut:
        connector = Connector(f"http://{cut.address}", "shop", sleep=lambda _: None)
        cut.lose_next_answer()
        with pytest.raises(ServiceUnavailable):
            connector.get_without_ack(10, owner="run-1")
    assert list(destination.held) == [1]


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


def test_calls_go_where_it_runs(destination: Destination) -> None:
    """A server that is silent or a standby is left for the one that ZooKeeper names next."""
    standby = Destination(fail=RunsElsewhere("it runs elsewhere", place="10.0.0.2:11111", hint="Call there."))
    destination.put(1)
    with (
        opened(HttpDoor(Server(standby), "127.0.0.1", 0)) as first,
        opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as second,
    ):
        calls = following(_Named("http://127.0.0.1:9", None, first.url, None, first.url, second.url))
        body = {"batch_size": 1, "owner": "me"}
        assert calls.call("POST", "/v1/destinations/shop/clients/1001/claims", body, repeat=False)["batch_id"] == 1
        assert calls.doors.http == second.url


def test_a_server_that_is_about_to_run_it_is_waited_for(destination: Destination) -> None:
    """The wait is bounded, with a fixed address too; a server that names another one is not asked again."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        destination.fail = destination.fail if now[0] < healed else None

    path, body = "/v1/destinations/shop/clients/1001/claims", {"batch_size": 1, "owner": "me"}
    destination.put(1)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        calls = Calls(Doors(door.url, ""), follow_seconds=10, sleep=sleep, clock=lambda: now[0])
        healed, destination.fail = 5.0, RunsNowhere("nobody runs it just now", place="shop", hint="Wait.")
        assert calls.call("POST", path, body, repeat=False)["batch_id"] == 1
        healed, destination.fail = 100.0, RunsNowhere("nobody runs it just now", place="shop", hint="Wait.")
        with pytest.raises(RunsNowhere):
            calls.call("POST", path, body, repeat=False)
        assert 15 <= now[0] < 16
        destination.fail = RunsElsewhere("it runs elsewhere", place="10.0.0.2:11111", hint="Call there.")
        with pytest.raises(RunsElsewhere):
            calls.call("POST", path, body, repeat=False)
        assert now[0] < 16


def test_looking_ends() -> None:
    """When nobody runs it, or nobody answers, the error comes after the time given."""
    with pytest.raises(ServiceUnavailable, match="nobody runs"):
        following(_Named(None)).call("GET", "/v1/destinations/shop")
    with pytest.raises(ServiceUnavailable) as away:
        following(_Named("http://127.0.0.1:9")).call("GET", "/v1/destinations/shop")
    assert away.value.place == "http://127.0.0.1:9"


def test_a_claim_that_may_have_been_made_is_made_again_elsewhere_alone(destination: Destination) -> None:
    """At the same server it would be a second claim; another server knows nothing of the first."""
    destination.put(1)
    destination.put(1, 10)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door, Proxy(door.port) as cut:
        path, body = "/v1/destinations/shop/clients/1001/claims", {"batch_size": 1, "owner": "me"}
        cut.lose_next_answer()
        with pytest.raises(ServiceUnavailable):
            following(_Named(f"http://{cut.address}")).call("POST", path, body, repeat=False)
        assert list(destination.held) == [1]
        cut.lose_next_answer()
        destination.put(1, 20)
        assert (
            following(_Named(f"http://{cut.address}", door.url)).call("POST", path, body, repeat=False)["batch_id"] == 3
        )


def test_flight_is_the_next_port() -> None:
    """The address of the rows is derived from that of the control plane."""
    assert beside("http://127.0.0.1:11112") == "grpc://127.0.0.1:11113"
    assert beside("http://[::1]:11112") == "grpc://[::1]:11113"
    with pytest.raises(ConfigError):
        beside("127.0.0.1:11112")


def test_reading_rows_imports_little() -> None:
    """The workers of Spark import pyarrow and nothing of the service."""
    code = "import sys, cdc_core.client.changes; print([m for m in ('httpx', 'numba', 'fastapi') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
