"""Looks at a real ZooKeeper: two chroots, an account, one that is away and comes back."""

from __future__ import annotations

import threading
import time
from concurrent.futures import wait
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from cdc_core.monitor.looking import ClusterMonitor, Findings, fresh
from cdc_core.monitor.sources import AskedSource, MySqlAccounts, SourceView
from cdc_core.position import EntryPosition
from cdc_core.source.journals import Journals
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.java_canal import SERVER, cursor, java_nodes, write_nodes
from tests.support.servers import free_port
from tests.support.waiting import until

NOBODY = MySqlAccounts.of("", "")


def kinds(found: Findings) -> list[tuple[str, str]]:
    return [(one.cluster.rpartition("/")[2], one.kind) for one in found.verdict.troubles]


@pytest.mark.integration
def test_two_chroots_of_one_zookeeper(zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """Each is a cluster of its own; a wrong chroot is said to be empty."""
    for group in ("g1", "g2"):
        nodes = java_nodes(f"shop_{group}")
        write_nodes(zk, {f"/{group}{path}": value for path, value in nodes.items()})
    names = [f"{zookeeper.hosts}{zk_root}/{one}" for one in ("g1", "g2", "none")]
    monitor = ClusterMonitor(names, NOBODY, patience=10)
    try:
        found = monitor.look()
    finally:
        monitor.close()
    clusters = found.picture.clusters

    assert [one.name for one in clusters] == names
    assert [[one.name for one in cluster.destinations] for cluster in clusters] == [["shop_g1"], ["shop_g2"], []]
    assert kinds(found) == [("none", "nodes")]
    assert clusters[0].destinations[0].term > 0
    assert clusters[0].destinations[0].clients == java_clients(clusters)


def java_clients(clusters: object) -> object:
    """The second cluster's, which are the same."""
    return clusters[1].destinations[0].clients  # type: ignore[index]


@pytest.mark.integration
def test_a_leader_that_changes_between_two_looks(zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """Also where the same server takes it again."""
    write_nodes(zk, java_nodes())
    running = "/otter/canal/destinations/example/running"
    monitor = ClusterMonitor([f"{zookeeper.hosts}{zk_root}"], NOBODY, patience=10)
    try:
        first = monitor.look().picture.clusters[0].destinations[0]
        zk.delete(running)
        zk.create(running, java_nodes()[running])
        second = monitor.look().picture.clusters[0].destinations[0]
    finally:
        monitor.close()

    assert first.holder == second.holder
    assert first.term < second.term


@pytest.mark.integration
def test_what_the_account_may_not_read(zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """It is a problem of its destination; with the account it is read."""
    write_nodes(zk, java_nodes() | java_nodes("secret"))
    zk.add_auth("digest", "owner:word")
    path = "/otter/canal/destinations/secret/1001/cursor"
    zk.set_acls(path, [make_digest_acl("owner", "word", all=True)])
    found = []
    for auth in ("", "owner:word"):
        monitor = ClusterMonitor([f"{zookeeper.hosts}{zk_root}"], NOBODY, auth=auth, patience=10)
        found.append(monitor.look())
        monitor.close()

    assert [len(one.picture.clusters[0].destinations) for one in found] == [2, 2]
    assert path in found[0].verdict.troubles[0].text
    assert found[1].verdict.troubles == ()


@pytest.mark.integration
def test_destinations_that_are_ignored(zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """They are on no page and in no alarm."""
    write_nodes(zk, java_nodes() | {"/otter/canal/destinations/old_1/cluster": b""})
    monitor = ClusterMonitor([f"{zookeeper.hosts}{zk_root}"], NOBODY, ignored=["old_*"], patience=10)
    found = monitor.look()
    monitor.close()

    assert [one.name for one in found.picture.clusters[0].destinations] == ["example"]
    assert found.verdict.troubles == ()


@pytest.mark.integration
def test_a_zookeeper_that_comes_and_goes(tmp_path: Path, zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """It is away while it is; the other cluster is looked at meanwhile, in time; then it is there again."""
    write_nodes(zk, java_nodes())
    port = free_port()
    server = ZooKeeper(tmp_path / "zookeeper", port)
    monitor = ClusterMonitor([server.hosts, f"{zookeeper.hosts}{zk_root}"], NOBODY, patience=1)
    try:
        assert kinds(monitor.look())[0] == (server.hosts, "cluster")
        server.start()
        until(lambda: not monitor.look().picture.clusters[0].away, seconds=60)
        server.kill()
        began = time.monotonic()
        until(lambda: monitor.look().picture.clusters[0].away, seconds=60)
        assert monitor.look().picture.clusters[1].destinations[0].clients[0].cursor is not None
        assert time.monotonic() - began < 30
    finally:
        monitor.close()
        server.kill()


@pytest.mark.integration
def test_cursors_of_the_most_different_forms(zookeeper: ZooKeeper, zk: KazooClient, zk_root: str) -> None:
    """A look at them ends, and the sound destination is shown."""
    write_nodes(zk, java_nodes("sound"))
    for at, value in enumerate([b"", b"\xff", b"[" * 50_000, b"7", b"{" * 10, cursor("mysql-bin.000001", 4, 1, ":0")]):
        write_nodes(zk, {f"/otter/canal/destinations/d{at}/1001/cursor": value})
    write_nodes(zk, {"/otter/canal/destinations/odd name \u00e9/99999/running": b"x", "/otter/canal/cluster/x": b"y"})
    monitor = ClusterMonitor([f"{zookeeper.hosts}{zk_root}"], NOBODY, patience=10)
    found = monitor.look()
    monitor.close()
    destinations = {one.name: one for one in found.picture.clusters[0].destinations}

    assert destinations["sound"].holder is not None
    assert destinations["sound"].holder.address == SERVER
    assert len([one for one in destinations.values() if one.problems]) == 6


def test_an_answer_that_is_old_counts_no_more() -> None:
    """Nobody takes the lags of a source that hangs for those of now."""
    answer = SourceView("db:3306", 100.0, journals=Journals((), EntryPosition("b.000001", 4)))

    assert fresh(answer, 159.0) == answer
    assert fresh(answer, 161.0) == SourceView("db:3306", 100.0, error="it has not answered for 61 s")


def test_sources_that_hang_hold_up_none_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write cursors can name many addresses at which nobody answers."""
    hangs, asked = threading.Event(), list[str]()

    def ask(source: AskedSource, now: float) -> SourceView:
        if source.address != "good:3306" and now > 0:
            hangs.wait(20)
        asked.append(source.address)
        return SourceView(source.address, now)

    monkeypatch.setattr(AskedSource, "ask", ask)
    now = [0.0]
    monitor = ClusterMonitor([], NOBODY, clock=lambda: now[0], patience=0.0)
    try:
        wait(monitor._ask({"good:3306"}))
        now[0] = 100.0
        monitor._ask({"good:3306", *(f"bad{number}:3306" for number in range(50))})
        until(lambda: asked == ["good:3306"] * 2)
    finally:
        hangs.set()
        monitor.close()
