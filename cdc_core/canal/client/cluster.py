"""Canal's cluster connector: finds the server that runs the destination in ZooKeeper, and follows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog

from cdc_core.canal.client.connector import CanalConnector
from cdc_core.canal.client.events import Message
from cdc_core.canal.client.link import Link
from cdc_core.client.failures import unavailable
from cdc_core.errors import CursorError, RunsNowhere, ServiceUnavailable, SessionError, SluiceError
from cdc_core.ha.running import Running, destination_path
from cdc_core.meta.zookeeper import ZookeeperNodes

log = structlog.get_logger(__name__)


class ClusterCanalConnector(CanalConnector):
    """`zk_servers` is `host:port,host:port/chroot`. A call whose connection breaks, or that a server refuses because it
    no longer runs the destination, connects again for up to `follow_seconds`; what was outstanding comes again.

    Only `get_without_ack` and `get` are tried again: an ack that failed is void by then, since its batch was given
    back."""

    def __init__(
        self,
        zk_servers: str,
        destination: str,
        *,
        zk_auth: str = "",
        follow_seconds: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
        **options: Any,
    ) -> None:
        super().__init__("", 0, destination, **options)
        self._hosts, self._auth = zk_servers, zk_auth
        self._follow, self._sleep = follow_seconds, sleep
        self._nodes: ZookeeperNodes | None = None

    def __repr__(self) -> str:
        return f"<ClusterCanalConnector {self._hosts} {self.destination}/{self.client_id}>"

    def _open(self) -> Link:
        """Connects to the server that ZooKeeper names."""
        if self._nodes is None:
            self._nodes = ZookeeperNodes(self._hosts, self._auth, 10.0)
        node = self._nodes.read(destination_path(self.destination, "running"))
        if node is None:
            raise unavailable(self._hosts, f"no server runs {self.destination}")
        host, _, port = Running.from_json(node.value).address.rpartition(":")
        return Link(host, int(port), self._timeout, self._tls)

    def connect(self) -> None:
        """Tries for up to `follow_seconds`: at another server, or when there is one."""
        deadline = time.monotonic() + self._follow
        pause = 0.2
        while True:
            try:
                super().connect()
                return
            except (ServiceUnavailable, SessionError, CursorError, RunsNowhere) as error:
                if time.monotonic() > deadline or _is_final(error):
                    raise
                log.info("looking for the server of the destination", destination=self.destination, why=str(error))
            self._sleep(pause)
            pause = min(2 * pause, 3.0)

    def get_without_ack(self, batch_size: int = 1000, timeout_seconds: float | None = None) -> Message:
        try:
            return super().get_without_ack(batch_size, timeout_seconds)
        except (ServiceUnavailable, SessionError) as error:
            log.info("reconnecting", destination=self.destination, why=str(error))
            self.connect()
            return super().get_without_ack(batch_size, timeout_seconds)

    def close(self) -> None:
        """Ends the connections, also that to ZooKeeper."""
        self.disconnect()
        if self._nodes is not None:
            self._nodes.close()
            self._nodes = None

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_final(error: SluiceError) -> bool:
    """A password does not get right by waiting."""
    return "auth failed" in error.message
