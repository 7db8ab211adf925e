"""`Turns`: rewrites files of a table when that disturbs no run.

Delta would refuse a MERGE that began before its files were rewritten. So the files are rewritten while a claim is held,
when no run writes. If nothing waits, there is no claim to hold. Then it is tried again for a while, in which the last
run ends: a run that begins later enters the table by a fence, which makes Delta refuse the rewriting instead of the
MERGE. Runs that merge change logs hold no claim, and repeat a refused MERGE: for these, nothing is held. What lost a
try to them is tried again in a turn, in which they leave the table alone.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import takewhile

from cdc_core.client.connector import Connector
from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from spark_jobs.load.hold import held

_TRIES = 5  # a try is lost to a run that wrote the table meanwhile
_PATIENCE_SECONDS = 900.0
_Work = Callable[[], bool]
_REASON = "a table's files were rewritten meanwhile"


@dataclass(frozen=True, slots=True)
class Turns:
    """`quiet_seconds`: after so long without waiting changes no run lingers. `stays`: a run is always there, so files
    are rewritten while a claim is held, or not at all. A work returns False if another run wrote the table meanwhile,
    so that nothing was changed."""

    connector: Connector
    quiet_seconds: float = 30.0
    stays: bool = False
    clock: Callable[[], float] = time.monotonic

    def alongside(self, works: Sequence[_Work], turn: Callable[[], AbstractContextManager[None]]) -> list[_Work]:
        """Does the works while runs merge, which leave the table alone in a `turn`. Returns the finished ones: up to a
        work whose files the runs wrote at each try."""

        def is_done(work: _Work) -> bool:
            if work():
                return True
            with turn():
                return any(work() for _ in range(_TRIES))

        return list(takewhile(is_done, works))

    def between(self, path: str, works: Sequence[_Work]) -> list[_Work]:
        """Does the works, each between two batches, and returns the finished ones: if a run stays and nothing waits, no
        claim can be held for the rest.

        Raises LakeError if runs write the table at `path` again and again."""
        done, cursor, quiet_since = list[_Work](), self._cursor(), self.clock()
        conflicts, deadline = 0, self.clock() + _PATIENCE_SECONDS
        while len(done) < len(works):
            if conflicts == _TRIES or self.clock() > deadline:
                hint = "Run it again; no row is affected."
                raise LakeError("other runs keep writing the table", place=path, hint=hint)
            with held(self.connector, f"maintain-{uuid.uuid4().hex[:12]}", reason=_REASON) as hold:
                if hold.claim is None and (now := self._cursor()) != cursor:
                    cursor, quiet_since = now, self.clock()
                if hold.claim is None and self.clock() - quiet_since < self.quiet_seconds:
                    continue  # `held` has waited for two seconds
                if hold.claim is None and self.stays:
                    break
                hold.check()
                if works[len(done)]():
                    done.append(works[len(done)])
                    conflicts, deadline = 0, self.clock() + _PATIENCE_SECONDS
                else:
                    conflicts += 1
        return done

    def _cursor(self) -> EntryPosition | None:
        return self.connector.client_status().cursor
