"""What the ticks of one round share in their process: the statuses of a service's destinations, asked for at once, and
the runs whose process is gone. A destination without changes costs no call and no query of its own.

A status is some seconds old at most: a tick may do nothing because of it. Before it acts, it asks the service itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.contract.status import Status
from cdc_core.errors import SluiceError
from orchestration import processes

_FRESH_SECONDS = 2.0
_LOOK_SECONDS = 2.0  # between two looks for runs whose process is gone

Connect = Callable[[], AbstractContextManager[Connector]]


@dataclass(slots=True)
class Round:
    """The round of one service's destinations. Several threads may use it; `clock` is in seconds."""

    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _statuses: dict[str, Status] = field(default_factory=dict)
    _error: SluiceError | None = None
    _asked: float = -math.inf
    _looked: float = -math.inf

    def status(self, destination: str, connect: Connect) -> Status | None:
        """Returns the destination's status, or None if the service does not know it. The first tick of a round asks the
        service, by `connect`; the others wait for that. Raises SluiceError."""
        with self._lock:
            if self.clock() - self._asked >= _FRESH_SECONDS:
                self._ask(connect)
            if self._error is not None:
                raise self._error.with_traceback(None)
            return self._statuses.get(destination)

    def _ask(self, connect: Connect) -> None:
        self._error = None
        try:
            with connect() as connector:
                self._statuses = connector.statuses()
        except SluiceError as error:
            self._error = error
        self._asked = self.clock()

    def fail_gone(self, context: dg.SensorEvaluationContext, instance: dg.DagsterInstance) -> None:
        """Marks runs of this Dagster whose process is gone as failed, whichever destination they are of."""
        with self._lock:
            if self.clock() - self._looked < _LOOK_SECONDS:
                return
            self._looked = self.clock()
        for run_id in processes.fail_gone(instance):
            context.log.warning(f"run {run_id} has no process any more: failed")


_ROUNDS: dict[str, Round] = {}


def round_of(service: str) -> Round:
    """The one of all sensors of this process that ask the service at this place."""
    return _ROUNDS.setdefault(service, Round())
