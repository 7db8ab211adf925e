"""Finds the server that runs a destination in ZooKeeper: Canal's `running` node, then that server's doors."""

from __future__ import annotations

import threading

from cdc_core.client.failures import unavailable
from cdc_core.client.trust import Trust
from cdc_core.contract.doors import Doors
from cdc_core.errors import RunsElsewhere
from cdc_core.ha.running import DOORS, Running, destination_path
from cdc_core.meta.zookeeper import ZookeeperNodes


class Finder:
    """`hosts` is `host:port,host:port/chroot`. The first `find` connects; `close` disconnects. With `trust` it names
    only servers that may have a token."""

    def __init__(self, hosts: str, destination: str, auth: str = "", trust: Trust | None = None) -> None:
        self.hosts = hosts
        self._destination = destination
        self._auth, self._trust = auth, trust
        self._nodes: ZookeeperNodes | None = None
        self._lock = threading.Lock()

    def find(self) -> Doors:
        """The active server's doors. Raises ServiceUnavailable when no server runs the destination, RunsElsewhere when
        a server without our doors does, CursorError when ZooKeeper is down: each may pass. Raises AccessDenied for a
        server that may not have the token."""
        nodes = self._connected()
        running = nodes.read(destination_path(self._destination, "running"))
        if running is None:
            raise unavailable(self.hosts, f"no server runs {self._destination}")
        address = Running.from_json(running.value).address
        doors = nodes.read(f"{DOORS}/{address}")
        try:
            found = Doors.from_json(doors.value if doors else b"")
        except ValueError as error:
            raise RunsElsewhere(
                f"{self._destination} runs on a server without an HTTP door",
                place=address,
                hint="If that is a Java Canal server, use Canal's client, or let a Sluice server take over.",
            ) from error
        self._check(nodes, address, found)
        return found

    def servers(self) -> list[Doors]:
        """The doors of all servers that are alive. Raises ServiceUnavailable when there is none, CursorError when
        ZooKeeper is down, AccessDenied for one that may not have the token."""
        nodes = self._connected()
        values = {address: nodes.read(f"{DOORS}/{address}") for address in sorted(nodes.children(DOORS))}
        found = {address: Doors.from_json(one.value) for address, one in values.items() if one is not None}
        if not found:
            raise unavailable(self.hosts, "no server is alive")
        for address, doors in found.items():
            self._check(nodes, address, doors)
        return list(found.values())

    def _check(self, nodes: ZookeeperNodes, address: str, doors: Doors) -> None:
        """The folder counts too: who may make nodes in it can name any server."""
        if self._trust is not None:
            path = f"{DOORS}/{address}"
            self._trust.check(doors, nodes.place(path), lambda: nodes.is_ours(DOORS) and nodes.is_ours(path))

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
