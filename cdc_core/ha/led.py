"""One destination of a server that shares ZooKeeper with others: a Switched while it is active here, else a Standby.

Each term has an instance of its own, whose cursors are fenced with that term, so what is left of an earlier one
can do nothing. An instance starts from the cursor, as after a restart; claims end with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from cdc_core.config.models import InstanceConfig
from cdc_core.ha.election import Term
from cdc_core.ha.fenced import FencedNodes
from cdc_core.ha.monitor import Crowd, Monitor
from cdc_core.ha.running import Running, destination_path
from cdc_core.ha.seat import Seat
from cdc_core.ha.standby import Standby
from cdc_core.meta.nodes import Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.switched import Switched

T = TypeVar("T")


class Led:
    """`make` gives an instance over the nodes of its term; `http_of` the HTTP address of a server, where known.
    The mutable state is `current`, changed by the monitor's thread and by `between`, under the lock."""

    def __init__(
        self,
        config: InstanceConfig,
        nodes: ZookeeperNodes,
        address: str,
        crowd: Crowd,
        make: Callable[[Nodes], Switched],
        http_of: Callable[[str], str],
        session_seconds: float,
    ) -> None:
        self.config = config
        name = config.destination
        seat = Seat(nodes, destination_path(name, "running"), Running(address), destination_path(name, "sluice_leader"))
        self._nodes = nodes
        self._address = address
        self._make = make
        self._http_of = http_of
        self._monitor = Monitor(nodes, seat, name, address, self, crowd, session_seconds)
        self._standby = self._stand_by(config)
        self._lock = threading.Lock()
        self._term_nodes: Nodes = nodes
        self.current: Switched | Standby = self._standby

    def __repr__(self) -> str:
        return f"<Led {self.current!r}>"

    def start(self) -> None:
        """Returns at once."""
        self._monitor.start()

    def stop(self) -> None:
        self._monitor.stop()

    def enter(self, term: Term) -> None:
        with self._lock:
            self._begin(FencedNodes(self._nodes, term, self._monitor.fenced))

    def leave(self) -> None:
        with self._lock:
            before, self.current = self.current, self._standby
        if isinstance(before, Switched):
            before.stop()

    def between(self, work: Callable[[Nodes], T]) -> T:
        """Does `work` over the nodes of this term with the instance stopped, then begins another one. Raises what a
        standby says when this server does not run the destination."""
        with self._lock:
            if not isinstance(self.current, Switched):
                raise self._standby.refusal()
            nodes = self._term_nodes
            self.current.stop()
            try:
                return work(nodes)
            finally:
                self._begin(nodes)

    def change(self, config: InstanceConfig, make: Callable[[Nodes], Switched]) -> None:
        """Goes on with another configuration, in the same term where it is active."""
        with self._lock:
            self.config, self._make, self._standby = config, make, self._stand_by(config)
            if isinstance(self.current, Switched):
                self.current.stop()
                self._begin(self._term_nodes)
            else:
                self.current = self._standby

    def _stand_by(self, config: InstanceConfig) -> Standby:
        monitor = self._monitor
        return Standby(config, self._address, self._active, lambda: monitor.cut_off, lambda: monitor.trouble)

    def _begin(self, nodes: Nodes) -> None:
        self._term_nodes = nodes
        self.current = self._make(nodes)
        self.current.start()

    def _active(self) -> tuple[str, str]:
        holder = self._monitor.holder
        return (holder.address, self._http_of(holder.address)) if holder else ("", "")
