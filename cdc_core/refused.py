"""A destination that could not be set up: it stands in for an instance, tells why, and refuses every other call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

from cdc_core.config.models import InstanceConfig
from cdc_core.errors import SluiceError
from cdc_core.schema.registry import SchemaRegistry

_STORE = ("put", "get", "ack", "items", "bytes", "capacity_items", "capacity_bytes")

# The part of a status that only what runs can tell.
NOTHING: dict[str, Any] = {
    "source": {"address": None, "version": None, "server_id": None, "connected": False},
    "position": None,
    "store": dict.fromkeys(_STORE, 0),
    "lag_seconds": None,
    "backlog_rows": 0,
    "clients": [],
}


class Refused:
    """`error` is what its configuration failed with."""

    def __init__(self, destination: str, error: SluiceError, clock: Callable[[], float] = time.time) -> None:
        self.config = InstanceConfig.model_validate({"canal.instance.destination": destination})
        self.error = error
        self.registry = SchemaRegistry()
        self._destination = destination
        self._since = clock()

    def __repr__(self) -> str:
        return f"<Refused {self._destination} {self.error.message!r}>"

    def start(self) -> None:
        """Nothing to start: the next scan looks at the configuration again."""

    def stop(self) -> None:
        """Nothing runs."""

    def status(self) -> dict[str, Any]:
        return {
            "destination": self._destination,
            "state": "failed",
            **NOTHING,
            "error": self.error.as_dict() | {"since": self._since},
        }

    def metrics(self) -> dict[str, Any]:
        return {"leader": 0}

    def _refuse(self, *_arguments: Any, **_named: Any) -> NoReturn:
        raise self.error.with_traceback(None)

    claim = ack = renew = rollback = slices = note_read = stop_table = resume_table = client = tables = _refuse
