"""The periodic work of a capture: gives back claims whose lease ran out, moves cursors over ranges without rows,
and looks how old the server's binlog files are.

A cursor that stands before nothing but ranges without rows may stay there: whoever starts at it reads the same. So it
moves only every `_EMPTY_ROUNDS` rounds, since each move is written; at once after a pause, after `Store.hurry`, where
rows come after the range, and where the ring needs the room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from cdc_core.destination.health import Health
from cdc_core.destination.tsdb import Tsdb
from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from cdc_core.session.durable_session import DurableSession
from cdc_core.source.expiry import PERIOD, Expiry
from cdc_core.store.store import Store

_EMPTY_ROUNDS = 30
_FULL_PAUSE = 1.0  # seconds between two looks at a ring that stays full

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Tidier:
    """`seconds` between two rounds, unless the ring is full before. `connected`: whether the source is.
    `needed`: from where on clients with these cursors need the source's binlogs."""

    destination: str
    store: Store
    sessions: DurableSession
    health: Health
    expiry: Expiry
    tsdb: Tsdb | None
    connected: Callable[[], bool]
    seconds: float
    needed: Callable[[Mapping[int, EntryPosition]], Mapping[int, EntryPosition]] = lambda cursors: cursors
    _empty_at: float = field(default=0.0)  # by the store's clock: when ranges without rows are due

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set and the store is closed."""
        well = True
        while not stop.is_set():
            due = True
            if well and self.expiry.report:  # else what failed, or was not asked yet, is tried soon
                due = self.store.wait_unacked(PERIOD, self._empty_at)
            full = self.store.wait_full(self.seconds)
            well = self._tidy(empty=due or full)
            if self.connected():
                self.expiry.look(self.needed(self.sessions.session.cursors()))
                self._tidy_definitions()
            if full:
                stop.wait(_FULL_PAUSE)

    def _tidy_definitions(self) -> None:
        """A failure is reported, and retried in the next round."""
        cursors = self.sessions.session.cursors()
        if self.tsdb is None or not cursors:
            return
        try:
            self.tsdb.tidy(min(cursors.values()))
        except SluiceError as error:
            log.warning("the schema history was not tidied", destination=self.destination, **error.as_dict())

    def _tidy(self, *, empty: bool) -> bool:
        """Whether it went well. With `empty` cursors move over ranges without rows."""
        try:
            for client_id, batches in self.sessions.expire().items():
                log.warning("lease ran out", destination=self.destination, client=client_id, batches=batches)
            if empty and self.sessions.ack_empty():
                self._empty_at = self.store.clock() + _EMPTY_ROUNDS * self.seconds
            for client_id, seconds in self.sessions.subscriptions.drop_idle().items():
                log.warning(
                    "client dropped: it held the full store back",
                    destination=self.destination,
                    client=client_id,
                    seconds=round(seconds),
                    hint="Its cursor is kept. List it in sluice.clients if others are to wait for it.",
                )
        except Exception as error:
            self.health.note_cursors(error)
            return False
        self.health.note_cursors(None)
        return True
