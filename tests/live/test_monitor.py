"""The monitor over two live clusters on one ZooKeeper, one of two servers and one of one, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from playwright.sync_api import expect, sync_playwright

from cdc_core.monitor.door import monitor_door
from cdc_core.monitor.history import LagHistory
from cdc_core.monitor.looking import ClusterMonitor, Findings
from cdc_core.monitor.sources import MySqlAccounts
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.prerequisites import need_chromium
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.failover import Node, node
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.browser, pytest.mark.fault]
DATABASE = "monitored"


@dataclass
class Clusters:
    """`one` has two servers, `two` has one; both read the same MySQL."""

    mysql: MySqlServer
    names: tuple[str, str]
    one: tuple[Node, Node]
    two: Node

    def insert(self) -> None:
        self.mysql.execute(f"INSERT INTO {DATABASE}.t (v) VALUES (REPEAT('x', 1000))")


@pytest.fixture
def clusters(
    tmp_path: Path, mysql8: MySqlServer, zookeeper: ZooKeeper, zk: KazooClient, zk_root: str
) -> Iterator[Clusters]:
    for group in ("g1", "g2"):
        zk.ensure_path(f"/{group}")
    mysql8.execute(
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"CREATE TABLE IF NOT EXISTS {DATABASE}.t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)",
        "CREATE USER IF NOT EXISTS monitor_live@'%' IDENTIFIED BY 'x'",
        "GRANT REPLICATION CLIENT ON *.* TO monitor_live@'%'",
    )
    names = f"{zookeeper.hosts}{zk_root}/g1", f"{zookeeper.hosts}{zk_root}/g2"
    nodes = [
        node(tmp_path / str(at), name, mysql8, DATABASE, wait_ready=at != 1)
        for at, name in enumerate((names[0], names[0], names[1]))
    ]
    try:
        for one in nodes:
            one.service.start()
        yield Clusters(mysql8, names, (nodes[0], nodes[1]), nodes[2])
    finally:
        for one in nodes:
            one.service.kill()


@pytest.mark.in_turn(2)
@pytest.mark.timeout(600)
def test_two_live_clusters(clusters: Clusters) -> None:
    """Who runs what and who could, a lag that comes and goes, a leader that is killed: all of it on the page."""
    accounts = MySqlAccounts.of("monitor_live", "x")
    monitor = ClusterMonitor(clusters.names, accounts, every=1, patience=5)
    history, stop, seen = LagHistory(), threading.Event(), list[Findings]()

    def on_look(found: Findings) -> None:
        history.add(found.picture)
        seen.append(found)

    looking = threading.Thread(target=monitor.run, args=(on_look, stop))
    door = monitor_door(monitor, history, "127.0.0.1", 0)
    door.start()
    looking.start()
    try:
        for one in (clusters.one[0], clusters.two):
            one.drain(clusters.mysql)
        _is_seen(monitor, lambda found: _lags(found) == [0, 0])
        first, second = (f"127.0.0.1:{one.port}" for one in clusters.one)
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(executable_path=need_chromium(), args=["--no-sandbox"]).new_page()
            page.goto(door.url)
            card = page.locator(f"[data-cluster='{clusters.names[0]}']")
            expect(card.locator("[data-destination=shop]")).to_contain_text(f"{second} could", timeout=60_000)
            link = clusters.one[0].service.url
            expect(card.get_by_role("link", name=first)).to_have_attribute("href", link, timeout=60_000)

            clusters.insert()
            _is_seen(monitor, lambda found: all((lag or 0) > 1000 for lag in _lags(found)))
            clusters.two.drain(clusters.mysql)
            _is_seen(monitor, lambda found: (_lags(found)[0] or 0) > 1000 and _lags(found)[1] == 0)
            expect(card.locator("svg.plot").first).to_be_visible(timeout=60_000)

            clusters.one[0].service.kill()
            _is_seen(monitor, lambda found: _holder(found) == second)
            expect(card.locator("[data-destination=shop]")).to_contain_text(second, timeout=60_000)
            expect(card.get_by_role("link", name=first)).to_have_count(0, timeout=60_000)
            clusters.one[1].drain(clusters.mysql)
            _is_seen(monitor, lambda found: _lags(found) == [0, 0])
    finally:
        stop.set()
        looking.join(60)
        door.stop()
        monitor.close()
    changes = [
        found.picture.clusters[0].destinations[0].term for found in seen if found.picture.clusters[0].destinations
    ]
    assert len({term for term in changes if term}) == 2


def _is_seen(monitor: ClusterMonitor, condition: Callable[[Findings], bool]) -> None:
    until(lambda: len(monitor.findings.picture.lags) == 2 and condition(monitor.findings), seconds=120)


def _lags(found: Findings) -> list[int | None]:
    return [lag.nbytes for _, lag in sorted(found.picture.lags.items())]


def _holder(found: Findings) -> str:
    holder = found.picture.clusters[0].destinations[0].holder
    return holder.address if holder else ""
