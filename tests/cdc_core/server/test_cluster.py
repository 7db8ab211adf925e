"""Several servers on one ZooKeeper, in one process and without a source: who runs what, and who says so."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl
from structlog.testing import capture_logs

from cdc_core.client.connector import Connector
from cdc_core.client.finder import Finder
from cdc_core.config import ServiceConfig, load_service
from cdc_core.contract.doors import Doors, doors_of, local_doors, reached_at
from cdc_core.contract.status import ActiveServer
from cdc_core.destination.rewind import RewindTarget
from cdc_core.doors.http import HttpDoor
from cdc_core.doors.http.metrics import render
from cdc_core.doors.http.pages import status_page
from cdc_core.doors.http.readiness import not_ready
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import CursorError, LeadershipLost, RunsElsewhere, RunsNowhere, SessionError, UnknownDestination
from cdc_core.ha import election, share
from cdc_core.ha.running import CLUSTER, DOORS, Running, destination_path
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.door_double import opened
from tests.support.servers import expire_session, free_port

pytestmark = pytest.mark.integration

Make = Callable[..., CanalServer]
RUNNING = destination_path("shop", "running")
NOWHERE = "canal.instance.master.address=127.0.0.1:9\n"


@pytest.fixture
def make(zookeeper: ZooKeeper, zk_root: str, tmp_path: Path) -> Iterator[Make]:
    """Makes a server, started, with the destinations named."""
    made: list[CanalServer] = []

    def server(
        port: int,
        *names: str,
        hosts: str = zookeeper.hosts + zk_root,
        auth: str = "",
        source: str = NOWHERE,
        http: int | None = None,
    ) -> CanalServer:
        conf = tmp_path / str(port)
        lines = f"sluice.zk.auth = {auth}\n" if auth else ""
        for name in names or ("shop",):
            (conf / name).mkdir(parents=True)
            (conf / name / "instance.properties").write_text(source)
        (conf / "canal.properties").write_text(
            f"{lines}canal.zkServers = {hosts}\ncanal.port = {port}\nsluice.zk.session.seconds = 6\n"
            f"canal.metrics.pull.port = {http or port + 1000}\ncanal.auto.scan.interval = 1\n"
        )
        made.append(CanalServer(load_service(conf, {})[0], conf))
        made[-1].start()
        return made[-1]

    yield server
    for one in made:
        one.stop()


def leads(server: CanalServer, name: str = "shop") -> bool:
    return bool(server.destination(name).metrics().leader)


def until(condition: Callable[[], Any], seconds: float = 60) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds
        time.sleep(0.02)
    return time.monotonic() - began


def test_the_second_stands_by(make: Make, zk: KazooClient) -> None:
    """Canal's nodes as Canal writes them; calls are refused with the address; page, metrics, readiness say so."""
    first = make(21001)
    until(lambda: leads(first))
    second = make(21002)
    until(lambda: second.destination("shop").status().to_dict().get("active", {}).get("address"))
    until(lambda: len(zk.get_children(CLUSTER)) == 2)

    assert zk.get(RUNNING)[0] == b'{"active":true,"address":"127.0.0.1:21001"}'
    servers = ["127.0.0.1:21001", "127.0.0.1:21002"]
    until(lambda: sorted(zk.get_children(destination_path("shop", "cluster"))) == servers)
    status = second.destination("shop").status()
    assert (status.state, status.error) == ("standby", None)
    assert status.active == ActiveServer("127.0.0.1:21001", "http://127.0.0.1:22001")
    with pytest.raises(RunsElsewhere, match=r"127\.0\.0\.1:21001 runs it") as refused:
        second.destination("shop").service().claim(1001, 1, 0, "me", 60)
    assert refused.value.hint == "Call http://127.0.0.1:22001."
    assert 'sluice_leader{destination="shop"} 0.0' in render(second, Traffic())
    assert b"runs at" in status_page(second).body
    assert not_ready(second) == []


def test_a_server_that_ends_hands_over(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says good-bye first, so nobody waits for it to come back."""
    monkeypatch.setattr(election, "PREFERENCE", 200.0)
    first = make(21001)
    until(lambda: leads(first))
    second = make(21002)
    until(lambda: second.destination("shop").status().active.address)

    stopping = threading.Thread(target=first.stop)
    stopping.start()
    until(lambda: leads(second))
    stopping.join()


def test_a_server_hands_over_on_request(make: Make, zk: KazooClient) -> None:
    """`active` false in its own node moves the destination to another server, and not back."""
    first = make(21001)
    until(lambda: leads(first))
    second = make(21002)
    until(lambda: second.destination("shop").status().active.address)

    zk.set(RUNNING, Running("127.0.0.1:21001", active=False).to_json())
    until(lambda: leads(second))
    assert not leads(first)
    assert Running.from_json(zk.get(RUNNING)[0]).address == "127.0.0.1:21002"


def test_a_changed_configuration_keeps_the_seat(make: Make, tmp_path: Path, zk: KazooClient) -> None:
    """It goes on in the same term where it runs, a filter that does not compile apart; a standby takes it in too."""
    first = make(21001)
    until(lambda: leads(first))
    second = make(21002)
    until(lambda: second.destination("shop").status().active.address)
    before, took = first.destination("shop").capture, zk.get(RUNNING)[1].czxid

    for port in (21001, 21002):
        (tmp_path / str(port) / "shop" / "instance.properties").write_text(
            NOWHERE + "canal.instance.filter.regex = a\\\\..*\n"
        )

    for server in (first, second):
        until(lambda server=server: server.destination("shop").config.filter_regex == r"a\..*")
    assert (leads(first), leads(second)) == (True, False)
    assert zk.get(RUNNING)[1].czxid == took
    assert first.destination("shop").capture not in (before, None)
    assert before.status().state == "stopped"

    (tmp_path / "21001" / "shop" / "instance.properties").write_text("canal.instance.filter.regex = a(\n")
    until(lambda: first.destination("shop").status().state == "failed")
    until(lambda: leads(second))


def test_nobody_runs_it(make: Make, zk: KazooClient) -> None:
    """A node under our own address is of before a restart: nobody is called for that."""
    zk.create(RUNNING, Running("127.0.0.1:21001").to_json(), ephemeral=True, makepath=True)
    server = make(21001)
    until(lambda: server.destination("shop").status().to_dict().get("active", {}).get("address"))
    with pytest.raises(RunsNowhere, match="no server runs destination shop now"):
        server.destination("shop").service().tables()


def test_an_expired_session(make: Make, zookeeper: ZooKeeper, zk: KazooClient) -> None:
    """The active one is so no more, at once; one of both takes over, in a new term; all nodes are there again."""
    first, second = make(21001), make(21002)
    until(lambda: leads(first) or leads(second))
    active = first if leads(first) else second
    term = active.destination("shop").capture
    assert active._zookeeper is not None

    expire_session(zookeeper, active._zookeeper.client)

    until(lambda: term.status().state == "stopped")
    until(lambda: leads(first) != leads(second))
    until(lambda: len(zk.get_children(CLUSTER)) == 2)
    assert zk.get(destination_path("shop", "sluice_leader"))[1].version == 2


def test_a_java_server_has_it(make: Make, zk: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left alone as long as it runs, and followed when it is gone: nobody waits for it to come back."""
    monkeypatch.setattr(election, "PREFERENCE", 200.0)
    java = Running("10.0.0.9:11111")
    zk.create(RUNNING, java.to_json(), ephemeral=True, makepath=True)
    server = make(21001)
    until(lambda: server.destination("shop").status().to_dict().get("active", {}).get("address") == "10.0.0.9:11111")
    with pytest.raises(RunsElsewhere, match=r"10\.0\.0\.9:11111 runs it"):
        server.destination("shop").service().tables()

    zk.delete(RUNNING)
    until(lambda: leads(server))


def test_where_others_find_us() -> None:
    """`canal.register.ip` before the address that is bound, and never one that means any."""
    base = {"canal.conf.dir": ".", "canal.file.data.dir": "."}
    stock = ServiceConfig.model_validate(base)
    assert (reached_at(stock), doors_of(stock)) == (
        "127.0.0.1",
        Doors("http://127.0.0.1:11112", "grpc://127.0.0.1:11113"),
    )
    assert reached_at(ServiceConfig.model_validate(base | {"canal.ip": "0.0.0.0"})) not in ("", "0.0.0.0")
    six = ServiceConfig.model_validate(base | {"canal.ip": "0.0.0.0", "canal.register.ip": "::1"})
    assert doors_of(six).http == "http://[::1]:11112"
    pem = {"canal.register.ip": "db1", "sluice.tls.certificate": "c.pem", "sluice.tls.key": "k.pem"}
    tls = ServiceConfig.model_validate(base | {"canal.ip": "0.0.0.0"} | pem)
    assert doors_of(tls) == local_doors(tls) == Doors("https://db1:11112", "grpc+tls://db1:11113")
    assert local_doors(six).http == "http://0.0.0.0:11112"


def test_closed_nodes(make: Make) -> None:
    """With `sluice.zk.auth` the nodes are for those who know it; a client finds the server with it, and not without."""
    server = make(21001, auth="sluice:secret")
    until(lambda: leads(server))
    doors = Doors("http://127.0.0.1:22001", "grpc://127.0.0.1:11113")
    hosts = server.config.zk_servers
    knowing, other = Finder(hosts, "shop", "sluice:secret"), Finder(hosts, "shop")
    assert server._zookeeper is not None
    until(lambda: server._zookeeper.children(DOORS))
    assert knowing.find() == doors
    with pytest.raises(CursorError, match=r"(?i)auth"):
        other.find()
    knowing.close()
    other.close()


@pytest.mark.parametrize("readable", [False, True])
def test_nodes_of_another_account(make: Make, zk: KazooClient, readable: bool) -> None:
    """A ZooKeeper that asks for an account, or lets others only read: reported with the key; nothing is written. With
    the account it goes on."""
    acl = [make_digest_acl("canal", "secret", all=True)]
    acl += [make_acl("world", "anyone", read=True)] if readable else []
    zk.create("/otter", b"", acl=acl)
    server = make(21001)
    until(lambda: server.destination("shop").status().error)
    error = server.destination("shop").status().error
    assert (error.error, "refuses this account" in error.message) == ("CursorError", True)
    assert "sluice.zk.auth" in error.hint
    assert "/otter" in error.place
    with pytest.raises(CursorError, match="refuses this account"):
        server.destination("shop").service().tables()
    zk.add_auth("digest", "canal:secret")
    assert zk.get_children("/otter") == []

    knowing = make(21002, auth="canal:secret")
    until(lambda: leads(knowing))


def test_two_servers_of_one_address(make: Make, zk: KazooClient, tmp_path: Path) -> None:
    """The second logs it, takes nothing of the first's away, and takes over from it as any other would."""
    first = make(21001)
    until(lambda: leads(first) and zk.exists(f"{DOORS}/127.0.0.1:21001"))
    doors = zk.get(f"{DOORS}/127.0.0.1:21001")
    shutil.copytree(tmp_path / "21001", tmp_path / "twin")
    twin = CanalServer(load_service(tmp_path / "twin", {})[0], tmp_path / "twin")
    with capture_logs() as told:
        twin.start()
        try:
            ours = "another server has our address"
            until(lambda: ours in [event["event"] for event in told])
            found = next(event for event in told if event["event"] == ours)
            assert found["log_level"] == "error"
            assert "canal.register.ip" in found["hint"]
            assert zk.get(f"{DOORS}/127.0.0.1:21001") == doors
            assert (leads(first), leads(twin)) == (True, False)
            first.stop()
            until(lambda: leads(twin))
        finally:
            twin.stop()


def test_destinations_are_shared_out(make: Make, zk: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that compete for the same ones end with the same number of them."""
    monkeypatch.setattr(share, "STEP", 20.0)  # a server that is slow still goes first in its turn
    monkeypatch.setattr(share, "_LONGEST", 20.0)
    names = [f"d{number}" for number in range(6)]
    for name in names:
        zk.create(destination_path(name, "running"), Running("10.0.0.9:11111").to_json(), makepath=True)
    first, second = make(21001, *names), make(21002, *names)
    until(lambda: zk.exists(CLUSTER) and len(zk.get_children(CLUSTER)) == 2)
    for server in (first, second):
        until(lambda server=server: all(server.destination(name).status().active.address for name in names))

    for name in names:
        zk.delete(destination_path(name, "running"))
    until(lambda: all(leads(first, name) != leads(second, name) for name in names))
    assert sum(leads(first, name) for name in names) == 3


def test_zookeeper_away(make: Make, tmp_path: Path) -> None:
    """Without it nobody runs anything after a session's length; back, one does, also when it comes late."""
    own = ZooKeeper(tmp_path / "zookeeper", free_port()).start()
    try:
        first, second = make(21001, hosts=own.hosts), make(21002, hosts=own.hosts)
        until(lambda: leads(first) != leads(second))
        own.kill()
        until(lambda: not leads(first) and not leads(second))
        with pytest.raises(CursorError, match="ZooKeeper does not answer"):
            first.destination("shop").service().tables()
        own.start()
        until(lambda: leads(first) != leads(second))
    finally:
        first.stop()
        second.stop()
        own.stop()


def test_the_first_write_reveals_a_lost_session(make: Make, zookeeper: ZooKeeper) -> None:
    """Its session is over and a new one is there, but its monitor sleeps: the write fails, and it steps down."""
    first = make(21001)
    until(lambda: leads(first))
    second = make(21002)
    until(lambda: second.destination("shop").status().active.address)
    shop, nodes = first.destination("shop"), first._zookeeper
    candidacy, old = shop._competition.candidacy, shop.capture
    assert candidacy is not None
    assert nodes is not None
    assert old is not None
    asleep, candidacy._monitor._events = candidacy._monitor._events, queue.SimpleQueue()

    expire_session(zookeeper, nodes.client)
    until(lambda: leads(second))
    until(lambda: nodes.client.connected)
    assert leads(first)
    with pytest.raises(LeadershipLost):
        old.sessions._cursors.write(1001, LogPosition("127.0.0.1", 9, EntryPosition("mysql-bin.000001", 400)))

    assert nodes.read(destination_path("shop", "1001", "cursor")) is None
    asleep.put(election.Tick())
    until(lambda: not leads(first))
    assert old.status().state == "stopped"
    assert leads(second)


def test_cursors_are_set_by_the_server_that_runs_it(make: Make, mysql8: MySqlServer) -> None:
    """Within its term, so that it goes on leading; one that stands by refuses and changes nothing."""
    source = (
        f"canal.instance.master.address={mysql8.host}:{mysql8.port}\ncanal.instance.dbUsername={mysql8.user}\n"
        f"canal.instance.dbPassword={mysql8.password}\ncanal.instance.filter.regex=none\\\\..*\n"
    )
    first = make(21031, source=source)
    until(lambda: first.destination("shop").status().state == "running")
    second = make(21032, source=source)
    until(lambda: second.destination("shop").status().to_dict().get("active", {}).get("address"))
    before = first.destination("shop").capture
    with pytest.raises(RunsElsewhere):
        second.reset_destination("shop", RewindTarget("earliest"), dry_run=False)
    assert first.destination("shop").capture is before is not None

    told = first.reset_destination("shop", RewindTarget("earliest"), dry_run=False)

    assert told.done
    assert leads(first)
    assert first.destination("shop").capture is not before
    until(lambda: first.destination("shop").status().state == "running")
    assert first.destination("shop").service().client(1001).epoch == 1
    first.stop_destination("shop")
    until(lambda: leads(second))
    with pytest.raises(SessionError, match="another server may run it"):
        first.reset_destination("shop", RewindTarget("earliest"), dry_run=False)


def test_a_destination_is_stopped_at_every_server(
    make: Make, zookeeper: ZooKeeper, zk_root: str, zk: KazooClient
) -> None:
    """By one call, so that nobody takes it over; one that does not know it is no error. Started again, one runs it."""
    with ExitStack() as ends:
        ports = [free_port() for _ in range(3)]
        servers = [make(21041 + at, *(["other"] if at == 2 else []), http=ports[at]) for at in range(3)]
        for server, port in zip(servers, ports, strict=True):
            ends.enter_context(opened(HttpDoor(server, "127.0.0.1", port)))
        connector = ends.enter_context(Connector(None, "shop", zk_servers=zookeeper.hosts + zk_root))
        until(lambda: any(map(leads, servers[:2])))
        until(lambda: len(zk.get_children(DOORS)) == 3)

        done = [connector.by_hand.stop() for _ in range(2)]

        assert [sorted(one) for one in done] == [sorted(f"http://127.0.0.1:{port}" for port in ports[:2])] * 2
        assert [server.destination("shop").status().note for server in servers[:2]] == ["stopped by an operator"] * 2
        assert connector.by_hand.start() == done[0]
        until(lambda: any(map(leads, servers[:2])))
        unknown = ends.enter_context(Connector(None, "nothing", zk_servers=zookeeper.hosts + zk_root))
        with pytest.raises(UnknownDestination):
            unknown.by_hand.stop()
