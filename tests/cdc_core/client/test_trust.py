"""Which of the servers that a real ZooKeeper names get a client's token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust
from cdc_core.contract.doors import Doors
from cdc_core.errors import AccessDenied
from cdc_core.ha.running import DOORS, Running, destination_path
from cdc_core.meta.zookeeper import ZookeeperNodes
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.certificates import Authority

pytestmark = pytest.mark.integration

ADDRESS, ACCOUNT = "192.0.2.1:11111", "sluice:secret"
PLAIN = Doors("http://192.0.2.1:11112", "grpc://192.0.2.1:11113")
TLS = Doors("https://db1.example.org:11112", "grpc+tls://db1.example.org:11113")
OPEN = [make_acl("world", "anyone", all=True)]
CLOSED = [make_digest_acl("sluice", "secret", all=True)]
READABLE = [*CLOSED, make_acl("world", "anyone", read=True)]
OTHERS = [make_digest_acl("other", "secret", all=True), make_acl("world", "anyone", read=True)]

Name = Callable[..., None]


@pytest.fixture
def name(zk: KazooClient) -> Name:
    """Writes into ZooKeeper where the destination runs, as anybody might."""

    def write(doors: Doors, folder: Any = OPEN, node: Any = OPEN) -> None:
        zk.create(destination_path("shop", "running"), Running(ADDRESS).to_json(), makepath=True)
        zk.create(f"{DOORS}/{ADDRESS}", doors.to_json(), makepath=True)
        zk.set_acls(f"{DOORS}/{ADDRESS}", node)
        zk.set_acls(DOORS, folder)

    return write


@pytest.fixture
def found(zookeeper: ZooKeeper, zk_root: str) -> Callable[..., str]:
    """Where a client would send its calls."""

    def look(token: str | None = "s3cret", trust: Trust | None = None, auth: str = "") -> str:
        hosts = zookeeper.hosts + zk_root
        limits = {"timeout_seconds": 1.0, "follow_seconds": 0.0}
        with Connector(None, "shop", zk_servers=hosts, zk_auth=auth, token=token, trust=trust, **limits) as connector:  # type: ignore[arg-type]
            return connector.http_url

    return look


def test_what_anybody_may_have_written_gets_no_token(name: Name, found: Callable[..., str]) -> None:
    """The error names address and node, and says what to do. Listed hosts get it; without a token nobody is asked."""
    name(PLAIN)
    for trust in (None, Trust(hosts=("192.0.3.*", "db1"))):
        with pytest.raises(
            AccessDenied, match=r"http://192\.0\.2\.1:11112, a host that may not get the token"
        ) as refused:
            found(trust=trust)
        assert ADDRESS in refused.value.place
        assert "hosts: ['192.0.2.1']" in refused.value.hint
    assert found(token=None) == found(trust=Trust(hosts=("192.0.2.*",))) == PLAIN.http


def test_every_server_that_is_called_is_checked(name: Name, zookeeper: ZooKeeper, zk_root: str) -> None:
    """An operator's stop goes to all servers."""
    name(PLAIN)
    with (
        Connector(None, "shop", zk_servers=zookeeper.hosts + zk_root, token="s3cret", follow_seconds=0.0) as connector,
        pytest.raises(AccessDenied, match="may not get the token"),
    ):
        connector.by_hand.stop()


@pytest.mark.parametrize(
    "doors", [Doors("http://127.0.0.1:1", "grpc://localhost:2"), Doors("http://[::1]:1", "grpc://[::1]:2")]
)
def test_this_machine_gets_it(name: Name, found: Callable[..., str], doors: Doors) -> None:
    """The default set-up needs no configuration."""
    name(doors)
    assert found() == doors.http


def test_both_doors_count(name: Name, found: Callable[..., str]) -> None:
    """The token goes to Flight as well."""
    name(Doors("http://127.0.0.1:1", "grpc://192.0.2.1:2"))
    with pytest.raises(AccessDenied, match=r"grpc://192\.0\.2\.1:2"):
        found()


@pytest.mark.parametrize(
    ("folder", "node", "auth", "trusted"),
    [
        (CLOSED, CLOSED, ACCOUNT, True),
        (READABLE, READABLE, ACCOUNT, True),
        (READABLE, READABLE, "", False),  # whoever has no account cannot say whose they are
        (OPEN, CLOSED, ACCOUNT, False),  # anybody may make the node
        (READABLE, OPEN, ACCOUNT, False),
        (OTHERS, OTHERS, ACCOUNT, False),
    ],
)
def test_access_lists_are_trusted(
    name: Name, found: Callable[..., str], folder: Any, node: Any, auth: str, trusted: bool
) -> None:
    """Where nobody but the client's own account may write the node, and make one."""
    name(PLAIN, folder, node)
    if trusted:
        assert found(auth=auth) == PLAIN.http
        return
    with pytest.raises(AccessDenied, match="may not get the token"):
        found(auth=auth)


def test_a_services_own_nodes_are_closed(zookeeper: ZooKeeper, zk_root: str, found: Callable[..., str]) -> None:
    """With `sluice.zk.auth` its clients need no list."""
    nodes = ZookeeperNodes(zookeeper.hosts + zk_root, ACCOUNT)
    for path, value in (
        (destination_path("shop", "running"), Running(ADDRESS).to_json()),
        (f"{DOORS}/{ADDRESS}", PLAIN.to_json()),
    ):
        nodes.client.create(path, value, ephemeral=True, makepath=True)
    assert found(auth=ACCOUNT) == PLAIN.http
    nodes.close()


def test_a_certificate_of_the_own_authority_is_trusted(name: Name, found: Callable[..., str], tmp_path: Path) -> None:
    """A server that cannot show one gets no call; one of a public authority may be anybody's."""
    name(TLS)
    assert found(trust=Trust(Authority(tmp_path).pem)) == TLS.http
    with pytest.raises(AccessDenied, match=r"db1\.example\.org"):
        found(trust=Trust())


def test_an_authority_does_not_vouch_for_a_door_without_tls(
    name: Name, found: Callable[..., str], tmp_path: Path
) -> None:
    """Neither of both may be without."""
    name(Doors(TLS.http, PLAIN.flight))
    with pytest.raises(AccessDenied, match=r"grpc://192\.0\.2\.1"):
        found(trust=Trust(Authority(tmp_path).pem))
