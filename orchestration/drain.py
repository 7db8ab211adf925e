"""One run: claim, merge, check, ack, batch after batch, until nothing comes any more.

Each batch is worked on inside `with connector.claim(...)`: leaving the block acks, any exception, a cancelled run and
a generator that Dagster abandons roll back. So "materialized" means merged, checked and acked. It does not promise an
event for every batch: a process that dies between the ack and the event leaves that batch in the lake's ledger alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.session.claim import Claim
from orchestration import checks
from orchestration.applier import Applier
from orchestration.metadata import of_batch
from orchestration.names import ACKED_TAG, Names
from orchestration.settings import Limits
from spark_jobs.checks import TableResult


@dataclass(frozen=True, slots=True)
class Drain:
    """What one run works with."""

    context: dg.AssetExecutionContext
    names: Names
    tables: Sequence[str]  # those with declared checks; others of a claim are applied all the same
    limits: Limits
    connector: Connector
    lake: Applier
    clock: Callable[[], float] = time.monotonic

    @property
    def run_id(self) -> str:
        return self.context.run.run_id

    def run(self) -> Iterator[dg.AssetCheckResult]:
        """Drains; yields a failed check as it happens, and at the end every declared check once."""
        limits, deadline = self.limits, self.clock() + self.limits.max_seconds
        # What an earlier try of this run still holds: a claim whose answer was lost, or that could not be given back.
        self.connector.rollback(owner=self.run_id, reason=f"run {self.run_id} begins again")
        state = self.connector.client_state()
        self.lake.check_cursor(state)
        stopped = {stop["table"]: stop for stop in state["stopped"]}
        tally = checks.Tally(self.names, self.tables)
        while tally.batches < limits.max_batches and (left := deadline - self.clock()) > 0:
            linger = min(limits.linger_seconds, left)
            with self.connector.claim(
                limits.batch_size, owner=self.run_id, timeout_seconds=linger, lease_seconds=limits.lease_seconds
            ) as claim:
                if claim is None:
                    break
                results = self.lake.apply(claim, self.run_id, limits.parallelism, list(stopped))
                judgements = checks.judge(claim, results)
                yield from self._gate(claim, judgements)
                stopped |= self._stop(claim, results, stopped)
                self.lake.note(claim, results, self.run_id)
            tally.add(judgements)
            self._report(claim, results)
        self.context.log.info(f"{tally.batches} batches, then {self._end(tally, deadline)}")
        yield from tally.results(stopped)

    def _gate(self, claim: Claim, judgements: Sequence[checks.Judgement]) -> Iterator[dg.AssetCheckResult]:
        """Ends the run when a check failed. A failed check alone would not: Dagster goes on after the yield."""
        failed = [one for one in judgements if not one.verdict.passed]
        for one in failed:
            if one.table in self.tables:
                yield checks.red(self.names, one, claim)
            else:
                self.context.log_event(checks.evaluation(self.names, one, claim))
        if failed:
            told = "; ".join(f"{one.check} of {one.table}: {one.verdict.text}" for one in failed)
            hint = "The batch was given back and the cursor did not move. Compare the table with `sluice verify`."
            raise dg.Failure(
                description=f"{told} at batch {claim.batch_id}, {claim.start} to {claim.end}. {hint}",
                metadata={"error": "CheckFailed", "message": told, "place": f"batch {claim.batch_id}", "hint": hint},
                allow_retries=False,
            )

    def _stop(
        self, claim: Claim, results: Sequence[TableResult], known: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Notes at the service, before the ack, which tables take no more changes from here on."""
        stops = {}
        for result in results:
            if result.stop is None or result.table in known:
                continue
            stop = result.stop
            reason = f"{stop.message} at {stop.place}" if stop.place else stop.message
            self.connector.stop_table(result.table, reason=reason, hint=stop.hint, position=claim.start)
            self.context.log.error(f"{result.table} stopped: {stop}")
            stops[result.table] = {"reason": reason, "hint": stop.hint, "position": str(claim.start)}
        return stops

    def _report(self, claim: Claim, results: Sequence[TableResult]) -> None:
        """One materialization a table, a line in the log and the run's tags: the batch is checked and acked."""
        context, rows = self.context, claim.rows
        for result in results:
            if result.stop is None:
                facts = of_batch(claim, result, self.run_id)
                context.log_event(dg.AssetMaterialization(self.names.delta(result.table), metadata=facts))
        slowest = max((result.merge_seconds for result in results), default=0.0)
        context.log.info(
            f"batch {claim.batch_id} acked: {rows} rows of {len(results)} tables, {claim.start} to {claim.end}, "
            f"slowest merge {slowest:.1f} s"
        )
        tags = {"cdc/batch_id": str(claim.batch_id), ACKED_TAG: str(claim.end)}
        context.instance.add_run_tags(self.run_id, tags)

    def _end(self, tally: checks.Tally, deadline: float) -> str:
        if tally.batches >= self.limits.max_batches:
            return f"max_batches {self.limits.max_batches} reached"
        if self.clock() >= deadline:
            return f"max_seconds {self.limits.max_seconds:g} reached"
        return "drained"
