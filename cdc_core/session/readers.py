"""What each client is read as: rows, or Canal's entries. Kept with the cursors, because entries also show statements
without rows: these must wait for a reader of entries that is down, and for nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import structlog

from cdc_core.meta.cursors import Cursors

log = structlog.get_logger(__name__)
_NAMES = {False: "rows, over Flight", True: "entries, by a client of Canal's protocol or a message queue"}


class Readers:
    """`writing` surrounds each write of a node."""

    def __init__(self, cursors: Cursors, writing: Callable[[], AbstractContextManager[None]]) -> None:
        self._cursors, self._writing = cursors, writing
        self._entries: dict[int, bool] = {}
        self._seen: set[int] = set()  # clients that were read since the service's start

    def load(self, client_id: int) -> None:
        self._entries[client_id] = self._cursors.reads_entries(client_id)

    def of_entries(self, client_id: int) -> bool:
        return self._entries.get(client_id, False)

    def note(self, client_id: int, *, entries: bool) -> None:
        """Somebody reads the client: kept when this returns. Two readers of different kinds are logged, since
        each of them misses what the other one acks."""
        if entries != self.of_entries(client_id):
            if client_id in self._seen:
                place = f"{self._cursors.destination}, client {client_id}"
                then, now = _NAMES[not entries], _NAMES[entries]
                why = "each misses what the other acks; give each its own client id (sluice.clients, client_id)"
                log.warning("a client has two readers", place=place, before=then, now=now, remedy=why)
            with self._writing():
                self._cursors.set_reads_entries(client_id, reads=entries)
                self._entries[client_id] = entries
        self._seen.add(client_id)
