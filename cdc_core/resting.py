"""A destination that does not read its source: stopped by hand, or lazy and not asked for yet.

It stands in for an instance. A lazy one is woken by the first call of a client, which waits until it has connected;
looking at its state wakes nothing. One stopped by hand refuses every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from cdc_core.config.models import InstanceConfig
from cdc_core.errors import SessionError
from cdc_core.refused import blank_status
from cdc_core.schema.registry import SchemaRegistry

BY_HAND = "stopped by hand"
LAZY = "lazy: reads when a client first asks"
_ASKED = {"claim", "ack", "renew", "rollback", "slices", "note_read", "stop_table", "resume_table", "client", "tables"}
_CONNECT_SECONDS = 10.0
_LOOK_SECONDS = 0.05


class _Woken(Protocol):
    """What takes its place."""

    @property
    def config(self) -> InstanceConfig: ...

    def status(self) -> dict[str, Any]: ...


class Resting:
    """`wake` puts the real instance in its place and returns what stands there; None: only a start by hand does."""

    def __init__(self, config: InstanceConfig, destination: str, wake: Callable[[], _Woken] | None = None) -> None:
        self.config = config
        self.registry = SchemaRegistry()
        self._destination = destination
        self._wake = wake

    def __repr__(self) -> str:
        return f"<Resting {self._destination} {self._note}>"

    @property
    def lazy(self) -> bool:
        return self._wake is not None

    @property
    def _note(self) -> str:
        return LAZY if self.lazy else BY_HAND

    def start(self) -> None:
        """Not before it is asked for."""

    def stop(self) -> None:
        """Nothing runs."""

    def status(self) -> dict[str, Any]:
        state = "lazy" if self.lazy else "stopped"
        source = {"address": self.config.address, "version": None, "server_id": None, "connected": False}
        return blank_status(self._destination, state) | {"source": source, "note": self._note}

    def metrics(self) -> dict[str, Any]:
        return {"leader": 0}

    def _woken(self) -> Any:
        if self._wake is None:
            raise SessionError(
                f"destination {self._destination} was stopped by hand",
                place=self._destination,
                hint=f"Start it: sluice destination start {self._destination}",
            )
        woken, deadline = self._wake(), time.monotonic() + _CONNECT_SECONDS
        while woken.status()["state"] == "starting" and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return woken

    def __getattr__(self, name: str) -> Any:
        """What clients ask."""
        if name not in _ASKED:
            raise AttributeError(name)
        return lambda *arguments, **named: getattr(self._woken(), name)(*arguments, **named)
