"""The candidacy of this server for one destination: it competes for the seat, and knows who holds it.

Each term has its own nodes, whose writes are fenced: what is left of an earlier term can write nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc_core.errors import CursorError, SluiceError
from cdc_core.ha.election import Term
from cdc_core.ha.fenced import FencedNodes
from cdc_core.ha.monitor import Crowd, Monitor, Office
from cdc_core.ha.running import Running, destination_path
from cdc_core.ha.seat import Seat
from cdc_core.meta.nodes import Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes


@dataclass(frozen=True, slots=True)
class Holder:
    """Who runs a destination. `address` is `ip:port`, empty while nobody does; `http` is that server's HTTP door, empty
    where not known. `here`: the address is our own. `error`: why the holder is not known."""

    address: str = ""
    http: str = ""
    here: bool = False
    error: SluiceError | None = None


class Candidacy:
    """From `start` to `stop`. `http_of` gives the HTTP door of the server at an address."""

    def __init__(
        self,
        nodes: ZookeeperNodes,
        destination: str,
        address: str,
        office: Office,
        crowd: Crowd,
        http_of: Callable[[str], str],
        session_seconds: float,
    ) -> None:
        path, counter = destination_path(destination, "running"), destination_path(destination, "sluice_leader")
        seat = Seat(nodes, path, Running(address), counter)
        self._nodes, self._address, self._http_of = nodes, address, http_of
        self._monitor = Monitor(nodes, seat, destination, address, office, crowd, session_seconds)

    def __repr__(self) -> str:
        return f"<Candidacy {self._monitor!r}>"

    def start(self) -> None:
        """Returns at once."""
        self._monitor.start()

    def stop(self) -> None:
        """Returns when the seat has been given back."""
        self._monitor.stop()

    def nodes(self, term: Term) -> Nodes:
        return FencedNodes(self._nodes, term, self._monitor.fenced)

    def holder(self) -> Holder:
        error = _zookeeper_away() if self._monitor.cut_off else self._monitor.trouble
        running = self._monitor.holder
        if running is None:
            return Holder(error=error)
        return Holder(running.address, self._http_of(running.address), running.address == self._address, error)


def _zookeeper_away() -> SluiceError:
    return CursorError(
        "ZooKeeper does not answer, so it is not known which server runs the destination",
        place="canal.zkServers",
        hint="Start ZooKeeper, or correct canal.zkServers. Then try again.",
    )
