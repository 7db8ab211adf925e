"""Two service processes on one ZooKeeper and one MySQL, to be killed, paused and woken."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust
from cdc_core.contract.claim import Claim
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.service import Service
from tests.support.reading import until_read
from tests.support.servers import free_port

CLIENT = "/v1/destinations/shop/clients/1001"
_TLS = Trust().context()  # httpx reads the system's authorities for each call otherwise, which takes 20 ms
SESSION = 5  # seconds: a busy machine stalls a process for less


@dataclass
class Node:
    """One service. Its answers are httpx.Response, whatever their status."""

    service: Service
    port: int
    conf: Path

    def get(self, path: str) -> Any:
        """The JSON of the answer; {} if nothing answers in time, as while it is paused."""
        try:
            return httpx.get(f"{self.service.url}{path}", timeout=3, verify=_TLS).json()
        except httpx.HTTPError:
            return {}

    def post(self, path: str, body: dict[str, Any], timeout: float = 180) -> httpx.Response:
        return httpx.post(f"{self.service.url}{CLIENT}/{path}", json=body, timeout=timeout, verify=_TLS)

    @property
    def state(self) -> str:
        return str(self.get("/v1/destinations/shop").get("state", "away"))

    @property
    def reads(self) -> bool:
        """Whether it is active and its dump is connected."""
        told = self.get("/v1/destinations/shop")
        return told.get("state") == "running" and bool(told["source"]["connected"])

    def claim(self, rows: int = 100, wait: float = 60) -> Claim:
        body = {"batch_size": rows, "timeout_seconds": wait, "owner": "test", "lease_seconds": 600}
        answer = self.post("claims", body)
        assert answer.status_code == 200, answer.text
        return Claim.from_dict(answer.json())

    def ack(self, claim: Claim) -> httpx.Response:
        return self.post(f"claims/{claim.batch_id}/ack", {"owner": "test"})

    def drain(self, mysql: MySqlServer) -> None:
        """Gives back what is held, and acks all that the source has written."""
        self.post("rollback", {"owner": "test"})
        with Connector(self.service.url, "shop", timeout_seconds=60) as connector:
            until_read(connector.status, mysql)
            while connector.client_status().waiting:
                if claim := connector.get_without_ack(100, owner="test", timeout_seconds=1):
                    connector.ack(claim)

    def pause(self) -> None:
        assert self.service.pid is not None
        os.killpg(self.service.pid, signal.SIGSTOP)

    def wake(self) -> None:
        assert self.service.pid is not None
        os.killpg(self.service.pid, signal.SIGCONT)


def node(
    folder: Path, zookeeper: str, mysql: MySqlServer, database: str, *, wait_ready: bool = True, more: str = ""
) -> Node:
    """A service that is not started yet, and will begin at the present end of the binlog. `more`: other lines of its
    instance.properties."""
    http, port = free_port(), free_port()
    journal, offset = mysql.position()
    conf = folder / "conf"
    (conf / "shop").mkdir(parents=True)
    (conf / "canal.properties").write_text(
        f"canal.zkServers = {zookeeper}\ncanal.port = {port}\nsluice.zk.session.seconds = {SESSION}\n"
        f"canal.metrics.pull.port = {http}\nsluice.flight.port = {free_port()}\n"
    )
    (conf / "shop" / "instance.properties").write_text(
        f"canal.instance.master.address={mysql.host}:{mysql.port}\n"
        f"canal.instance.dbUsername={mysql.user}\ncanal.instance.dbPassword={mysql.password}\n"
        f"canal.instance.master.journal.name={journal}\ncanal.instance.master.position={offset}\n"
        f"canal.instance.filter.regex={database}\\\\..*\nsluice.heartbeat.seconds=1\n{more}"
    )
    return Node(Service(conf, folder, http_port=http, wait_ready=wait_ready), port, conf)


def until(condition: Callable[[], Any], seconds: float = 90) -> float:
    """Waits for the condition; returns the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds
        time.sleep(0.03)
    return time.monotonic() - began
