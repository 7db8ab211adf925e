"""The filters that clients bring along, kept with their cursors: a client gets the tables that both its own and the
destination's filter let through. Unlike in Canal, one client's filter changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from cdc_core.meta.cursors import Cursors


class ClientFilters:
    """`writing` surrounds each write of a node."""

    def __init__(self, cursors: Cursors, writing: Callable[[], AbstractContextManager[None]]) -> None:
        self._cursors, self._writing = cursors, writing
        self._of: dict[int, str] = {}

    def load(self, client_id: int) -> None:
        self._of[client_id] = self._cursors.own_filter(client_id)

    def of(self, client_id: int) -> str:
        """The client's own filter; empty without one."""
        return self._of.get(client_id, "")

    def set(self, client_id: int, text: str) -> None:
        """Kept when this returns; it counts from the next claim on."""
        with self._writing():
            if text != self.of(client_id):
                self._cursors.set_filter(client_id, text)
                self._of[client_id] = text
