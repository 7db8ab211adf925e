"""One run: claim, apply, check, ack, batch after batch, until nothing is left.

No table holds up another. A table that cannot take its changes, or that fails a blocking check, is stopped before the
ack, and the others go on. Only an error that concerns all of them ends the run: Spark, the lake or the service is
unavailable.

A batch is worked on inside `with connector.claim(...)`. Leaving the block acks; an exception, a cancelled run and a
generator that Dagster abandons roll back. So "materialized" means merged, checked and acked. There need not be an event
for every batch: a process that dies between the ack and the event leaves that batch in the lake's ledger alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.contract.stopped_table import BLOCKED, StopKind, StoppedTable
from cdc_core.errors import LakeError, SluiceError
from cdc_core.rules.claims import check_seen
from cdc_core.rules.rules import NO_RULES, Rules
from orchestration.assets.batch_report import BatchReport
from orchestration.assets.checks import evaluation
from orchestration.assets.explained import Budget
from orchestration.assets.reports import MOMENT, Reports, ages_of, moment, reported
from orchestration.assets.row_count import CountTime
from orchestration.assets.run import BatchNews, DrainRun
from orchestration.assets.schema_changes import TablesBefore
from orchestration.assets.tally import Tally, tables_of
from orchestration.assets.turns import Turns
from orchestration.assets.verdicts import Verdicts, evaluation_of
from orchestration.assets.waiting_rows import WaitingReports
from orchestration.first_rows import FirstRows
from orchestration.names import Names
from orchestration.settings import Limits
from orchestration.warmth import wait_until_warm
from spark_jobs.apply.checks import Verdict
from spark_jobs.apply.gate import gate
from spark_jobs.apply.result import BatchResult, Refusal
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.expectations.expectation import Expectation
from spark_jobs.lake.doubt import Doubt

_DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class _Record:
    """What the run writes down about its batches."""

    tally: Tally
    reports: Reports
    verdicts: Verdicts
    lines: BatchNews
    waiting: WaitingReports

    @property
    def behind(self) -> bool:
        """Whether verdicts or reports had no time yet."""
        return self.verdicts.behind or self.reports.behind


@dataclass(frozen=True, slots=True)
class _Applied:
    """A claim that is applied, checked and noted in the ledger, but not acked. `before`: the tables before it, if the
    run watches columns. `announced`: whether the log said that it began, since it took long."""

    batch: BatchResult
    found: Sequence[Verdict]
    doubts: Mapping[str, Doubt]
    before: TablesBefore | None
    announced: bool


@dataclass(frozen=True, slots=True)
class Drain:
    """What one run, `of`, works with. `tables` have declared checks; other tables of a claim are applied all the same.
    `first`: tables that the lake does not have begin with a snapshot; without it, with the rows that come.
    `logs`: declared tables whose changes land in their logs. `expected`: what is expected of tables. `selected`: checks
    that the run must yield. `rules`: what the lake sees of the tables. `budget`: how many materializations show
    rows."""

    of: DrainRun
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
    expected: Mapping[str, Sequence[Expectation]] = field(default_factory=dict)
    selected: Collection[dg.AssetCheckKey] = ()
    rules: Rules = NO_RULES
    watches_columns: bool = False
    budget: Budget = field(default_factory=Budget)
    counts: CountTime = field(default_factory=CountTime)

    @property
    def run_id(self) -> str:
        return self.of.run_id

    def run(self) -> Iterator[dg.AssetCheckResult]:
        """Drains. Yields every selected check once, at the end."""
        seconds = self.limits.report_seconds
        reports = Reports(self.of.log_event, seconds, self.clock, ages_of(self.of.instance, self.now))
        lines = self.of.lines(seconds, self.clock)
        waiting = WaitingReports(
            self.lake.waiting_rows, self.connector.report_quarantined, self.lake.may_wait, self.of.log.warning
        )
        tally = self._begin(waiting)
        verdicts = Verdicts(self.of.instance, self.of.log_event, tally.lasting(), self.clock)
        tally.is_red, tally.waiting = verdicts.is_red, lambda: waiting.rows
        try:
            self._drain(_Record(tally, reports, verdicts, lines, waiting))
        except BaseException:
            verdicts.report(tally.results(_concerned(tally, verdicts)))
            raise
        finally:
            reports.write_all()
            lines.write()
        concerned = _concerned(tally, verdicts, tally.touched) | {key.asset_key for key in self.selected}
        yield from verdicts.end(tally.results(concerned, self.selected), self.selected)

    def _drain(self, record: _Record) -> None:
        deadline = record.reports.until = self.clock() + self.limits.max_seconds
        until = self.of.until or int(1000 * self.now())
        before = None
        limits = self.limits.model_copy(update={"parallelism": self._make_ready()})
        turns = Turns(limits, self.connector, self.clock, partial(self._pause, record), self.of.others_wait)
        while record.tally.batches < limits.max_batches and (left := turns.left(deadline)) > 0:
            mended: set[str] = set()
            behind = record.behind
            with self.connector.claim(
                turns.pace.rows,
                owner=self.run_id,
                timeout_seconds=0.0 if behind else turns.patience(left),
                lease_seconds=limits.lease_seconds,
                mended=mended,
            ) as claim:
                if claim is None and (behind or turns.stays):
                    self._know_stops(record.tally, self.connector.client_status().stopped)
                    self._write(record, MOMENT)
                    record.lines.write_due()
                    continue
                if claim is None:
                    break
                turns.begin(claim)
                applied = self._apply(claim, before, record, limits.parallelism)
                mended.update(applied.batch.mended)
            acked_at, before = self.now(), claim
            turns.end(claim, applied.batch)
            self._record(claim, applied, record, turns.seconds, acked_at)
        end = self._end(record.tally, deadline, turns)
        self.of.log.info(f"{record.tally.batches} batches, then {end}")
        if end != _DRAINED and (before is None or (before.end.timestamp or 0) < until):
            self.of.leaves(until)

    def _apply(self, claim: Claim, before: Claim | None, record: _Record, parallelism: int) -> _Applied:
        """Applies the claim after the batch `before`, checks the result, stops the tables that are refused, and writes
        the ledger. Raises LakeError for trouble of all tables."""
        tally = record.tally
        stopped = {*claim.stopped, *self._check(claim, before, tally), *self._begin_first(claim)}
        self._keep_stopped(tally, stopped)
        if stopped - tally.stopped.keys():
            self._know_stops(tally, self.connector.client_status().stopped)
        columns = TablesBefore.of(self.lake.lake, claim) if self.watches_columns else None
        with reported(self.of.log.info, claim, self.lake.progress) as announced:
            result = self.lake.apply(claim, self.run_id, parallelism, sorted(stopped))
        batch, found = gate(claim, result)
        doubts = tally.doubts_to_note(batch)
        self._show(claim, [one for one in found if tally.is_news(one, doubts)], record.verdicts)
        for refusal in batch.refused:
            tally.stopped[refusal.table] = self._stop(claim, refusal)
        self.lake.note(claim, batch, self.run_id, doubts)
        return _Applied(batch, found, doubts, columns, announced.is_set())

    def _record(self, claim: Claim, applied: _Applied, record: _Record, seconds: float, acked_at: float) -> None:
        """Writes down an acked batch, which took `seconds`."""
        tally, batch = record.tally, applied.batch
        tally.add(batch, applied.found, applied.doubts)
        self._keep_stopped(tally, tally.stopped.keys() - {*batch.mended})
        self._report_waiting(claim, batch, record.waiting)
        self._report(claim, batch, record.reports, acked_at)
        for change in tally.changed_columns(applied.before.changes(batch) if applied.before else {}):
            record.verdicts.write(evaluation_of(change))
        record.lines.add(claim, batch, seconds, at_once=applied.announced)
        record.lines.write_due()
        self._write(record, moment(seconds), tables_of(batch))

    def _begin(self, waiting: WaitingReports) -> Tally:
        """Gives back what an earlier try of this run still holds, such as a claim whose answer was lost. Raises
        LakeError when the service acked what the lake does not have."""
        client = self.connector.subscribe()
        self.connector.rollback(owner=self.run_id, reason=f"run {self.run_id} begins again")
        if lost := self.lake.check_cursor(client):
            self.of.log.warning(lost)
        if self.lake.has_quarantines or client.quarantined:
            waiting.begin(client.epoch, client.quarantined)
        if client.blocked:  # no run merges logs any more, if no table lands first
            with suppress(SluiceError):
                self.connector.report_blocked(self.lake.blocked())
        stopped = {stop.table: stop for stop in client.stopped}
        doubts = self.lake.doubts()
        return Tally(
            self.names, self.tables, stopped=stopped, doubts=doubts, noted=dict(doubts), logs=self.logs,
            expected=self.expected, watches_columns=self.watches_columns,
        )  # fmt: skip

    def _make_ready(self) -> int:
        """Makes a session at Spark before rows come, and waits until it is warm. If Spark is down, the first batch says
        so. Returns how many tables are written side by side."""
        cores = os.cpu_count() or 1
        if self.lake.needs_spark:
            with suppress(LakeError):
                cores = self.lake.connect()
            if (waited := wait_until_warm(self.clock, self.sleep)) > 0:
                self.of.log.info(f"waited {waited:.1f} s until Spark was warm")
        return self.limits.parallelism or cores

    def _check(self, claim: Claim, before: Claim | None, tally: Tally) -> list[str]:
        """Stops the tables that have rows which another server lost, or that miss changes, and returns their names.
        Raises LakeError for a claim that does not begin where the lake ends, or is seen by other rules than the run's.
        """
        check_seen(claim, self.rules, os.environ.get)
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
            self.of.log.info(f"{table} is not in the lake: its snapshot begins, and brings these changes too")
        return begun

    def _show(self, claim: Claim, found: Sequence[Verdict], verdicts: Verdicts) -> None:
        """An event for each of these that failed, before the ack: a run that dies later does not hide it."""
        for one in found:
            if not one.passed:
                verdicts.write(evaluation(self.names, one, claim))
                self.of.log.warning(f"{one.check} of {one.table} at batch {claim.batch_id}: {one.text}")

    def _stop(self, claim: Claim, refusal: Refusal) -> StoppedTable:
        """Has the service note, before the ack, that the table takes no more changes from here on."""
        table, error = refusal.table, refusal.error
        reason = f"{error.message} at {error.place}" if error.place else error.message
        kind: StopKind = BLOCKED if refusal.is_blocked else "stopped"
        self.connector.stop_table(
            table, reason=reason, hint=error.hint, position=claim.start, copy_needed=refusal.copy_needed, kind=kind
        )
        self.of.log.error(f"{table} {kind}: {error}")
        return StoppedTable(table, reason, error.hint, claim.start, kind=kind)

    def _report_waiting(self, claim: Claim, batch: BatchResult, waiting: WaitingReports) -> None:
        if self.lake.has_quarantines or waiting.rows:
            followed = {name for one in batch.followed for name in (one.table, one.origin) if name}
            waiting.after(claim.epoch, tables_of(batch), followed)

    def _report(self, claim: Claim, batch: BatchResult, reports: Reports, acked_at: float) -> None:
        """Adds a report of each table with changes, and writes the run's tags: the batch is checked and acked."""
        BatchReport(self.of, self.names, self.lake.lake, self.counts, self.budget).write(
            claim, batch, reports, acked_at
        )
        self.of.acked(claim)

    def _write(self, record: _Record, most: float, touched: Collection[str] = ()) -> None:
        """Writes every verdict that changed. First verdicts and materializations then have `most` seconds, half of them
        each, because rows wait meanwhile; the rest is written later."""
        until = self.clock() + most
        results = record.tally.results(_concerned(record.tally, record.verdicts, touched))
        record.verdicts.report(results, seconds=most / 2, materialized=record.tally.assets(touched))
        record.reports.write_due(until - self.clock())

    def _pause(self, record: _Record, seconds: float) -> None:
        """Sleeps, but first writes what had no time."""
        until = self.clock() + seconds
        record.verdicts.write_waiting(min(MOMENT, seconds) / 2)
        record.reports.write_due(min(MOMENT, until - self.clock()))
        self.sleep(max(0.0, until - self.clock()))

    def _keep_stopped(self, tally: Tally, tables: Collection[str]) -> None:
        """Only these are still stopped. A reload may have lifted the stop of another one: then it is in doubt no
        longer, as the ledger says."""
        lifted = tally.keep_stopped(tables)
        if lifted & tally.doubts.keys():
            tally.forget_doubts(lifted - self.lake.doubts().keys())

    def _know_stops(self, tally: Tally, stops: Sequence[StoppedTable]) -> None:
        """Takes over the stops that others made or lifted: an operator, a snapshot, a run that merges logs."""
        known = {stop.table: stop for stop in stops}
        self._keep_stopped(tally, known.keys())
        tally.stopped |= known

    def _end(self, tally: Tally, deadline: float, turns: Turns) -> str:
        if turns.gives_way:
            return "another job of the destination is queued"
        if tally.batches >= self.limits.max_batches:
            return f"max_batches {self.limits.max_batches} reached"
        if self.clock() >= deadline:
            return f"max_seconds {self.limits.max_seconds:g} reached"
        return _DRAINED


def _concerned(tally: Tally, verdicts: Verdicts, touched: Collection[str] = ()) -> set[dg.AssetKey]:
    """Returns the assets whose checks may have changed when these tables got changes."""
    return tally.keys(touched) | verdicts.red()


def follows(claim: Claim, before: Claim) -> bool:
    """Whether a claim begins where this run's last batch ended, so that the ledger need not be asked."""
    reached = claim.reached
    if (claim.identity, claim.epoch) != (before.identity, before.epoch):
        return False
    return reached is None or (reached.epoch, reached.position) == (before.epoch, before.end)
