"""The ZooKeeper of the stack."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from orchestration.stack.ports import free_port
from orchestration.stack.zookeeper import ZooKeeper


@pytest.mark.integration
def test_zookeeper_keeps_its_nodes_over_a_kill(tmp_path: Path) -> None:
    """A node written before a crash is there after the next start."""
    server = ZooKeeper(tmp_path, free_port()).start()
    try:
        _with_client(server.hosts, lambda client: client.create("/kept", b"x"))
        server.kill()
        server.start()
        assert _with_client(server.hosts, lambda client: client.get("/kept")[0]) == b"x"
    finally:
        server.stop()


def _with_client(hosts: str, act):  # type: ignore[no-untyped-def]
    client = KazooClient(hosts)
    client.start(timeout=60)
    try:
        return act(client)
    finally:
        client.stop()
        client.close()
