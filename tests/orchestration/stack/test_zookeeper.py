"""The ZooKeeper of the stack."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from orchestration.stack.ports import free_port
from orchestration.stack.zookeeper import ZooKeeper, serves


def test_a_server_that_only_listens_does_not_serve_yet() -> None:
    """It says so while it starts, and a session asked for then would wait for the whole of its time-out."""
    answers = [
        b"This ZooKeeper instance is not currently serving requests\n",
        b"Latency min/avg/max: 0\nMode: standalone\n",
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for words in answers:
                client, _ = listener.accept()
                with client:
                    client.recv(4)
                    client.sendall(words)

        threading.Thread(target=answer, daemon=True).start()
        port = listener.getsockname()[1]
        assert [serves(port), serves(port)] == [False, True]
    assert not serves(port)


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
