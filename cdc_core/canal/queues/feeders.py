"""The queues of all destinations of a service: one feeder for each, as long as the destination is there."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import structlog

from cdc_core.canal.queues.feeder import Feeder
from cdc_core.destination.runner import Destination
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import SluiceError
from cdc_core.server.server import CanalServer

log = structlog.get_logger(__name__)
_LOOK_SECONDS = 1.0


class Feeders:
    def __init__(self, server: CanalServer, traffic: Traffic) -> None:
        self._server, self._traffic = server, traffic
        self._feeders: dict[str, tuple[Destination, Feeder]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queues", daemon=True)

    def __repr__(self) -> str:
        return f"<Feeders {', '.join(self._feeders)}>"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._stop(list(self._feeders))

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._look()
            self._stopped.wait(_LOOK_SECONDS)

    def _look(self) -> None:
        """Starts feeders of new destinations, stops those of removed ones."""
        names = self._server.destinations()
        self._stop([name for name in self._feeders if name not in names])
        for name in names:
            try:
                destination = self._server.destination(name)
            except SluiceError:  # removed meanwhile
                continue
            known = self._feeders.get(name)
            if known is not None and known[0] is not destination:
                self._stop([name])
            if name not in self._feeders:
                feeder = Feeder(destination, self._traffic)
                self._feeders[name] = destination, feeder
                feeder.start()
                log.info("feeding a message queue", destination=name)

    def _stop(self, names: list[str]) -> None:
        if names:
            with ThreadPoolExecutor(len(names)) as pool:
                list(pool.map(lambda name: self._feeders.pop(name)[1].stop(), names))
