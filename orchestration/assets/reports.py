"""What a run reports to Dagster of its tables: only what changed, and no more often than is of use. A batch that takes
its time has lines in the run's log.

Dagster never prunes events, and SQLite has each of an asset twice, of some 4 KB. So a table whose rows change all the
time has one materialization in ten minutes, which speaks of all batches since the one before it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from cdc_core.contract.claim import Claim

_FIRST = {"start_position"}
_SUMS = {
    *("rows", "inserts", "updates", "deletes", "net_rows", "images"),
    *("rows_inserted", "rows_updated", "rows_deleted", "merge_seconds", "land_seconds"),
}
_MOST = {"lag_seconds", "lag_seconds_p50", "lag_seconds_max"}
_LISTS = {"ddl_statements", "added_columns"}
MOMENT = 1.0  # seconds; a batch that takes less has its line when it is acked, and reports between two take no more
EVERY = 10.0  # seconds between two lines about a batch


@dataclass(slots=True)
class Reports:
    """The materializations of one run: of each asset at most one in `seconds`, the longest waiting ones first. What is
    left is for `write_all`."""

    log_event: Callable[[dg.AssetMaterialization], None]
    seconds: float
    clock: Callable[[], float]
    _waiting: dict[dg.AssetKey, dict[str, Any]] = field(default_factory=dict)
    _written: dict[dg.AssetKey, float] = field(default_factory=dict)

    def add(self, key: dg.AssetKey, metadata: Mapping[str, Any]) -> None:
        """A batch changed the asset."""
        before = self._waiting.get(key)
        self._waiting[key] = dict(metadata) if before is None else together(before, metadata)

    def write_due(self) -> None:
        """Some of those that are due: each is some hundredths of a second, and the next batch waits meanwhile."""
        began = self.clock()
        for key in [one for one in self._waiting if began - self._written.get(one, -math.inf) >= self.seconds]:
            if (now := self.clock()) - began >= MOMENT:
                return
            self._write(key, now)

    def write_all(self) -> None:
        for key in list(self._waiting):
            self._write(key, self.clock())

    def _write(self, key: dg.AssetKey, now: float) -> None:
        self.log_event(dg.AssetMaterialization(key, metadata=self._waiting.pop(key)))
        self._written[key] = now


def together(before: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of several batches as that of one: counts and durations are summed, and of the lags of the batches
    the worst counts."""
    facts = {**before, **later, "batches": before.get("batches", 1) + 1}
    for name in before.keys() & later.keys():
        if name in _SUMS:
            facts[name] = round(before[name] + later[name], 3)
        elif name in _MOST:
            facts[name] = max(before[name], later[name])
        elif name == "lag_seconds_min":
            facts[name] = min(before[name], later[name])
        elif name == "replayed":
            facts[name] = before[name] and later[name]
        elif name in _FIRST:
            facts[name] = before[name]
        elif name in _LISTS:
            facts[name] = [*before[name], *later[name]]
    if "batch_id" in later:
        facts["first_batch_id"] = before.get("first_batch_id", before.get("batch_id", later["batch_id"]))
    return facts


@contextmanager
def reported(
    say: Callable[[str], None], claim: Claim, progress: object, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """While the block runs, a thread logs that the batch has begun, and every ten seconds what `progress` shows."""
    over, began = threading.Event(), clock()

    def run() -> None:
        if over.wait(MOMENT):
            return
        say(f"batch {claim.batch_id} begins: {_size(claim)}, {claim.start} to {claim.end}")
        while not over.wait(EVERY):
            say(f"batch {claim.batch_id} after {clock() - began:.0f} s: {progress}")

    thread = threading.Thread(target=run, name="reported", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _size(claim: Claim) -> str:
    statements = f", {len(claim.ddl):,} statements" if claim.ddl else ""
    return f"{claim.rows:,} rows of {len(claim.tables):,} tables{statements}"
