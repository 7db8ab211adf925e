"""Canal's `ClientRunningMonitor`: of several consumers with one client id, one works; another takes over when it ends.

    with ConsumerSeat(zk_servers, "shop") as seat:
        while seat.wait(60):
            connector.rollback(owner=seat.address, reason="begins again")  # at first, and after every error
            with connector.claim(1000, owner=seat.address, timeout_seconds=5) as claim: ...

It keeps two consumers apart as a rule, not by force: a late ack is harmless because the claim is no longer its own.
"""

from __future__ import annotations

import os
import threading
from typing import Self

from cdc_core.contract.host import this_host
from cdc_core.ha.election import Term
from cdc_core.ha.monitor import Monitor
from cdc_core.ha.running import Running, destination_path
from cdc_core.ha.seat import Seat
from cdc_core.meta.zookeeper import ZookeeperNodes


class ConsumerSeat:
    """Competes for `/otter/canal/destinations/{d}/{client}/running` between `start` and `stop`. `address` identifies
    the consumer, `ip:number` as Canal's; by default this host's address and the process id."""

    def __init__(
        self,
        zk_servers: str,
        destination: str,
        *,
        client_id: int = 1001,
        address: str = "",
        zk_auth: str = "",
        session_seconds: float = 10.0,
    ) -> None:
        self.address = address or f"{this_host()}:{os.getpid()}"
        self._nodes = ZookeeperNodes(zk_servers, zk_auth, session_seconds)
        path = destination_path(destination, str(client_id), "running")
        seat = Seat(self._nodes, path, Running(self.address, client_id=client_id))
        name = f"{destination}/{client_id}"
        self._monitor = Monitor(self._nodes, seat, name, self.address, self, _Peers(), session_seconds)
        self._active = threading.Event()

    def __repr__(self) -> str:
        return f"<ConsumerSeat {self.address} {'active' if self.active else 'waiting'}>"

    @property
    def active(self) -> bool:
        return self._active.is_set()

    @property
    def holder(self) -> str | None:
        """The address of the consumer that works, where known."""
        holder = self._monitor.holder
        return None if holder is None else holder.address

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for our turn. False when it does not come in time."""
        return self._active.wait(seconds)

    def start(self) -> None:
        self._monitor.start()

    def stop(self) -> None:
        """Frees the seat for another consumer."""
        self._monitor.stop()
        self._nodes.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- called by the monitor

    def enter(self, term: Term) -> None:  # noqa: ARG002 - nothing of a consumer's is fenced
        self._active.set()

    def leave(self) -> None:
        self._active.clear()


class _Peers:
    """Other consumers: nothing shows whether one is alive, so Canal's five seconds apply to all."""

    def lives(self, address: str) -> bool:  # noqa: ARG002
        return True

    def handicap(self, name: str) -> float:  # noqa: ARG002
        return 0.0
