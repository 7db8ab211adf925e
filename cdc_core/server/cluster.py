"""The servers on one ZooKeeper, as one of them sees them: which are alive, where their doors are, what they run."""

from __future__ import annotations

from collections.abc import Callable

from cdc_core.config.models import ServiceConfig
from cdc_core.contract.doors import Doors, doors_of, reached_at
from cdc_core.errors import CursorError
from cdc_core.ha.candidacy import Candidacy
from cdc_core.ha.monitor import Office
from cdc_core.ha.presence import Presence
from cdc_core.ha.running import CLUSTER, DOORS, destination_path
from cdc_core.ha.share import turn
from cdc_core.meta.zookeeper import ZookeeperNodes


class Cluster:
    """`destinations` gives the names of this server's destinations, sorted. It is the `Peers` of these destinations and
    the `Crowd` of their monitors."""

    def __init__(self, nodes: ZookeeperNodes, config: ServiceConfig, destinations: Callable[[], list[str]]) -> None:
        self.address = f"{reached_at(config)}:{config.port}"
        self._nodes = nodes
        self._session_seconds = config.zk_session_seconds
        self._doors = doors_of(config)
        self._presence = Presence(nodes, config.zk_session_seconds)
        self._destinations = destinations

    def __repr__(self) -> str:
        return f"<Cluster of {self.address}>"

    def start(self) -> None:
        self._presence.want(f"{CLUSTER}/{self.address}")
        self._presence.want(f"{DOORS}/{self.address}", self._doors.to_json())
        self._presence.start()

    def withdraw(self) -> None:
        """To be called before the seats are given back, so that no server waits for this one to take them again."""
        self._presence.stop()

    # -- what a destination asks of its peers

    def enlist(self, destination: str) -> None:
        """Says that this server could run it."""
        self._presence.want(destination_path(destination, "cluster", self.address))

    def delist(self, destination: str) -> None:
        self._presence.unwant(destination_path(destination, "cluster", self.address))

    def candidacy(self, destination: str, office: Office) -> Candidacy:
        return Candidacy(self._nodes, destination, self.address, office, self, self.http_of, self._session_seconds)

    def http_of(self, address: str) -> str:
        """The HTTP door of a server; empty for a Java Canal server, and while ZooKeeper is down."""
        try:
            node = self._nodes.read(f"{DOORS}/{address}")
            return Doors.from_json(node.value).http if node else ""
        except (CursorError, ValueError):
            return ""

    # -- what its monitors ask

    def lives(self, address: str) -> bool:
        return address in self._nodes.children(CLUSTER)

    def handicap(self, name: str) -> float:
        return turn(name, self._destinations(), self.address, self._nodes.children(CLUSTER))
