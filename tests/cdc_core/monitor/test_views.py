"""A cluster's nodes become values, whatever is in them."""

from __future__ import annotations

import pytest

from cdc_core.ha.running import DOORS, Running
from cdc_core.monitor.views import ServerView, cluster_of
from tests.support.java_canal import CONSUMER, SERVER, STANDBY, cursor, java_nodes

ROOT = "/otter/canal/destinations/example"


def test_a_java_canals_nodes() -> None:
    """Who runs the destination and who could, its client, the client's consumer, filter, cursor and source."""
    found = cluster_of("zk/canal/g1", java_nodes())
    (destination,) = found.destinations
    (client,) = destination.clients

    assert found.servers == (ServerView(SERVER), ServerView(STANDBY))
    assert (destination.holder, destination.standby) == (Running(SERVER), (STANDBY,))
    assert (client.client_id, client.filter, client.source) == (1001, "bench\\.t", "localhost:33061")
    assert client.running == Running(CONSUMER, client_id=1001)
    assert client.cursor is not None
    assert (str(client.cursor.postion), client.cursor.postion.timestamp) == ("mysql-bin.000001:35934751", 1795253009000)
    assert (found.away, found.problems, destination.problems) == ("", (), ())


def test_sluices_server_has_a_page() -> None:
    """Its doors are known; a client that was unsubscribed is none, and Sluice's other nodes are no clients."""
    nodes = java_nodes() | {
        f"{DOORS}/{SERVER}": b'{"http": "http://10.0.0.1:11112", "flight": "grpc://10.0.0.1:11113"}',
        f"{ROOT}/1002/cursor": b"{}",
        f"{ROOT}/1002/unsubscribed": b"{}",
        f"{ROOT}/sluice_leader": b"",
        f"{ROOT}/sluice_identity": b"abc",
    }
    found = cluster_of("zk", nodes, made={f"{ROOT}/running": 77})

    assert [(one.kind, one.http) for one in found.servers] == [("sluice", "http://10.0.0.1:11112"), ("canal", "")]
    assert [one.client_id for one in found.destinations[0].clients] == [1001]
    assert found.destinations[0].term == 77
    assert found.destinations[0].problems == ()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"identity": 1}',
        cursor("mysql-bin", 4, 0),
        cursor("mysql-bin.000001", 4, 0).replace(b'"timestamp":0', b'"timestamp":"soon"'),
        cursor("mysql-bin.000001", 4, 0).replace(b'"position":4', b'"position":Infinity'),
        cursor("mysql-bin.000001", 4, 0).replace(b'"gtid":""', b'"gtid":7'),
        cursor("mysql-bin.000001", 4, 10**400),
        cursor("mysql-bin.000001", -(10**400), 0),
        cursor("mysql-bin.000001", 4, 0, "\\ud800:3306"),
        cursor("mysql-bin.000001", 4, 0, "\\u001b[2J:3306"),
        cursor("\\u202e.000001", 4, 0),
        cursor("mysql-bin.000001", 4, 0, f"{'a' * 301}:3306"),
    ],
    ids=range(16),
)
def test_a_cursor_of_another_form_is_a_problem_of_its_destination(value: bytes) -> None:
    """It is named with a short piece of it; the rest is known, and so is the next destination."""
    found = cluster_of("zk", java_nodes() | {f"{ROOT}/1001/cursor": value} | java_nodes("other"))
    one, other = found.destinations

    assert len(one.problems) == 1
    assert one.problems[0].startswith(f"{ROOT}/1001/cursor is not a cursor: ")
    assert len(one.problems[0]) < 250
    assert (one.clients[0].cursor, one.clients[0].filter) == (None, "bench\\.t")
    assert other.problems == ()


@pytest.mark.parametrize(
    "value",
    [b"", b"not json", b'{"address": null}', b'{"active": true}', b'"text"', b"\xff", b'{"address": "\\ud800"}'],
)
def test_a_holder_of_another_form_is_an_unknown_one(value: bytes) -> None:
    """Somebody runs it: that is no destination without a leader."""
    found = cluster_of("zk", java_nodes() | {f"{ROOT}/running": value}).destinations[0]

    assert found.holder == Running("unknown")
    assert found.problems[0].startswith(f"{ROOT}/running is not a holder")


def test_doors_of_another_form_are_a_problem_of_the_cluster() -> None:
    """Also a link that is none of the web's: it would be on the page."""
    nodes = java_nodes() | {
        f"{DOORS}/{SERVER}": b"nothing",
        f"{DOORS}/{STANDBY}": b'{"http": "javascript:alert(1)", "flight": ""}',
    }
    found = cluster_of("zk", nodes)

    assert len(found.problems) == 1
    assert [one.http for one in found.servers] == ["", ""]
    nodes[f"{DOORS}/{STANDBY}"] = b'{"http": "http://\\ud800", "flight": ""}'
    assert len(cluster_of("zk", nodes).problems) == 2


def test_what_may_not_be_read_is_named() -> None:
    """By the destination that it belongs to, or by the cluster."""
    found = cluster_of("zk", java_nodes(), refused=(f"{ROOT}/1001/cursor", "/otter/canal/cluster"))

    assert "SLUICE_ZK_AUTH" in found.destinations[0].problems[0]
    assert found.problems[0].startswith("/otter/canal/cluster may not be read")


def test_an_empty_place_is_said_to_be_one() -> None:
    """A wrong chroot looks like that."""
    assert "is the chroot right" in cluster_of("zk/nothing", {}).problems[0]
