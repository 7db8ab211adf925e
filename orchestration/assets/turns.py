"""The timing of one run: when it claims, how many rows, and whether it stays when there are none.

It measures what the claims cost, and leaves the decisions to `Pace`. Claims that only land rows come so fast that their
appends and events would take all the time there is: the run rests as long as one took. While it waits it looks whether
another job of the destination is queued: that one comes first. Each run takes its first turn all the same, so that a
queue which does not move holds up no rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from orchestration.assets.pace import Merged, Pace
from orchestration.freshness import parse_freshness
from orchestration.internals import POOL_TAG_PREFIX
from orchestration.settings import Limits
from spark_jobs.apply.result import BatchResult

_LOOK_SECONDS = 1.0
_STAY_SECONDS = 3.0  # between looks at the queue of a run that waits for rows
_REST = 1.0  # seconds at most


@dataclass(slots=True)
class Turns:
    """`others_wait` says whether another job is queued for what the run holds. `seconds`: how long the last batch
    took."""

    limits: Limits
    connector: Connector
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    others_wait: Callable[[], bool]
    pace: Pace = field(init=False)
    stays: bool = field(init=False)
    gives_way: bool = field(init=False, default=False)
    seconds: float = field(init=False, default=0.0)
    _asked: bool = field(init=False, default=False)
    _begun: float = field(init=False, default=0.0)
    _pressing: bool = field(init=False, default=True)
    _rests: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        declared = parse_freshness(self.limits.freshness)
        self.stays = declared.asap
        self.pace = Pace(declared.seconds, self.limits.batch_size, self.limits.parallelism)

    def left(self, deadline: float) -> float:
        """Waits while more rows may come without any being late. The seconds until `deadline`; 0 to end the run."""
        before, first, self._asked = None, not self._asked, True
        rested, self._rests = self.clock() + (min(_REST, self.clock() - self._begun) if self._rests else 0.0), False
        while (left := deadline - self.clock()) > 0:
            self.gives_way = not first and self.others_wait()
            if self.gives_way:
                return 0.0
            if self._pressing:
                return left
            if not self.pace.freshness:
                if (rest := rested - self.clock()) <= 0:
                    return left
                self.sleep(min(rest, left))
                continue
            client = self.connector.client_status()
            if before is not None:
                self.pace = self.pace.arrived(client.backlog_rows - before, _LOOK_SECONDS)
            before = client.backlog_rows
            pause = 0.0 if client.backlog_ddl else self.pace.pause(before, self.clock() - self._begun)
            if pause <= 0:
                return left
            self.sleep(min(pause, left, _LOOK_SECONDS))
        return 0.0

    def patience(self, left: float) -> float:
        """How long a claim may wait for the first row."""
        return min(_STAY_SECONDS if self.stays else self.limits.linger_seconds, left)

    def begin(self, claim: Claim) -> None:
        """A claim came. One that is about as large as it may be leaves rows that came before it."""
        self._begun, self._pressing = self.clock(), 2 * claim.rows >= self.pace.rows

    def end(self, claim: Claim, batch: BatchResult) -> None:
        """It was acked."""
        self._rests = bool(batch.landed) and not batch.applied
        rows = {table.name: table.rows for table in claim.tables}
        merged = [Merged(r.table, rows.get(r.table, 0), r.merge_seconds) for r in batch.applied if not r.replayed]
        merged += [Merged(one.table, rows.get(one.table, 0), one.seconds) for one in batch.landed if not one.replayed]
        self.seconds = self.clock() - self._begun
        self.pace = self.pace.after(self.seconds, [one for one in merged if one.rows])


def queued(instance: dg.DagsterInstance, pool: str) -> bool:
    """Whether a run waits for a pool."""
    tags = {f"{POOL_TAG_PREFIX}{pool}": "true"}
    return instance.get_runs_count(dg.RunsFilter(tags=tags, statuses=[dg.DagsterRunStatus.QUEUED])) > 0
