"""What the ticks of one round share: a destination where nothing happens is not asked for, nor is Dagster's storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from cdc_core.client.connector import Connector
from cdc_core.client.failures import unavailable
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.status import Status
from cdc_core.errors import ServiceUnavailable
from orchestration.internals import kept_instance
from orchestration.sensors.backlog import backlog_sensor
from orchestration.sensors.round import Round
from orchestration.settings import Settings
from tests.support.canal_double import MemoryCanal
from tests.support.dagster_runs import drain_shop

_DRAINED = "drained at mysql-bin.000007:0"


class Service:
    """A service with many destinations, and what it was asked."""

    def __init__(self, *names: str) -> None:
        canal = MemoryCanal()
        client = replace(canal.client_status(), backlog_rows=0)
        self.known = {name: replace(canal.status(), destination=name, clients=(client,)) for name in names}
        self.asked: list[str] = []
        self.away: ServiceUnavailable | None = None

    @contextmanager
    def connect(self) -> Iterator[Any]:
        yield self

    def statuses(self) -> dict[str, Status]:
        self.asked.append("all")
        if self.away:
            raise self.away
        return self.known

    def status(self) -> Status:
        self.asked.append("one")
        return self.known["a"]

    def subscribe(self) -> ClientStatus:
        return self.known["a"].clients[0]

    def changed(self, name: str, **changes: Any) -> None:
        (client,) = self.known[name].clients
        self.known[name] = replace(self.known[name], clients=(replace(client, **changes),))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def ticks(service: Service, shared: Round, instance: dg.DagsterInstance) -> dict[str, str | None]:
    """What the sensors of all destinations say."""
    said = {}
    for name in service.known:
        sensor = backlog_sensor(Settings(destination=name, lake="/lake"), drain_shop, service.connect, shared)
        with dg.build_sensor_context(instance=instance) as context:
            result = sensor.evaluate_tick(context)
            said[name] = result.skip_message or result.run_requests[0].run_key
    return said


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def test_a_round_asks_once(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred destinations that rest are one call, and no query of their runs."""
    service, clock = Service(*(f"d{number}" for number in range(200))), Clock()
    shared = Round(clock)
    monkeypatch.setattr(instance, "get_run_records", lambda *_, **__: 1 / 0)
    assert set(ticks(service, shared, instance).values()) == {_DRAINED}
    ticks(service, shared, instance)
    assert service.asked == ["all"]
    clock.now = 2.0
    ticks(service, shared, instance)
    assert service.asked == ["all", "all"]


def test_what_happens_is_asked_for(instance: dg.DagsterInstance) -> None:
    """Rows that wait, a claim, an error or an unknown client are looked at by the tick itself."""
    service = Service("a", "b")
    service.changed("a", backlog_rows=5000, put=1)
    assert ticks(service, Round(), instance) == {"a": "a:0:7000:first", "b": _DRAINED}
    assert service.asked == ["all", "one"]
    for changes in ({"clients": ()}, {"state": "connecting"}, {"error": MemoryCanal().error, "state": "failed"}):
        service = Service("a")
        service.known["a"] = replace(service.known["a"], **changes)
        service.subscribe = Service("a").subscribe  # type: ignore[method-assign]
        ticks(service, Round(), instance)
        assert service.asked == ["all", "one"]


def test_a_service_that_is_away_is_asked_once_a_round(instance: dg.DagsterInstance) -> None:
    """Each of its sensors says so."""
    service, clock = Service("a", "b", "c"), Clock()
    service.away, shared = unavailable("http://s:1", "refused"), Round(clock)
    said = ticks(service, shared, instance)
    assert all("the service is unavailable: the service does not answer: refused" in str(one) for one in said.values())
    assert service.asked == ["all"]
    service.away, clock.now = None, 5.0
    assert set(ticks(service, shared, instance).values()) == {_DRAINED}


def test_all_servers_that_zookeeper_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that runs a destination counts, not one that stands by."""
    here, there = Service("a", "b").known, Service("a", "b").known
    here["b"], there["a"] = (replace(one, state="standby") for one in (here["b"], there["a"]))
    servers = {"http://1": here, "http://2": there}
    connector = Connector("http://127.0.0.1:1", "a")
    monkeypatch.setattr(connector._calls, "servers", lambda: [*servers])
    answers = {url: [one.to_dict() for one in known.values()] for url, known in servers.items()}
    monkeypatch.setattr(connector._calls, "call_at", lambda url, *_, **__: answers[url])
    assert {name: one.state for name, one in connector.statuses().items()} == {"a": "running", "b": "running"}


def test_the_instance_is_made_once_for_all_ticks() -> None:
    """Another one where a process works for two Dagsters."""
    with dg.instance_for_test() as one, dg.instance_for_test() as two:
        contexts = [dg.SensorEvaluationContext(one.get_ref(), None, None, None, None, None, None) for _ in range(2)]
        other = dg.SensorEvaluationContext(two.get_ref(), None, None, None, None, None, None)
        assert kept_instance(contexts[0]) is kept_instance(contexts[1])
        assert kept_instance(other) is not kept_instance(contexts[0])
        assert kept_instance(dg.build_sensor_context(instance=two)) is two
