"""One run that merges change logs: the results of merges become materializations, checks and reports to the service.

`merge_asset` gives it what it works with; `spark_jobs.following` merges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dagster as dg

from cdc_core.contract.stopped_table import BLOCKED
from cdc_core.errors import LakeError, ServiceUnavailable, SluiceError
from cdc_core.schema.names import split_name
from orchestration.assets.checks import expected_result
from orchestration.assets.metadata import union_metadata
from orchestration.assets.reports import Reports
from orchestration.assets.row_count import ROW_COUNT, CountTime, RowCount
from orchestration.assets.schema_changes import SCHEMA_CHANGE, ColumnChanges, schema_result
from orchestration.assets.turns import queued
from orchestration.assets.verdicts import Verdicts
from orchestration.assets.waiting_rows import BlockedReports, WaitingReports
from orchestration.names import MERGED, PLACE, Names, place_text
from spark_jobs.apply.checks import expected
from spark_jobs.expectations.expectation import Expectation
from spark_jobs.following.follow import Follow
from spark_jobs.following.history.columns import table_of
from spark_jobs.following.merged import Merged
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.parked import Parked
from spark_jobs.union.publish import Published


@dataclass(slots=True)
class MergeRun:
    """One run. `tables` are declared; other tables with a log are merged all the same. `stop` makes the service note
    that a table takes no more changes; `publish` brings a table's unions to its rows; `waiting` reports the rows that
    wait, `blocked` the tables that their rows block. `lake`: to count rows in."""

    context: dg.OpExecutionContext
    names: Names
    tables: Sequence[str]
    follow: Follow
    stop: Callable[[Merged], None]
    publish: Callable[[str], Sequence[Published]]
    reports: Reports
    selected: Collection[dg.AssetCheckKey]
    expected: Mapping[str, Sequence[Expectation]] = field(default_factory=dict)
    waiting: WaitingReports | None = None
    blocked: BlockedReports | None = None
    lake: Lake | None = None
    watches_columns: bool = False
    verdicts: Verdicts = field(init=False)
    done: dict[str, Merged] = field(default_factory=dict)
    counts: CountTime = field(default_factory=CountTime)
    _contradicting: list[Merged] = field(default_factory=list)
    _assets: dict[dg.AssetKey, str] = field(init=False)

    def __post_init__(self) -> None:
        self._assets = {self.names.followed(table): table for table in self.tables}
        lasting = [dg.AssetCheckKey(key, MERGED) for key in self._assets]
        if self.watches_columns:
            lasting += [dg.AssetCheckKey(key, SCHEMA_CHANGE) for key in self._columned]
        self.verdicts = Verdicts(self.context.instance, self.context.log_event, lasting)

    def run(self) -> Iterator[dg.AssetCheckResult]:
        """Merges. Yields every selected check once, at the end; one that changes is shown at once, because a run may
        stay for long."""
        self._report_blocked()
        try:
            self._merge()
        finally:
            self.reports.write_all()
            self._report_blocked()
        parked = self.follow.parking.tables()
        concerned = {self.names.followed(one) for one in (*parked, *self.done)} | self.verdicts.red()
        concerned |= {key.asset_key for key in self.selected}
        tables = [(key, table) for key, table in self._assets.items() if key in concerned]
        results = [_check(key, parked.get(table), self.done.get(table)) for key, table in tables]
        results += [one for key, table in tables for one in (*self._expected(key, table), *self._columns(key, table))]
        yield from self.verdicts.end(results, self.selected)

    def _expected(self, key: dg.AssetKey, table: str) -> Iterator[dg.AssetCheckResult]:
        """Yields the results of what is expected of a table, of its last parts; of a table without a part only of the
        selected ones."""
        done = self.done.get(table)
        verdicts = {one.check: one for one in expected(table, done.expected)} if done else {}
        for one in self.expected.get(table, ()):
            if one.name in verdicts or dg.AssetCheckKey(key, one.name) in self.selected:
                yield expected_result(key, table, one, verdicts.get(one.name))

    @property
    def _columned(self) -> list[dg.AssetKey]:
        """Returns the declared tables, without histories."""
        return [key for key, work in self._assets.items() if table_of(work) is None]

    def _columns(self, key: dg.AssetKey, table: str) -> Iterator[dg.AssetCheckResult]:
        """Yields the columns that came with rows of the log; the drain reports what statements change. That none came
        only if an earlier run warned, or if selected."""
        if not self.watches_columns or table_of(table) is not None:
            return
        done, check = self.done.get(table), dg.AssetCheckKey(key, SCHEMA_CHANGE)
        if done is not None and done.added_columns:
            yield schema_result(key, ColumnChanges(done.added_columns))
        elif check in self.selected or (done is not None and self.verdicts.is_red(check)):
            yield schema_result(key, None)

    def gives_way(self) -> bool:
        """Whether another run waits for this one's end. Called between merges, also while none is due."""
        self.reports.write_due()
        return queued(self.context.instance, self.names.merging)

    def _merge(self) -> None:
        try:
            for outcome in self.follow.run():
                if isinstance(outcome, Parked):
                    state = "is blocked" if outcome.kind == BLOCKED else "waits"
                    waits = f"{outcome.table} {state}, try {outcome.tries}: {outcome.reason}. {outcome.hint}"
                    self.context.log.error(waits)
                    self._show(outcome.table, outcome)
                else:
                    self._report(outcome)
                    self._show(outcome.table, None)
        finally:
            self._stop_contradicting()

    def _report_blocked(self) -> None:
        if self.blocked is not None:
            self.blocked.report()

    def _show(self, table: str, parked: Parked | None) -> None:
        """Reports the check of a table that waits now, or no longer waits."""
        if self.blocked is not None:
            self.blocked.after(table, is_blocked=parked is not None and parked.kind == BLOCKED)
        key = self.names.followed(table)
        if key in self._assets:
            expected, columns = self._expected(key, table), self._columns(key, table)
            self.verdicts.report([_check(key, parked, self.done.get(table)), *expected, *columns])

    def _report(self, merged: Merged) -> None:
        if merged.view_error:
            self.context.log.warning(f"{merged.table}: {merged.view_error}")
        before = self.done.get(merged.table)
        self.done[merged.table] = before + merged if before else merged
        self.reports.add(self.names.followed(merged.table), self._metadata(merged) | self._count(merged.table))
        self._publish(merged)
        if self.waiting is not None and merged.expected:
            self.waiting.after(merged.epoch, [merged.table])
        self.reports.write_due()
        if merged.contradiction:
            self.context.log.error(f"{merged.table} contradicts its change log: {merged.contradiction}")
            self._contradicting.append(merged)
            with suppress(ServiceUnavailable):  # tried again when the merges are done, of which no result may be lost
                self._stop_contradicting()

    def _publish(self, merged: Merged) -> None:
        """A union that cannot be written is made up for by the next batch or job."""
        try:
            for union in self.publish(merged.table):
                if union.changed:
                    facts = union_metadata(union, self.context.run.run_id)
                    self.reports.add(self.names.delta(union.union), facts)
                for table, error in union.refused.items():
                    self.context.log.error(f"{table} is not in {union.union}: {error}")
        except LakeError as error:
            self.context.log.error(str(error))

    def _count(self, work: str) -> dict[str, RowCount]:
        """The rows of a table, or of its history."""
        if self.lake is None:
            return {}
        table = table_of(work)
        at = self.lake.path if table is None else self.lake.history_path
        return {ROW_COUNT: RowCount(self.lake, partial(at, *split_name(table or work)), self.counts)}

    def _stop_contradicting(self) -> None:
        while self._contradicting:
            self.stop(self._contradicting[0])
            self._contradicting.pop(0)

    def _metadata(self, merged: Merged) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "rows": merged.rows,
            "rows_inserted": merged.inserted,
            "rows_updated": merged.updated,
            "rows_deleted": merged.deleted,
            "lag_seconds": max(0.0, round(merged.merged_at - merged.since, 3)),
            "merge_seconds": round(merged.seconds, 3),
            "epoch": merged.epoch,
            "applied": merged.upto,
            PLACE: place_text(merged.epoch, merged.upto),
            "engine": merged.engine,
            "run_id": self.context.run.run_id,
        }
        if merged.expected:
            facts["bad_rows"] = sum(one.bad for one in merged.expected)
            facts["quarantined_rows"] = max(one.waiting for one in merged.expected)
        with suppress(SluiceError):  # the merge is done; the next one reports what is wrong with the log
            left = self.follow.merger.pending(merged.table)
            facts |= {"rows_left": left.rows if left else 0, "log_end": left.end if left else merged.upto}
        return facts | ({"delta_version": merged.delta_version} if merged.delta_version is not None else {})


def _check(key: dg.AssetKey, parked: Parked | None, done: Merged | None) -> dg.AssetCheckResult:
    """Red for a table that waits after a failure."""
    if parked is None:
        text = f"{done.rows} rows of its log merged" if done else "there was nothing to merge"
        return dg.AssetCheckResult(passed=True, asset_key=key, check_name=MERGED, description=text)
    return dg.AssetCheckResult(
        passed=False,
        asset_key=key,
        check_name=MERGED,
        description=f"{parked.reason}. {parked.hint} Its log grows meanwhile, and nothing is lost.",
        metadata={
            "kind": parked.kind,
            "reason": parked.reason,
            "hint": parked.hint,
            "tries": parked.tries,
            "since": dg.MetadataValue.timestamp(parked.since),
            "next_try": dg.MetadataValue.timestamp(parked.next_try),
        },
    )
