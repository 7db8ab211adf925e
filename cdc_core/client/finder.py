"""Which server runs a destination, as ZooKeeper says: Canal's `running` node, then the doors of that address."""

from __future__ import annotations

import threading

from cdc_core.client.failures import unavailable
from cdc_core.errors import RunsElsewhere
from cdc_core.ha.doors import Doors
from cdc_core.ha.running import DOORS, Running, destination_path
from cdc_core.meta.zookeeper import ZookeeperNodes


class Finder:
    """`hosts` is `host:port,host:port/chroot`. Connects with the first question; closed with `close`."""

    def __init__(self, hosts: str, destination: str, auth: str = "") -> None:
        self.hosts = hosts
        self._destination = destination
        self._auth = auth
        self._nodes: ZookeeperNodes | None = None
        self._lock = threading.Lock()

    def find(self) -> Doors:
        """Raises ServiceUnavailable when nobody runs it, RunsElsewhere when a server without doors of ours does,
        CursorError when ZooKeeper is away: each worth another look."""
        nodes = self._connected()
        running = nodes.read(destination_path(self._destination, "running"))
        if running is None:
            raise unavailable(self.hosts, f"nobody runs {self._destination}")
        address = Running.from_json(running.value).address
        doors = nodes.read(f"{DOORS}/{address}")
        try:
            return Doors.from_json(doors.value if doors else b"")
        except ValueError as error:
            raise RunsElsewhere(
                f"{self._destination} is run by a server that tells of no HTTP door",
                place=address,
                hint="A Java Canal server? Its clients are Canal's; have it hand over to a Sluice server.",
            ) from error

    def close(self) -> None:
        with self._lock:
            if self._nodes is not None:
                self._nodes.close()
                self._nodes = None

    def _connected(self) -> ZookeeperNodes:
        with self._lock:
            if self._nodes is None:
                self._nodes = ZookeeperNodes(self.hosts, self._auth, connect_seconds=5.0)
            return self._nodes
