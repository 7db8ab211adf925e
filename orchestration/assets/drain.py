"""One run: claim, apply, check, ack, batch after batch, until nothing is left.

No table holds up another. A table that cannot take its changes, or that fails a blocking check, is stopped before the
ack, and the others go on. Only trouble of all of them ends the run: Spark, the lake or the service is away.

A batch is worked on inside `with connector.claim(...)`. Leaving the block acks; an exception, a cancelled run and a
generator that Dagster abandons roll back. So "materialized" means merged, checked and acked. There need not be an event
for every batch: a process that dies between the ack and the event leaves that batch in the lake's ledger alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import LakeError
from orchestration.assets import checks
from orchestration.assets.landed import landed_metadata
from orchestration.assets.metadata import batch_metadata, ddl_metadata
from orchestration.assets.reports import MOMENT, BatchLines, Reports, reported
from orchestration.assets.turns import Turns, queued
from orchestration.assets.verdicts import Verdicts
from orchestration.first_rows import FirstRows
from orchestration.names import ACKED_TAG, LEFT_TAG, UNTIL_TAG, Names
from orchestration.settings import Limits
from orchestration.warmth import wait_until_warm
from spark_jobs.apply.checks import Verdict
from spark_jobs.apply.gate import gate
from spark_jobs.apply.result import BatchResult, Refusal
from spark_jobs.apply.spark_lake import SparkLake

_DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Drain:
    """What one run works with. `tables` have declared checks; other tables of a claim are applied all the same.
    `first`: tables that the lake does not have begin with a snapshot; without it, with the rows that come.
    `logs`: declared tables whose changes land in their logs. `selected`: checks that the run must yield."""

    context: dg.OpExecutionContext
    names: Names
    tables: Sequence[str]
    limits: Limits
    connector: Connector
    lake: SparkLake
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time
    first: FirstRows | None = None
    logs: Sequence[str] = ()
    selected: Collection[dg.AssetCheckKey] = ()

    @property
    def run_id(self) -> str:
        return self.context.run.run_id

    def run(self) -> Iterator[dg.AssetCheckResult]:
        """Drains. Yields every selected check once, at the end."""
        seconds = self.limits.report_seconds
        reports = Reports(self.context.log_event, seconds, self.clock)
        lines = BatchLines(self.context.log.info, seconds, self.clock)
        tally = self._begin()
        verdicts = Verdicts(self.context.instance, self.context.log_event, tally.lasting())
        try:
            self._drain(tally, reports, verdicts, lines)
        finally:
            reports.write_all()
            lines.write()
        concerned = tally.keys(tally.touched) | verdicts.red() | {key.asset_key for key in self.selected}
        yield from verdicts.end(tally.results(concerned), self.selected)

    def _drain(self, tally: checks.Tally, reports: Reports, verdicts: Verdicts, lines: BatchLines) -> None:
        deadline = self.clock() + self.limits.max_seconds
        until = int(self.context.run.tags.get(UNTIL_TAG) or 1000 * self.now())
        before = None
        limits = self.limits.model_copy(update={"parallelism": self._make_ready()})
        turns = Turns(limits, self.connector, self.clock, self.sleep, self._others_wait)
        while tally.batches < limits.max_batches and (left := turns.left(deadline)) > 0:
            mended: set[str] = set()
            with self.connector.claim(
                turns.pace.rows,
                owner=self.run_id,
                timeout_seconds=turns.patience(left),
                lease_seconds=limits.lease_seconds,
                mended=mended,
            ) as claim:
                if claim is None and turns.stays:
                    reports.write_due()
                    lines.write_due()
                    continue
                if claim is None:
                    break
                turns.begin(claim)
                stopped = {*claim.stopped, *self._check(claim, before, tally), *self._begin_first(claim)}
                tally.keep_stopped(stopped)
                with reported(self.context.log.info, claim, self.lake.progress) as logged:
                    applied = self.lake.apply(claim, self.run_id, limits.parallelism, sorted(stopped))
                batch, found = gate(claim, applied)
                doubts = tally.doubts_to_note(batch)
                shown = [one for one in found if one.blocks or (one.warns and one.table in doubts)]
                self._show(claim, shown, verdicts)
                for refusal in batch.refused:
                    tally.stopped[refusal.table] = self._stop(claim, refusal)
                self.lake.note(claim, batch, self.run_id, doubts)
                mended.update(batch.mended)
            before = claim
            turns.end(claim, batch)
            tally.add(batch, found, doubts)
            tally.keep_stopped(tally.stopped.keys() - mended)
            self._report(claim, batch, reports)
            lines.add(claim, batch, at_once=logged.is_set())
            lines.write_due()
            concerned = tally.keys(checks.tables_of(batch)) | verdicts.red()
            verdicts.report(tally.results(concerned), seconds=MOMENT)
        end = self._end(tally, deadline, turns)
        self.context.log.info(f"{tally.batches} batches, then {end}")
        if end != _DRAINED and (before is None or (before.end.timestamp or 0) < until):
            self.context.instance.add_run_tags(self.run_id, {LEFT_TAG: str(until)})

    def _begin(self) -> checks.Tally:
        """Gives back what an earlier try of this run still holds, such as a claim whose answer was lost. Raises
        LakeError when the service acked what the lake does not have."""
        client = self.connector.subscribe()
        self.connector.rollback(owner=self.run_id, reason=f"run {self.run_id} begins again")
        if lost := self.lake.check_cursor(client):
            self.context.log.warning(lost)
        stopped = {stop.table: stop for stop in client.stopped}
        doubts = self.lake.doubts()
        return checks.Tally(self.names, self.tables, stopped=stopped, doubts=doubts, noted=dict(doubts), logs=self.logs)

    def _make_ready(self) -> int:
        """Makes a session at Spark before rows come, and waits until it is warm. If Spark is away, the first batch says
        so. Returns how many tables are written side by side."""
        cores = os.cpu_count() or 1
        if self.lake.needs_spark:
            with suppress(LakeError):
                cores = self.lake.connect()
            if (waited := wait_until_warm(self.clock, self.sleep)) > 0:
                self.context.log.info(f"waited {waited:.1f} s until Spark was warm")
        return self.limits.parallelism or cores

    def _check(self, claim: Claim, before: Claim | None, tally: checks.Tally) -> list[str]:
        """Stops the tables that have rows which another server lost, or that miss changes, and returns their names.
        Raises LakeError for a claim that does not begin where the lake ends."""
        if before is not None and follows(claim, before):
            return []
        self.lake.check_claim(claim)
        lost = (*self.lake.lost_rows(claim, (*self.tables, *self.logs)), *self.lake.forgotten_stops(claim))
        for refusal in lost:
            tally.stopped[refusal.table] = self._stop(claim, refusal)
        return [refusal.table for refusal in lost]

    def _begin_first(self, claim: Claim) -> list[str]:
        """Stops the tables of which the lake would have only rows from here on, until their first snapshot. Returns
        their names."""
        begun = self.first.begin_of(claim) if self.first else []
        for table in begun:
            self.context.log.info(f"{table} is not in the lake: its snapshot begins, and brings these changes too")
        return begun

    def _show(self, claim: Claim, found: Sequence[Verdict], verdicts: Verdicts) -> None:
        """An event for each of these that failed, before the ack: a run that dies later does not hide it."""
        for one in found:
            if not one.passed:
                verdicts.write(checks.evaluation(self.names, one, claim))
                self.context.log.warning(f"{one.check} of {one.table} at batch {claim.batch_id}: {one.text}")

    def _stop(self, claim: Claim, refusal: Refusal) -> StoppedTable:
        """Has the service note, before the ack, that the table takes no more changes from here on."""
        table, error = refusal.table, refusal.error
        reason = f"{error.message} at {error.place}" if error.place else error.message
        self.connector.stop_table(
            table, reason=reason, hint=error.hint, position=claim.start, copy_needed=refusal.copy_needed
        )
        self.context.log.error(f"{table} stopped: {error}")
        return StoppedTable(table, reason, error.hint, claim.start)

    def _report(self, claim: Claim, batch: BatchResult, reports: Reports) -> None:
        """A report of each table with changes, and the run's tags: the batch is checked and acked."""
        context = self.context
        for table, reason in batch.instead.items():
            context.log.warning(f"{table} is merged in this run and not landed: {reason}")
        if batch.followed:  # in one event: a claim may have hundreds of them
            lines = (f"{one.table}: {one.outcome}, by {one.position}: {one.text}" for one in batch.followed)
            context.log.info("\n".join(lines))
        statements = ddl_metadata(batch.followed)
        applied = {result.table: batch_metadata(claim, result, self.run_id) for result in batch.applied}
        for table in dict.fromkeys((*statements, *applied)):
            metadata = statements.get(table, {}) | applied.get(table, {})
            if table in batch.instead:
                metadata["merged_because"] = batch.instead[table]
            reports.add(self.names.delta(table), metadata)
        for landed in batch.landed:
            reports.add(self.names.log(landed.table), landed_metadata(claim, landed, self.run_id))
        reports.write_due()
        for done in batch.cascaded:
            context.log.info(
                f"{done.table}: {done.deleted} rows deleted and {done.updated} changed, "
                f"as its foreign key to {done.parent} did at the source"
            )
        tags = {"cdc/batch_id": str(claim.batch_id), ACKED_TAG: str(claim.end)}
        context.instance.add_run_tags(self.run_id, tags)

    def _others_wait(self) -> bool:
        return queued(self.context.instance, self.names.asset)

    def _end(self, tally: checks.Tally, deadline: float, turns: Turns) -> str:
        if turns.gives_way:
            return "another job of the destination is queued"
        if tally.batches >= self.limits.max_batches:
            return f"max_batches {self.limits.max_batches} reached"
        if self.clock() >= deadline:
            return f"max_seconds {self.limits.max_seconds:g} reached"
        return _DRAINED


def follows(claim: Claim, before: Claim) -> bool:
    """Whether a claim begins where this run's last batch ended, so that the ledger need not be asked."""
    reached = claim.reached
    if (claim.identity, claim.epoch) != (before.identity, before.epoch):
        return False
    return reached is None or (reached.epoch, reached.position) == (before.epoch, before.end)
