"""What a run reports to Dagster: materializations of tables, and lines in its log about batches; only what changed, and
no more often than is of use.

Dagster never prunes events: a materialization takes 8 KB, a line 1 KB. So a table whose rows change all the time has
one materialization in a quarter of an hour, which sums up all batches since the last one, and the batches have one
line. A batch that takes long has its own lines.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from cdc_core.contract.claim import Claim
from cdc_core.position import EntryPosition
from orchestration.assets.batch_seconds import SECONDS, age
from orchestration.assets.row_count import ROW_COUNT
from orchestration.names import place_tags
from spark_jobs.apply.result import BatchResult

EXPLAIN = "explain"  # an `Explanation`, whose text is made when the materialization is written
_FIRST = {"start_position"}
_SUMS = {
    *("rows", "inserts", "updates", "deletes", "net_rows", "images"),
    *("rows_inserted", "rows_updated", "rows_deleted", "merge_seconds", "land_seconds"),
    "bad_rows",
    *("files_added", "files_removed"),
}
_MOST = {"lag_seconds", "lag_seconds_p50", "lag_seconds_max"}
_LISTS = {"ddl_statements", "added_columns"}
MOMENT = 1.0  # seconds that reports between two batches take at most
LEAST = 0.2  # seconds that they may take after a quick batch
_SHARE = 0.1  # of the batch's time
LONG = 5.0  # seconds; a batch that takes longer has its own lines
EVERY = 10.0  # seconds between two lines about a batch
RECENT = 60.0  # seconds; an asset whose last materialization is no older gets no other one at once


def moment(batch_seconds: float) -> float:
    """Returns the seconds that events which can wait may take after a batch of so many: rows wait meanwhile."""
    return min(MOMENT, max(LEAST, _SHARE * batch_seconds))


@dataclass(slots=True)
class Reports:
    """The materializations of one run: of each asset at most one in `seconds`, the longest waiting ones first. What is
    left is for `write_all`: that is soon where the run ends, at `until`, in less than half that time. `ages`: how many
    seconds ago each of some assets had its last one: a run that goes on where another one has just ended does not begin
    with another."""

    log_event: Callable[[dg.AssetMaterialization], None]
    seconds: float
    clock: Callable[[], float]
    ages: Callable[[Sequence[dg.AssetKey]], Mapping[dg.AssetKey, float]] | None = None
    until: float = math.inf
    _waiting: dict[dg.AssetKey, dict[str, Any]] = field(default_factory=dict)
    _written: dict[dg.AssetKey, float] = field(default_factory=dict)
    _new: list[dg.AssetKey] = field(default_factory=list)

    def add(self, key: dg.AssetKey, metadata: Mapping[str, Any]) -> None:
        """Adds a batch that changed the asset."""
        before = self._waiting.get(key)
        if self.ages is not None and self.seconds and key not in self._written:
            self._written[key] = -math.inf
            self._new.append(key)
        self._waiting[key] = dict(metadata) if before is None else together(before, metadata)

    @property
    def behind(self) -> bool:
        """Whether there are due ones."""
        return bool(self._due(self.clock()))

    def write_due(self, most: float = MOMENT) -> None:
        """Writes due ones for `most` seconds, at least one: each takes some hundredths of a second, and the next batch
        waits meanwhile."""
        began = self.clock()
        for key in self._due(began):
            self._write(key, self.clock())
            if self.clock() - began >= most:
                return

    def write_all(self) -> None:
        for key in list(self._waiting):
            self._write(key, self.clock())

    def _due(self, now: float) -> list[dg.AssetKey]:
        if self.ages is not None and self._new:
            ages, self._new = self.ages(self._new), []
            self._written |= {key: now - age for key, age in ages.items() if age < RECENT}
        apart = self.seconds if self.until - now >= self.seconds / 2 else math.inf
        return [key for key in self._waiting if now - self._written.get(key, -math.inf) >= apart]

    def _write(self, key: dg.AssetKey, now: float) -> None:
        metadata = self._waiting[key]
        if EXPLAIN in metadata:
            metadata = metadata | {EXPLAIN: metadata[EXPLAIN].text()}
        if ROW_COUNT in metadata:
            count = metadata[ROW_COUNT].number()
            others = {name: value for name, value in metadata.items() if name != ROW_COUNT}
            metadata = others if count is None else {**others, ROW_COUNT: count}
        self.log_event(dg.AssetMaterialization(key, metadata=metadata, tags=place_tags(metadata)))
        del self._waiting[key]  # not before: a report that Dagster did not take is written at the run's end
        self._written[key] = now


def ages_of(
    instance: dg.DagsterInstance | None, now: Callable[[], float] = time.time
) -> Callable[[Sequence[dg.AssetKey]], Mapping[dg.AssetKey, float]] | None:
    """Returns what says how many seconds ago assets were materialized, in one query; None if nobody keeps that."""
    if instance is None:
        return None

    def ages(keys: Sequence[dg.AssetKey]) -> Mapping[dg.AssetKey, float]:
        entries = (record.asset_entry for record in instance.get_asset_records(keys))
        return {one.asset_key: now() - last.timestamp for one in entries if (last := one.last_materialization)}

    return ages


@dataclass(slots=True)
class BatchLines:
    """The lines of one run about its acked batches: at once of the first one, and of one that took long; of the others
    one in `seconds`, with their sums."""

    say: Callable[[str], None]
    seconds: float
    clock: Callable[[], float]
    _batches: list[int] = field(default_factory=list)
    _start: EntryPosition | None = None
    _end: EntryPosition | None = None
    _rows: int = 0
    _tables: set[str] = field(default_factory=set)
    _slowest: float = 0.0
    _written: float = -math.inf

    def add(self, claim: Claim, batch: BatchResult, _seconds: float, *, at_once: bool) -> None:
        """A batch is acked."""
        self._start = self._start or claim.start
        self._end = claim.end
        self._batches.append(claim.batch_id)
        self._rows += claim.rows
        for results in (batch.applied, batch.refused, batch.landed):
            self._tables.update(one.table for one in results)
        self._slowest = max([self._slowest, *(result.merge_seconds for result in batch.applied)])
        if at_once:
            self.write()

    def write_due(self) -> None:
        if self._batches and self.clock() - self._written >= self.seconds:
            self.write()

    def write(self) -> None:
        """Writes a line about the batches that have none."""
        if not self._batches:
            return
        first, last = self._batches[0], self._batches[-1]
        which = f"batch {last}" if first == last else f"{len(self._batches):,} batches, {first} to {last},"
        size = f"{self._rows:,} rows of {len(self._tables):,} tables"
        self.say(f"{which} acked: {size}, {self._start} to {self._end}, slowest merge {self._slowest:.1f} s")
        self._written = self.clock()
        self._batches, self._start, self._rows, self._tables, self._slowest = [], None, 0, set(), 0.0


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
        elif name == SECONDS:
            facts[name] = max(before[name], later[name], key=age)
        elif name == "replayed":
            facts[name] = before[name] and later[name]
        elif name in _FIRST:
            facts[name] = before[name]
        elif name in _LISTS:
            facts[name] = [*before[name], *later[name]]
        elif name == EXPLAIN:
            facts[name] = before[name].with_later(later[name])
    if "batch_id" in later:
        facts["first_batch_id"] = before.get("first_batch_id", before.get("batch_id", later["batch_id"]))
    return facts


@contextmanager
def reported(
    say: Callable[[str], None], claim: Claim, progress: object, clock: Callable[[], float] = time.monotonic
) -> Iterator[threading.Event]:
    """While the block runs, a thread logs that the batch has begun, once it takes long, and every ten seconds what
    `progress` shows. Yields an event that is set when there was such a line."""
    over, logged, began = threading.Event(), threading.Event(), clock()

    def run() -> None:
        if over.wait(LONG):
            return
        logged.set()
        say(f"batch {claim.batch_id} begins: {_size(claim)}, {claim.start} to {claim.end}")
        while not over.wait(EVERY):
            say(f"batch {claim.batch_id} after {clock() - began:.0f} s: {progress}")

    thread = threading.Thread(target=run, name="reported", daemon=True)
    thread.start()
    try:
        yield logged
    finally:
        over.set()
        thread.join()


def _size(claim: Claim) -> str:
    statements = f", {len(claim.ddl):,} statements" if claim.ddl else ""
    return f"{claim.rows:,} rows of {len(claim.tables):,} tables{statements}"
