"""The monitor's page in a real browser, its metrics, and who may see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from prometheus_client.parser import text_string_to_metric_families

from cdc_core.doors.web import WebDoor
from cdc_core.errors import ConfigError
from cdc_core.ha.running import DOORS
from cdc_core.monitor.door import monitor_door
from cdc_core.monitor.history import LagHistory
from cdc_core.monitor.metrics import METRICS
from cdc_core.monitor.views import ClusterView, cluster_of
from tests.support.browsers import started_browser, strict_page
from tests.support.java_canal import SERVER, cursor, java_nodes
from tests.support.monitored import NOW, Looks, source

ROOT = "/otter/canal/destinations/example"
SLUICE = {f"{DOORS}/{SERVER}": b'{"http": "http://10.0.0.1:11112", "flight": "grpc://10.0.0.1:11113"}'}


def cluster(name: str = "zk/g1", **changes: bytes | None) -> ClusterView:
    """One with a lag of 40 s; `changes` are the destination's nodes, None removes one."""
    nodes: dict[str, bytes | None] = {**java_nodes(), **SLUICE}
    nodes[f"{ROOT}/1001/cursor"] = cursor("mysql-bin.000002", 500, int((NOW - 40) * 1000))
    nodes |= {f"{ROOT}/{path}": value for path, value in changes.items()}
    return cluster_of(name, {path: value for path, value in nodes.items() if value is not None})


@contextmanager
def opened(looks: Looks, history: LagHistory | None = None, **options: Any) -> Iterator[WebDoor]:
    door = monitor_door(cast(Any, looks), history or LagHistory(), "127.0.0.1", 0, **options)
    door.start()
    try:
        yield door
    finally:
        door.stop()


def test_a_source_without_a_time_is_not_said_to_keep_its_files() -> None:
    """RDS deletes them at once where no hours are set, and tells no time either."""
    looks = Looks()
    looks.look(cluster(), one=source(keep=0))
    with opened(looks) as door:
        text = httpx.get(door.url).text
    assert "no time is known" in text
    assert "for ever" not in text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as one:
        yield one


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with strict_page(browser, 1300) as one:
        yield one


@pytest.mark.browser
def test_everything_is_in_one_place(page: Page) -> None:
    """Clusters, servers of both kinds, who runs what, standby, clients, cursors, lag and its history, sources."""
    looks, history = Looks(), LagHistory()
    for _ in range(40):
        looks.look(cluster(), cluster("zk/g2"), one=source(), after=30)
        history.add(looks.findings.picture)
    with opened(looks, history) as door:
        page.goto(door.url)
        for name in ("zk/g1", "zk/g2"):
            card = page.locator(f"[data-cluster='{name}']")
            for text in (
                SERVER,
                "Java Canal",
                "10.0.0.2:11111 could",
                "1001",
                "10.0.0.9:54788",
                "mysql-bin.000002:500",
            ):
                expect(card).to_contain_text(text)
            expect(card).to_contain_text("1.8 KB")
            expect(card.get_by_role("link", name=SERVER)).to_have_attribute("href", "http://10.0.0.1:11112")
            assert card.locator("svg.plot path").count() == 2
            assert "L" in (card.locator("svg.plot path").first.get_attribute("d") or "")
        expect(page.locator("#sources")).to_contain_text("mysql-bin.000003:300")
        expect(page.get_by_role("alert").filter(has_text="client_lag").first).to_contain_text("Remedy: Look at what")


@pytest.mark.browser
def test_what_goes_wrong_appears_by_itself(page: Page) -> None:
    """And goes by itself, into the list of what was wrong; text of a node is no markup."""
    looks = Looks()
    looks.look(cluster(), one=source())
    with opened(looks) as door:
        page.goto(door.url)
        expect(page.get_by_role("alert").filter(visible=True)).to_have_count(0)
        looks.look(cluster(running=b"<b>it</b>"), ClusterView("zk/g2", away="it hangs"), one=source())
        expect(page.locator("[data-alarm=nodes]")).to_contain_text("<b>it</b>")
        expect(page.locator("[data-alarm=cluster]")).to_contain_text("it hangs")
        looks.look(cluster(running=None), cluster("zk/g2"), one=source())
        expect(page.locator("[data-alarm=no_leader]")).to_contain_text("no server runs it")
        expect(page.locator("#ended")).to_contain_text("it hangs")
    expect(page.locator("#away")).to_be_visible(timeout=20_000)


def test_the_page_before_the_first_look() -> None:
    """It says that it goes on."""
    with opened(Looks()) as door:
        assert "The first look goes on" in httpx.get(door.url).text


def test_metrics() -> None:
    """All of them, under names that are not the service's; an unknown lag has no sample."""
    looks = Looks()
    looks.look(cluster(), ClusterView("zk/g2", away="it hangs"), one=source())
    with opened(looks) as door:
        text = httpx.get(f"{door.url}/metrics").text
    found = {one.name: one.samples for one in text_string_to_metric_families(text)}
    client = {"cluster": "zk/g1", "destination": "example", "client": "1001"}

    assert list(found) == [f"sluice_monitor_{name}" for name, _ in METRICS]
    assert [(one.labels, one.value) for one in found["sluice_monitor_client_lag_bytes"]] == [(client, 1800.0)]
    assert [one.value for one in found["sluice_monitor_cluster_up"]] == [1.0, 0.0]
    assert {one.labels["kind"]: one.value for one in found["sluice_monitor_servers"]} == {"canal": 1.0, "sluice": 1.0}
    assert [one.labels for one in found["sluice_monitor_alarms"]] == [{"cluster": "zk/g2", "kind": "cluster"}]

    looks.look(cluster())
    with opened(looks) as door:
        text = httpx.get(f"{door.url}/metrics").text
    assert "sluice_monitor_client_lag_bytes{" not in text
    assert "sluice_monitor_client_running{" in text


def test_who_may_see_it() -> None:
    """The rules of the service's page: a token, or loopback under its own names."""
    with pytest.raises(ConfigError, match="without a token"):
        monitor_door(cast(Any, Looks()), LagHistory(), "0.0.0.0", 0)
    with opened(Looks(), token="word") as door:
        assert httpx.get(door.url).status_code == 401
        assert httpx.get(f"{door.url}/metrics", headers={"Authorization": "Bearer word"}).status_code == 200
        assert httpx.get(door.url, auth=("any", "word")).status_code == 200
        assert httpx.get(f"{door.url}/healthz").status_code == 200
    with opened(Looks()) as door:
        assert httpx.get(door.url, headers={"Host": "evil.example"}).status_code == 401
        assert httpx.post(door.url).status_code == 405


def test_a_port_that_is_taken() -> None:
    """The error names the option."""
    with opened(Looks()) as door, pytest.raises(ConfigError, match="--port"):
        monitor_door(cast(Any, Looks()), LagHistory(), "127.0.0.1", door.port).start()
