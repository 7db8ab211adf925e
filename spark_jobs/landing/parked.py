"""Tables whose logs are not merged for a while: their merge failed, or another job has its turn to write them.

The note of a failure says why, how often it was tried, and when the next try is due. A parked table keeps its log, so
nothing is lost; the others go on. The notes are next to the ledger, not in the log itself: a change of its properties
would make Delta refuse the append of a run that lands at the same time.

A run that merges many small tables leaves no gap in which a slower statement, such as an OPTIMIZE, could commit. A job
whose try was refused takes a turn: runs leave the table alone until the turn ends, or its time is over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from cdc_core.contract.stopped_table import BLOCKED, StopKind, StoppedTable, blocked_tables
from cdc_core.errors import SluiceError
from cdc_core.retry import pause_after
from spark_jobs.lake.blocking import TableBlocked
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.tables import Lake

_PREFIX, _TURN = "sluice.parked.", "sluice.turn."
_TURN_SECONDS = 120.0  # at most, if the process that took the turn died
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0  # seconds after the first failure, and at most


@dataclass(frozen=True, slots=True)
class Parked:
    """A table that waits. Times are in seconds since 1970; `since`: when it failed first. `kind`: "blocked" if its rows
    break what is expected of them, so that a person may accept them."""

    table: str
    reason: str
    hint: str
    tries: int
    since: float
    next_try: float
    kind: StopKind = "stopped"

    def is_due(self, now: float) -> bool:
        return now >= self.next_try


@dataclass(frozen=True, slots=True)
class Parking:
    """The notes of one destination and client."""

    lake: Lake
    destination: str
    client_id: int

    @property
    def path(self) -> str:
        return self.lake.parking_path(self.destination, self.client_id)

    def tables(self) -> dict[str, Parked]:
        """Returns the tables that wait, by name. Raises LakeError."""
        return {table: Parked(**json.loads(text)) for table, text in self._noted.read(_PREFIX).items()}

    def blocked(self) -> tuple[StoppedTable, ...]:
        """Returns the tables that wait because rows break what is expected of them, as the service keeps them. Raises
        LakeError."""
        found = (one for one in self.tables().values() if one.kind == BLOCKED)
        return blocked_tables(StoppedTable(one.table, one.reason, one.hint, None) for one in found)

    def park(self, table: str, error: SluiceError, now: float) -> Parked:
        """Notes one more failure of the table, and returns the note."""
        before = self.tables().get(table)
        tries = (before.tries if before else 0) + 1
        pause = pause_after(tries, _FIRST_PAUSE, _LONGEST_PAUSE)
        reason = f"{error.message} at {error.place}" if error.place else error.message
        since, kind = before.since if before else now, BLOCKED if isinstance(error, TableBlocked) else "stopped"
        noted = Parked(table, reason[:1000], error.hint[:1000], tries, since, now + pause, kind)
        self._noted.write({_PREFIX + table: json.dumps(asdict(noted))})
        return noted

    def free(self, table: str) -> None:
        """Removes the note: the table goes on."""
        if table in self.tables():
            self._noted.write({_PREFIX + table: ""})

    @contextmanager
    def turn(self, table: str, clock: Callable[[], float] = time.time) -> Iterator[None]:
        """Keeps runs from beginning a merge of the table's log while the block runs. Raises LakeError."""
        self._noted.write({_TURN + table: str(clock() + _TURN_SECONDS)})
        try:
            yield
        finally:
            self._noted.write({_TURN + table: ""})

    def taken(self, now: float) -> set[str]:
        """Returns the tables for which a job has taken a turn. Raises LakeError."""
        return {table for table, until in self._noted.read(_TURN).items() if now < float(until)}

    @property
    def _noted(self) -> Noted:
        return Noted(self.lake, self.path)
