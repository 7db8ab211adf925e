"""The Delta tables that follow their change logs, as one multi-asset, and the job that merges them: each at its own
pace.

It needs the lake and Spark alone: the service is asked for nothing but to stop a table that contradicts its log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from cdc_core.contract.stopped_table import BLOCKED
from cdc_core.errors import LakeError, ServiceUnavailable, SluiceError
from cdc_core.schema.names import split_name
from orchestration.assets.checks import expected_result, expected_specs
from orchestration.assets.landed import LandedTables
from orchestration.assets.lineage import history_spec, merged_spec
from orchestration.assets.metadata import union_metadata
from orchestration.assets.reports import Reports
from orchestration.assets.row_count import ROW_COUNT, CountTime, RowCount
from orchestration.assets.schema_changes import SCHEMA_CHANGE, ColumnChanges, schema_result, schema_specs
from orchestration.assets.turns import queued
from orchestration.assets.verdicts import Verdicts
from orchestration.assets.waiting_rows import WaitingReports
from orchestration.freshness import parse_freshness
from orchestration.jobs.routine import Routine
from orchestration.names import MERGED, PLACE, Names, place_text
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from spark_jobs.apply.checks import expected
from spark_jobs.apply.waiting_rows import WaitingRows
from spark_jobs.expectations.expectation import Expectation
from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.columns import table_of, work_of
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Follows, place_of
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.parked import Parked, Parking
from spark_jobs.union.publish import Published, publish

_HISTORY = "The history takes what the change log has: its last write did not fail."
_TEXT = "The table takes what its change log has: its last merge did not fail."


class Following(dg.Config):
    """How a run merges. `defs.yaml` has the defaults."""

    max_seconds: float = Field(3000, gt=0, description="The run begins no merge after this time.")
    linger_seconds: float = Field(10, ge=0, description="The run ends when nothing is to be merged for this long.")
    parallelism: int = Field(0, ge=0, description="Tables merged side by side; 0: as many as Spark has cores.")
    parked: bool = Field(False, description="Try tables that wait after a failure at once.")
    freshness_seconds: float = Field(
        0, ge=0, description="A row may be so old until its table has it; 0: as fresh as can be."
    )


@dataclass(slots=True)
class Run:
    """One run. `tables` are declared; other tables with a log are merged all the same. `stop` makes the service note
    that a table takes no more changes; `publish` brings a table's unions to its rows; `waiting` reports the rows that
    wait. `lake`: to count rows in."""

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
        try:
            self._merge()
        finally:
            self.reports.write_all()
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

    def _show(self, table: str, parked: Parked | None) -> None:
        """Reports the check of a table that waits now, or no longer waits."""
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


def merge_asset(settings: Settings, tables: LandedTables) -> dg.AssetsDefinition:
    """Return the tables of a destination that follow their logs, and their histories."""
    names, own, kept = settings.names, tables.followed, tables.histories
    return _routine(settings, tables).asset(
        [
            *(merged_spec(settings, table, tables.schemas[table]) for table in own),
            *(history_spec(settings, table, tables.schemas[table]) for table in kept),
        ],
        [
            *(dg.AssetCheckSpec(MERGED, asset=names.delta(table), description=_TEXT) for table in own),
            *(dg.AssetCheckSpec(MERGED, asset=names.history(table), description=_HISTORY) for table in kept),
            *expected_specs(settings, own, tables.expected),
            *(schema_specs(map(names.delta, own)) if settings.schema_change == "warn" else ()),
        ],
        f"Merges the change logs of {settings.destination}, table by table.",
    )


def merge_job(settings: Settings, tables: LandedTables) -> dg.JobDefinition:
    """Return the job that the sensor starts."""
    return _routine(settings, tables).job(f"Merge the change logs of {settings.destination} into their tables.")


def _routine(settings: Settings, tables: LandedTables) -> Routine:
    names = settings.names
    declared = [*tables.followed, *(work_of(table) for table in tables.histories)]

    def work(context: dg.OpExecutionContext, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        pace = FollowOptions(**context.op_config)
        with lake.merging(settings.destination, settings.client_id, context.run_id) as works:
            pace = replace(pace, parallelism=pace.parallelism or works.cores())
            parking = Parking(works.follows.lake, settings.destination, settings.client_id)
            follow = Follow(works, parking, lambda: works.of(_landed(works.follows, tables.follows)), pace)
            reports = Reports(context.log_event, settings.report_seconds, time.monotonic)
            stop = partial(_stop, canal, works.follows)
            unions = partial(_published, works.follows.lake)
            waiting = _waiting(context, canal, works.follows)
            run = Run(
                context,
                names,
                declared,
                follow,
                stop,
                unions,
                reports,
                selected,
                tables.expected,
                waiting,
                works.follows.lake,
                settings.schema_change == "warn",
            )
            follow.gives_way = run.gives_way
            yield from run.run()

    resources = frozenset({names.canal, names.lake})
    return Routine(names.merging, names.merging_job, resources, Following, _defaults(settings), names.merge_tags, work)


def _landed(follows: Follows, is_landed: Callable[[str], bool]) -> list[str]:
    return [table for table in follows.lake.logs(follows.destination) if is_landed(table)]


def _published(lake: Lake, table: str) -> list[Published]:
    return [publish(lake, one, [table]) for one in lake.unions.among([table])]


def _waiting(context: dg.OpExecutionContext, canal: CanalResource, follows: Follows) -> WaitingReports:
    def count(epoch: int, tables: Collection[str] | None = None) -> dict[str, int]:
        return WaitingRows(follows.lake, follows.destination, follows.client_id, epoch).counts(tables)

    def report(rows: Mapping[str, int], *, whole: bool = False) -> None:
        with canal.connect() as connector:
            connector.report_quarantined(rows, whole=whole)

    return WaitingReports(count, report, lambda _: True, context.log.warning)


def _stop(canal: CanalResource, follows: Follows, merged: Merged) -> None:
    """Has the service note it, as of a table that contradicts a batch."""
    hint = copy_hint(follows.destination, merged.table)
    with canal.connect() as connector:
        position = place_of(merged.upto)
        connector.stop_table(merged.table, reason=merged.contradiction, hint=hint, position=position, copy_needed=True)


def _check(key: dg.AssetKey, parked: Parked | None, done: Merged | None) -> dg.AssetCheckResult:
    """Red for a table that waits after a failure."""
    if parked is None:
        text = f"{done.rows} rows of its log merged" if done else "nothing was to be merged"
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


def _defaults(settings: Settings) -> dict[str, Any]:
    """Return a run's configuration as defs.yaml declares it. With `freshness: asap` a run stays, as the drain's does:
    the start of another one would cost more than a merge."""
    limits = settings.limits
    known = {name: getattr(limits, name) for name in ("parallelism", "linger_seconds", "max_seconds")}
    known |= {"linger_seconds": limits.max_seconds} if settings.merges_stay else {}
    return known | {"freshness_seconds": parse_freshness(settings.freshness).seconds}
