"""Canal's `ServerRunningMonitor` as a thread: events come in by a queue, `election` decides, the monitor does it.

kazoo's threads      put events: the states of the connection, and the watch
any thread           puts Fenced, when a write of a term was refused
the monitor thread   looks, tries, enters and leaves, one after the other
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog
from kazoo.client import KazooState

from cdc_core.errors import CursorError
from cdc_core.ha import election as e
from cdc_core.ha.running import Running
from cdc_core.ha.seat import Seat
from cdc_core.meta.zookeeper import ZookeeperNodes

_JOIN_SECONDS = 20.0

log = structlog.get_logger(__name__)


class Office(Protocol):
    """What begins and ends with a seat. Only the monitor's thread calls it."""

    def enter(self, term: e.Term) -> None: ...

    def leave(self) -> None: ...


class Crowd(Protocol):
    """What a monitor asks of the others."""

    def lives(self, address: str) -> bool: ...

    def handicap(self, name: str) -> float:
        """The seconds for which other servers go first."""


class Monitor:
    """Competes for `seat` from `start` to `stop`. Only the monitor's thread changes `_state`. `trouble` is why the last
    call to ZooKeeper failed."""

    def __init__(
        self,
        nodes: ZookeeperNodes,
        seat: Seat,
        name: str,
        address: str,
        office: Office,
        crowd: Crowd,
        session_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = nodes.client
        self._seat = seat
        self._name = name
        self._office = office
        self._crowd = crowd
        self._clock = clock
        self._state = e.ElectionState(address, session_seconds)
        self._events: queue.SimpleQueue[e.Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.trouble: CursorError | None = None

    def __repr__(self) -> str:
        return f"<Monitor {self._name} {'active' if self._state.term else 'standby'}>"

    @property
    def holder(self) -> Running | None:
        """Who holds the seat, as last seen; None while it is free."""
        state = self._state
        return None if state.due is not None and state.term is None else state.last

    @property
    def cut_off(self) -> bool:
        """No connection to ZooKeeper."""
        return self._state.cut_off_since is not None

    def start(self) -> None:
        self._events.put(e.Suspended())
        self._client.add_listener(self._on_state)
        if self._client.connected:
            self._events.put(e.Connected())
        self._thread = threading.Thread(target=self._run, name=f"monitor {self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leaves, and gives the seat back."""
        self._client.remove_listener(self._on_state)
        self._events.put(None)
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def fenced(self) -> None:
        self._events.put(e.Fenced())

    def _on_state(self, state: str) -> None:
        known: dict[str, e.Event] = {
            KazooState.CONNECTED: e.Connected(),
            KazooState.SUSPENDED: e.Suspended(),
            KazooState.LOST: e.Lost(),
        }
        self._events.put(known[state])

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                self._take_in(event)
            except Exception:  # a bug; the seat must not be kept by a thread that is gone
                log.exception("an event of the election could not be handled", name=self._name)
                self._events.put(e.Failed())
        if self._state.term is not None:
            self._leave("stopping")
        self._remove()

    def _next(self) -> e.Event | None:
        """The next event, or a Tick when its time comes first."""
        wake_at = self._state.wake_at
        try:
            return self._events.get(timeout=None if wake_at is None else max(0.0, wake_at - self._clock()))
        except queue.Empty:
            return e.Tick()

    def _take_in(self, event: e.Event) -> None:
        self._state, actions = e.step(self._state, event, self._clock())
        for action in actions:
            answer = self._do(action)
            if answer is not None:
                self._take_in(answer)

    def _do(self, action: e.Action) -> e.Event | None:
        try:
            match action:
                case e.Look():
                    return self._look()
                case e.Try():
                    term = self._seat.take()
                    self.trouble = None
                    return e.Beaten() if term is None else e.Won(term)
                case e.Remove():
                    self._seat.give_back()
                case e.Enter(term):
                    log.info("active", name=self._name, address=self._state.address)
                    self._office.enter(term)
                case e.Leave(why):
                    self._leave(why)
        except CursorError as error:
            if self.trouble is None or self.trouble.as_dict() != error.as_dict():
                log.warning("this server cannot compete", name=self._name, **error.as_dict())
            self.trouble = error
            return e.Failed()
        return None

    def _look(self) -> e.Event:
        found = self._seat.look(lambda: self._events.put(e.Changed()))
        if found is not None:
            self.trouble = None
        if found is None:
            last = self._state.last
            lives = last is not None and self._crowd.lives(last.address)
            return e.Seen(None, lives=lives, handicap=self._crowd.handicap(self._name))
        return e.Seen(found.running, found.ours)

    def _leave(self, why: str) -> None:
        log.warning("not active any more", name=self._name, why=why)
        self._office.leave()

    def _remove(self) -> None:
        try:
            self._seat.give_back()
        except CursorError as error:
            log.warning(
                "the running node stays until the session ends",
                name=self._name,
                **error.as_dict(),
            )
