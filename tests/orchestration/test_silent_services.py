"""A folder of destinations whose service accepts connections and never answers, or that nobody runs: it is waited for
once, not once for each destination."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cdc_core.contract.doors import Doors
from cdc_core.ha.running import DOORS, Running, destination_path
from cdc_core.meta.nodes import Change
from cdc_core.meta.zookeeper import ZookeeperNodes
from orchestration import destination
from orchestration.loading import load_folder
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.canal_double import USERS

_MANY = [f"d{number}" for number in range(8)]


@contextmanager
def service(*silent: str) -> Iterator[tuple[str, Counter[str]]]:
    """The URL of a service, and how often each path was asked for. Paths that hold one of `silent` never get an
    answer; others have one table."""
    asked, over = Counter[str](), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] += 1
            if any(one in self.path for one in silent):
                over.wait(60)
                return
            body = json.dumps([USERS.to_dict()] if self.path.endswith("/tables") else {"status": "alive"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "_SECONDS", 1.0)


def loaded(folder: Path, where: str, names: list[str]) -> tuple[list[str], float]:
    """Destinations whose `service` is so: what stands in the place of those that wait, and the seconds of the load."""
    for name in names:
        file = folder / name / "defs.yaml"
        file.parent.mkdir(parents=True)
        attributes = f"  destination: {name}\n  lake: {folder / 'lake' / name}\n  service: {{{where}}}\n"
        file.write_text(f"type: orchestration.destination.CdcDestination\nattributes:\n{attributes}")
    began = time.monotonic()
    sensors = load_folder(folder).sensors or []
    return sorted(one.name for one in sensors if one.name.startswith("waiting_")), time.monotonic() - began


def runs_at(zookeeper: str, address: str, url: str, names: list[str]) -> None:
    """Says in ZooKeeper that the server at `url` runs these destinations."""
    nodes = ZookeeperNodes(zookeeper, "")
    nodes.write({f"{DOORS}/{address}": Change(Doors(url, "grpc://127.0.0.1:1").to_json(), None)})
    for name in names:
        nodes.write({destination_path(name, "running"): Change(Running(address).to_json(), None)})
    nodes.close()


def test_a_service_at_an_address(tmp_path: Path) -> None:
    """All wait for it, and it is asked for one destination."""
    with service("") as (url, asked):
        waiting, _ = loaded(tmp_path, f"http: '{url}'", _MANY)
    assert waiting == [f"waiting_{name}" for name in _MANY]
    assert asked == {"/v1/destinations/d0/tables": 1, "/healthz": 1}


def test_a_service_that_answers_for_others(tmp_path: Path) -> None:
    """One destination of it hangs: the others are loaded."""
    with service("/d0/") as (url, _):
        assert loaded(tmp_path, f"http: '{url}'", _MANY)[0] == ["waiting_d0"]


@pytest.mark.integration
def test_a_service_that_zookeeper_names(zookeeper: ZooKeeper, zk_root: str, tmp_path: Path) -> None:
    """It is asked for one destination; those of another server that ZooKeeper names are loaded."""
    hosts = zookeeper.hosts + zk_root
    with service("") as (url, asked), service() as (other, _):
        runs_at(hosts, "127.0.0.1:1", url, _MANY[:6])
        runs_at(hosts, "127.0.0.1:2", other, _MANY[6:])
        waiting, _ = loaded(tmp_path, f"zookeeper: '{hosts}'", _MANY)
    assert waiting == [f"waiting_{name}" for name in _MANY[:6]]
    assert asked["/healthz"] == 1
    assert [path for path in asked if path != "/healthz"] == ["/v1/destinations/d0/tables"]


@pytest.mark.integration
def test_a_zookeeper_where_no_server_is_alive(zookeeper: ZooKeeper, zk_root: str, tmp_path: Path) -> None:
    """Nor is a server waited for that could run each."""
    waiting, seconds = loaded(tmp_path, f"zookeeper: '{zookeeper.hosts}{zk_root}'", _MANY)
    assert waiting == [f"waiting_{name}" for name in _MANY]
    assert seconds < 6
