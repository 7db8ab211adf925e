"""Clients of one destination: who is subscribed, and who may hold the store back. On a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.contract.client_status import ClientStatus
from cdc_core.destination.capture import Capture
from cdc_core.destination.rewind import RewindTarget, carry_out, plan
from cdc_core.errors import SessionError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition
from orchestration.sensors.decision import waits_for
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, claim, config, execute, running, until
from tests.support.reading import nothing_between

pytestmark = pytest.mark.integration
OTHER = 1002
SMALL = {"buffer_size": 16, "flush_ms": 50}  # a ring of 16 kB


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    with mysql8.database() as name:
        execute(mysql8, name, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(2000))")
        yield name


def fill(mysql: MySqlServer, shop: str, rows: int = 20) -> None:
    for _ in range(rows):
        execute(mysql, shop, "INSERT INTO t (note) VALUES (REPEAT('x', 2000))")


def take(capture: Capture, client: int = CLIENT) -> int:
    """Acks what is there; the number of rows."""
    found = capture.service.claim(client, 1000, 0.1, "run-1", 60)
    if found is None:
        return 0
    capture.service.ack(client, found.batch_id, "run-1")
    return found.rows


def take_all(capture: Capture, rows: int) -> None:
    """Acks until the configured client has so many rows."""
    seen = 0

    def enough() -> bool:
        nonlocal seen
        seen += take(capture)
        return seen >= rows

    until(enough, capture)


def captured(mysql: MySqlServer, shop: str, **changes: Any) -> InstanceConfig:
    return config(mysql, shop, **SMALL, **changes)


def test_a_claim_with_an_unknown_client_id_subscribes_nobody(mysql8: MySqlServer, shop: str) -> None:
    """The call is refused, and the configured client gets more rows than the ring holds."""
    with running(captured(mysql8, shop), MemoryNodes()) as capture:
        with pytest.raises(SessionError, match=f"client {OTHER} is not subscribed"):
            capture.service.claim(OTHER, 10, 0, "typo", 60)
        fill(mysql8, shop)
        take_all(capture, 20)
        assert [client.client_id for client in capture.status().clients] == [CLIENT]


def test_a_client_that_holds_the_store_back_is_named_and_dropped(mysql8: MySqlServer, shop: str) -> None:
    """It never acks: status and sensor name it; it is dropped after its time, stays so over a restart, and the
    configured client goes on. Its cursor is kept, and a reset subscribes it again there."""
    nodes, settings, later = MemoryNodes(), captured(mysql8, shop, lease_seconds=300), [0.0]
    with running(settings, nodes, clock=lambda: time.time() + later[0]) as capture:
        kept = capture.service.subscribe(OTHER).cursor
        fill(mysql8, shop)
        mine, clients = until(lambda: held_back(capture), capture)
        assert f"client {OTHER} has held the full store back" in waits_for(mine, clients)
        later[0] = 400.0
        take_all(capture, 1)
        assert [client.client_id for client in capture.status().clients] == [CLIENT]
        with pytest.raises(SessionError, match=f"client was dropped.* its cursor is {kept}"):
            capture.service.subscribe(OTHER)

    with running(settings, nodes) as capture:
        assert [client.client_id for client in capture.status().clients] == [CLIENT]
        source = capture.settings
    cursors = Cursors(nodes, "shop")
    assert kept is not None
    carry_out(cursors, plan(source, cursors, RewindTarget(kept, OTHER)))
    with running(settings, nodes) as capture:
        until(lambda: take(capture, OTHER) > 0, capture)
        capture.service.unsubscribe(OTHER)
        with pytest.raises(SessionError, match="not subscribed"):
            capture.service.claim(OTHER, 10, 0, "late", 60)
        end = EntryPosition(*mysql8.position())  # inside a transaction nobody is subscribed
        until(lambda: not take(capture) and nothing_between(mysql8, capture.status().position, end), capture)
        assert capture.service.subscribe(OTHER).backlog_rows == 0


def held_back(capture: Capture) -> tuple[ClientStatus, tuple[ClientStatus, ...]] | None:
    """The configured client and all clients, as one look shows them, once the other alone holds the store back."""
    if take(capture):
        return None
    clients = capture.status().clients
    (mine,) = [client for client in clients if client.client_id == CLIENT]
    holders = [client.client_id for client in clients if client.holds_back_seconds is not None]
    return (mine, clients) if holders == [OTHER] else None


def test_a_configured_client_stays(mysql8: MySqlServer, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is subscribed by itself, cannot be unsubscribed and is never dropped; the others' wait is an error."""
    monkeypatch.setattr("cdc_core.destination.reporter._PATIENCE", 0.5)
    with running(captured(mysql8, shop, lease_seconds=0.2, clients=(CLIENT, OTHER)), MemoryNodes()) as capture:
        with pytest.raises(SessionError, match=f"client {OTHER} is configured"):
            capture.service.unsubscribe(OTHER)
        fill(mysql8, shop)
        claim(capture, lease=60)
        capture.service.rollback(CLIENT, None, None, "test")
        error = until(lambda: capture.status().error if not take(capture) else None, capture)
        assert error.message == f"client {OTHER} holds the full store back: client {CLIENT} gets nothing"
        assert f"DELETE /v1/destinations/shop/clients/{OTHER}" in error.hint
        until(lambda: take(capture, OTHER) > 0, capture)
        until(lambda: take(capture) > 0, capture)
        until(lambda: take(capture, OTHER) + take(capture) == 0 and capture.status().error is None, capture)
