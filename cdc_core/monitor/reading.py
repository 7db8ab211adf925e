"""Reads the nodes of one cluster from ZooKeeper: all of a level at once, so that a look takes a few round trips."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from cdc_core.errors import CursorError
from cdc_core.ha.running import CLUSTER, DOORS, destination_path
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.monitor.views import CLIENT_NODES, DESTINATIONS, ClusterView, cluster_of, is_client

_SECONDS = 5.0  # for one answer
_ROOT = "/otter/canal"


class ClusterReader:
    """`hosts` is `host:port,host:port/chroot`, and the cluster's name. One thread at a time calls `look`; the first one
    connects."""

    def __init__(self, hosts: str, auth: str = "", connect_seconds: float = 5.0) -> None:
        self.name = hosts
        self._auth, self._connect_seconds = auth, connect_seconds
        self._nodes: ZookeeperNodes | None = None

    def __repr__(self) -> str:
        return f"<ClusterReader {self.name}>"

    def look(self) -> ClusterView:
        """Returns what is there now; that it is down, where ZooKeeper does not answer."""
        try:
            if self._nodes is None:
                self._nodes = ZookeeperNodes(self.name, self._auth, connect_seconds=self._connect_seconds)
            return _Reading(self._nodes).cluster(self.name)
        except CursorError as error:
            return ClusterView(self.name, away=error.message)

    def close(self) -> None:
        if self._nodes is not None:
            self._nodes.close()


class _Reading:
    """One look. What the account may not read is left out, and noted."""

    def __init__(self, nodes: ZookeeperNodes) -> None:
        self._client, self._away = nodes.client, nodes.away
        self._found: dict[str, bytes] = {}
        self._made: dict[str, int] = {}
        self._refused: list[str] = []

    def cluster(self, name: str) -> ClusterView:
        self._check_connected()
        self._values([_ROOT])
        children = self._children([CLUSTER, DOORS, DESTINATIONS])
        self._found |= {f"{CLUSTER}/{one}": b"" for one in children[CLUSTER]}
        self._values(f"{DOORS}/{one}" for one in children[DOORS])
        self._destinations(children[DESTINATIONS])
        return cluster_of(name, self._found, tuple(self._refused), self._made)

    def _destinations(self, names: list[str]) -> None:
        roots = [destination_path(one) for one in names]
        self._found |= dict.fromkeys(roots, b"")
        inside = self._children([*roots, *(f"{root}/cluster" for root in roots)])
        wanted = [f"{root}/running" for root in roots if "running" in inside[root]]
        for root in roots:
            self._found |= {f"{root}/cluster/{one}": b"" for one in inside[f"{root}/cluster"]}
            clients = [f"{root}/{one}" for one in inside[root] if is_client(one)]
            self._found |= dict.fromkeys(clients, b"")
            wanted += [f"{client}/{node}" for client in clients for node in CLIENT_NODES]
        self._values(wanted)

    def _children(self, paths: list[str]) -> dict[str, list[str]]:
        started = [(path, self._client.get_children_async(path)) for path in paths]
        return {path: list(self._answer(path, result) or ()) for path, result in started}

    def _values(self, paths: Iterable[str]) -> None:
        started = [(path, self._client.get_async(path)) for path in paths]
        for path, result in started:
            if (answer := self._answer(path, result)) is not None:
                self._found[path], self._made[path] = answer[0], answer[1].czxid

    def _answer(self, path: str, result: Any) -> Any:
        """The answer; None for a node that is not there, or that may not be read. Raises CursorError."""
        try:
            return result.get(timeout=_SECONDS)
        except NoNodeError:
            return None
        except NoAuthError:
            self._refused.append(path)
            return None
        except (KazooException, KazooTimeoutError) as error:
            raise self._away(path, error) from error

    def _check_connected(self) -> None:
        if not self._client.connected:  # kazoo would queue the calls
            raise self._away("", "not connected")
