"""One destination's source: an Instance at one address, and another Instance where reading has to go on elsewhere.

An instance is bound to one server, whose journals order all that it holds. When the heartbeat says that the server is
gone, or another one answers at its address, a new one begins from the cursors, as after a restart; claims end with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from cdc_core.addresses import address_of, other_of, role_of, source_settings
from cdc_core.config.models import InstanceConfig
from cdc_core.errors import CursorError
from cdc_core.instance import PAUSES, Instance
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import Nodes
from cdc_core.refused import Refused
from cdc_core.source.detecting import Detected, Rule
from cdc_core.source.heartbeat import Heartbeat
from cdc_core.source.settings import SourceSettings

_LOOK_SECONDS = 1.0  # between two looks at cursors that cannot be read
_LEAVE_SECONDS = 1.0  # for the threads of an instance whose server may hang; what is left of them can write nothing

log = structlog.get_logger(__name__)


class Switched:
    """`current` changes under the lock: by the heartbeat's thread, by the dump thread that met another server, by the
    thread that waits for cursors. `clock` is in epoch seconds."""

    def __init__(
        self,
        config: InstanceConfig,
        nodes: Nodes,
        clock: Callable[[], float] = time.time,
        pauses: tuple[float, float] = PAUSES,
    ) -> None:
        self.config = config
        self._nodes, self._clock, self._pauses = nodes, clock, pauses
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._address = config.sources[0]
        self._detected = Detected(role_of(config, self._address))
        self._heartbeat = self._made_heartbeat() if config.detecting else None
        self.current: Instance | Refused = self._made()

    def __repr__(self) -> str:
        return f"<Switched {self.current!r}>"

    def start(self) -> None:
        """Returns at once."""
        with self._lock:
            self._look()
        if self._heartbeat is not None:
            self._heartbeat.start()

    def stop(self) -> None:
        self._stop.set()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        with self._lock:
            last = self.current
        last.stop()  # whose dump thread may wait for the lock

    def _look(self) -> None:
        """Begins at the server that the cursors belong to. Cursors that cannot be read are looked at again: the wrong
        server would be told to be another source."""
        try:
            address = self._address_of_cursors()
        except CursorError as error:
            log.error("destination failed", destination=self.config.destination, **error.as_dict())
            self.current = Refused(self.config.destination, error, self._clock)
            again = threading.Timer(_LOOK_SECONDS, self._look_again)
            again.daemon = True
            again.start()
            return
        if address != self._address or isinstance(self.current, Refused):
            self._set(address)
            self.current = self._made()
        self.current.start()

    def _address_of_cursors(self) -> str:
        if len(self.config.sources) == 1:
            return self._address
        cursors = Cursors(self._nodes, self.config.destination)
        return address_of(self.config, [cursors.read(client) for client in cursors.clients()])

    def _look_again(self) -> None:
        with self._lock:
            if not self._stop.is_set():
                self._look()

    def _switch(self, failed: str, why: str) -> None:
        """To the other server, unless this is done already."""
        with self._lock:
            to = other_of(self.config, failed)
            if self._stop.is_set() or failed != self._address or not to or isinstance(self.current, Refused):
                return
            line = {"from": failed, "to": to, "why": why, "at": self._clock()}
            log.error("switching to the other server", destination=self.config.destination, **line)
            self._set(to, line)
            self._begin()

    def _changed(self, met: Instance) -> None:
        """Another server answers at the address."""
        with self._lock:
            if not self._stop.is_set() and met is self.current:
                log.error("another server answers", destination=self.config.destination, source=self._address)
                self._begin()

    def _set(self, address: str, line: dict[str, object] | None = None) -> None:
        before, self._address = self._detected, address
        role, switches = role_of(self.config, address), before.switches + bool(line)
        self._detected = Detected(role, None, switches, line or before.switched)

    def _begin(self) -> None:
        before, self.current = self.current, self._made()
        if isinstance(before, Instance):
            before.stop(_LEAVE_SECONDS)
        self.current.start()

    def _made(self) -> Instance:
        return Instance(
            self.config,
            self._nodes,
            self._clock,
            self._pauses,
            address=self._address,
            on_lost=self._heartbeat.hurry if self._heartbeat else None,
            on_changed=self._changed,
            detected=self._now,
        )

    def _made_heartbeat(self) -> Heartbeat:
        config = self.config
        rule = Rule(config.detecting_sql, config.detecting_seconds, config.detecting_threshold, config.heartbeat_ha)
        return Heartbeat(config.destination, rule, self._servers, self._switch)

    def _servers(self) -> tuple[SourceSettings, SourceSettings | None]:
        address = self._address
        other = other_of(self.config, address)
        return source_settings(self.config, address), source_settings(self.config, other) if other else None

    def _now(self) -> Detected:
        known = self._detected
        failures = self._heartbeat.failures if self._heartbeat else None
        return Detected(known.role, failures, known.switches, known.switched)
