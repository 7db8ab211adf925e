"""Alerts from a real Dagster, whose code server and daemon start again meanwhile, to a real web hook."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from cdc_core.contract.stopped_table import StoppedTable
from orchestration.stack.dagster import Dagster
from orchestration.stack.defs import write_component
from tests.support.canal_double import ORDERS, MemoryCanal, position
from tests.support.receivers import web_hook
from tests.support.servers import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(600)]
TOKEN = "s3cr3t-T0KEN"


@contextmanager
def service(stopped: Sequence[StoppedTable]) -> Iterator[str]:
    """The URL of a service that only says how its destinations are. What is put into `stopped` later counts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            canal = MemoryCanal()
            canal.stopped = list(stopped)
            status = canal.status().to_dict() | {"clients": [canal.client_status().to_dict()]}
            answers: dict[str, Any] = {"": [status], "/shop": status, "/shop/tables": [ORDERS.to_dict()]}
            found = answers.get(self.path.removeprefix("/v1/destinations"))
            body = json.dumps(found or {"error": "", "message": "not here", "place": "", "hint": ""}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST = do_GET  # noqa: N815 - as the base class calls them

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def ticks(dagster: Dagster) -> list[dict[str, Any]]:
    """The ticks of the sensor, the newest first."""
    selector = '{repositoryName: "__repository__", repositoryLocationName: "sluice", sensorName: "shop_alerts"}'
    fields = "ticks(limit: 50) {status skipReason error {message causes {message}}}"
    query = f"{{sensorOrError(sensorSelector: {selector}) {{... on Sensor {{sensorState {{{fields}}}}}}}}}"
    answer = httpx.post(f"{dagster.url}/graphql", json={"query": query}, timeout=30, trust_env=False).json()
    found: list[dict[str, Any]] = answer["data"]["sensorOrError"]["sensorState"]["ticks"]
    return found


@pytest.mark.in_turn
def test_each_trouble_is_told_once_whatever_starts_again(tmp_path: Path) -> None:
    """A web hook that refuses makes a red tick with the reason. When it takes messages it gets one, and after a restart
    of Dagster none, until the table goes on. The hook's URL is in no file of Dagster's: no log, tick or event."""
    stopped = [StoppedTable("shop.orders", "total does not fit", "Reload it.", position(1))]
    with web_hook() as hook, service(stopped) as http:
        write_component(
            tmp_path / "defs" / "shop" / "defs.yaml",
            {
                "destination": "shop",
                "lake": str(tmp_path / "lake"),
                "tables": ["shop.orders"],
                "service": {"http": http},
                "alerts": {"to": [{"url_env": "SLUICE_ALERT_URL"}], "kinds": ["stopped"]},
            },
        )
        environment = {"SLUICE_ALERT_URL": hook.url(TOKEN)}
        dagster = Dagster(tmp_path / "home", port=free_port(), defs=tmp_path / "defs", environment=environment)
        hook.status = 503
        try:
            dagster.start()
            until(lambda: hook.asked, 120)
            until(lambda: any(one["status"] == "FAILURE" for one in ticks(dagster)), 60)
            hook.status = 200
            until(lambda: hook.titles, 120)
            failed = [one["error"] for one in ticks(dagster) if one["status"] == "FAILURE"]
            assert "the message was not taken: the answer was 503" in json.dumps(failed)

            dagster.stop()
            dagster.start()
            known = len(ticks(dagster))
            until(lambda: len(ticks(dagster)) > known, 120)
            assert hook.titles == ["Sluice shop: a table is stopped"]
            stopped.clear()
            until(lambda: len(hook.titles) > 1, 180)
        finally:
            dagster.stop()
        assert hook.titles == ["Sluice shop: a table is stopped", "Sluice shop: a table goes on"]
    files = [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if TOKEN.encode() in file.read_bytes()]
