"""The verdicts of one run's checks, by table: what each batch adds, and the results that Dagster gets of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import dagster as dg

from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.schema.ddl import EffectKind
from orchestration.assets.checks import (
    TAKES_CHANGES,
    doubtful,
    expected_result,
    quarantine_over,
    severity,
    takes_changes,
)
from orchestration.assets.landed import ROWS_LANDED
from orchestration.assets.schema_changes import SCHEMA_CHANGE, ColumnChanges, schema_result
from orchestration.names import Names
from spark_jobs.apply.checks import CHECKS, ROWS_ADD_UP, Verdict
from spark_jobs.apply.result import DONE_BEFORE, BatchResult
from spark_jobs.expectations.expectation import Expectation, Severity
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.remedy import copy_hint

_OWN = frozenset(check.name for check in CHECKS)


@dataclass(slots=True)
class Tally:
    """The verdicts of a run's checks, by declared table: how many batches passed, the verdicts of the batch that
    stopped it, and which tables are stopped. `touched`: tables that got changes. `doubts`: the rows of each table that
    were not as the source's changes presume, since it was created; `noted`: the ledger's note of them. `logs`: declared
    tables whose changes land in their logs. `expected`: what is expected of declared tables; `latest`: the last
    verdicts of that. `watches_columns`: whether a change of columns is a warning; `columns`: those of this run.
    `is_red`: whether Dagster shows a check as failed; `waiting`: how many rows wait by
    table, None while that is not known."""

    names: Names
    tables: Sequence[str]
    batches: int = 0
    passed: dict[tuple[str, str], int] = field(default_factory=dict)
    failed: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    stopped: dict[str, StoppedTable] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    doubts: dict[str, Doubt] = field(default_factory=dict)
    noted: dict[str, Doubt] = field(default_factory=dict)
    logs: Sequence[str] = ()
    expected: Mapping[str, Sequence[Expectation]] = field(default_factory=dict)
    latest: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    watches_columns: bool = False
    columns: dict[str, ColumnChanges] = field(default_factory=dict)
    is_red: Callable[[dg.AssetCheckKey], bool] = lambda _: False
    waiting: Callable[[], Mapping[str, int] | None] = lambda: None
    _assets: dict[dg.AssetKey, str] = field(init=False)
    _log_assets: dict[dg.AssetKey, str] = field(init=False)

    def __post_init__(self) -> None:
        self._assets = {self.names.delta(table): table for table in self.tables}
        self._log_assets = {self.names.log(table): table for table in self.logs}

    def doubts_to_note(self, batch: BatchResult) -> dict[str, Doubt]:
        """Returns the totals of tables that became doubtful with the batch, or twice as doubtful as noted, so that a
        lake that began late gets a few notes of a table, not one for each batch; and the totals that a RENAME moved."""
        totals = self._with(batch)
        grown = {one.table for one in batch.applied if one.doubt}
        wanted = {name: totals[name] for name in grown if totals[name].rows >= 2 * self._noted(name).rows}
        renamed = {one.table for one in batch.followed if one.kind == EffectKind.RENAME}
        moved = {name: totals.get(name, Doubt()) for name in renamed}
        return wanted | {name: one for name, one in moved.items() if one != self._noted(name)}

    def add(self, batch: BatchResult, verdicts: Sequence[Verdict], noted: Mapping[str, Doubt]) -> None:
        """Adds an acked batch, of which these doubts were noted."""
        self.batches += 1
        self.touched |= tables_of(batch)
        self.noted |= noted
        self.doubts = {name: doubt for name, doubt in self._with(batch).items() if doubt}
        for landed in batch.landed:
            self.passed[landed.table, ROWS_LANDED] = self.passed.get((landed.table, ROWS_LANDED), 0) + 1
        stopping = {one.table for one in verdicts if one.blocks}
        for one in verdicts:
            if one.check not in _OWN:
                self.latest[one.table, one.check] = one
            elif one.passed:
                self.passed[one.table, one.check] = self.passed.get((one.table, one.check), 0) + 1
            elif one.table in stopping:
                self.failed[one.table, one.check] = one

    def _noted(self, table: str) -> Doubt:
        return self.noted.get(table, Doubt())

    def _with(self, batch: BatchResult) -> dict[str, Doubt]:
        """The doubts after the batch. Those of a table go with its rows to another name."""
        totals = dict(self.doubts)
        renames = (one for one in batch.followed if one.kind == EffectKind.RENAME)
        for _, moves in groupby(renames, lambda one: one.position):
            before = dict(totals)
            for one in moves:
                stays = before.get(one.table) if one.outcome == DONE_BEFORE else None  # moved by the try before
                totals[one.table] = before.get(one.origin) or stays or Doubt()
        for result in batch.applied:
            if result.doubt:
                totals[result.table] = totals.get(result.table, Doubt()) + result.doubt
        return totals

    def keep_stopped(self, tables: Collection[str]) -> set[str]:
        """Only these are still stopped. Returns the others, whose stop was lifted: what contradicted their changes is
        mended."""
        lifted = {name for name in self.stopped if name not in tables}
        self.stopped = {name: stop for name, stop in self.stopped.items() if name in tables}
        self.failed = {(name, check): one for (name, check), one in self.failed.items() if name not in lifted}
        self.latest = {at: one for at, one in self.latest.items() if at[0] not in lifted or not one.blocks}
        return lifted

    def is_news(self, verdict: Verdict, doubts: Collection[str]) -> bool:
        """Whether a verdict has an event before the ack of its batch: it blocks, its table is among the `doubts` to
        note, or rows fail what they met until then, as far as this run knows."""
        if verdict.blocks:
            return True
        if verdict.check in _OWN:
            return verdict.warns and verdict.table in doubts
        before = self.latest.get((verdict.table, verdict.check))
        return not verdict.passed and (before is None or before.passed)

    def forget_doubts(self, tables: Collection[str]) -> None:
        """These were reloaded."""
        self.doubts = {name: doubt for name, doubt in self.doubts.items() if name not in tables}
        self.noted = {name: doubt for name, doubt in self.noted.items() if name not in tables}

    def keys(self, tables: Collection[str]) -> set[dg.AssetKey]:
        """Returns the assets of these tables, and of all that are stopped or doubtful."""
        return self.assets({*tables, *self.stopped, *self.doubts})

    def assets(self, tables: Collection[str]) -> set[dg.AssetKey]:
        return {key(table) for table in tables for key in (self.names.delta, self.names.log)}

    def lasting(self) -> list[dg.AssetCheckKey]:
        """Returns the checks that may change without rows: an operator resumes or reloads a table."""
        deltas = [dg.AssetCheckKey(key, check) for key in self._assets for check in (TAKES_CHANGES, ROWS_ADD_UP)]
        for key, table in self._assets.items():
            deltas += [dg.AssetCheckKey(key, one.name) for one in self.expected.get(table, ()) if _lasts(one)]
        if self.watches_columns:
            deltas += [dg.AssetCheckKey(key, SCHEMA_CHANGE) for key in self._assets]
        return deltas + [dg.AssetCheckKey(key, TAKES_CHANGES) for key in self._log_assets]

    def results(
        self, keys: Collection[dg.AssetKey] | None = None, selected: Collection[dg.AssetCheckKey] = ()
    ) -> Iterator[dg.AssetCheckResult]:
        """Yields the result of every declared check, once; only for these assets if they are given. An expectation of a
        table without rows has none, unless it was `selected`."""
        for key, table in self._assets.items():
            if keys is None or key in keys:
                for check in CHECKS:
                    yield self._result(key, table, check.name)
                yield takes_changes(key, self.stopped.get(table), self._copy(table))
                yield from self._expected(key, table, selected)
                if self.watches_columns:
                    yield from self._columns(key, table, selected)
        for key, table in self._log_assets.items():
            if keys is None or key in keys:
                yield self._result(key, table, ROWS_LANDED)
                yield takes_changes(key, self.stopped.get(table), self._copy(table))

    def _expected(
        self, key: dg.AssetKey, table: str, selected: Collection[dg.AssetCheckKey]
    ) -> Iterator[dg.AssetCheckResult]:
        for one in self.expected.get(table, ()):
            found, check = self.latest.get((table, one.name)), dg.AssetCheckKey(key, one.name)
            if found is None and self._isquarantine_over(table, one, check):
                yield quarantine_over(key, one)
            elif found is not None or check in selected:
                yield expected_result(key, table, one, found)

    def _columns(
        self, key: dg.AssetKey, table: str, selected: Collection[dg.AssetCheckKey]
    ) -> Iterator[dg.AssetCheckResult]:
        """Yields what changed in the table's columns; "nothing" only if an earlier run warned, or if selected."""
        check = dg.AssetCheckKey(key, SCHEMA_CHANGE)
        if table in self.columns:
            yield schema_result(key, self.columns[table])
        elif check in selected or (table in self.touched and self.is_red(check)):
            yield schema_result(key, None)

    def changed_columns(self, changes: Mapping[str, ColumnChanges]) -> Iterator[dg.AssetCheckResult]:
        """Adds what a batch changed in the columns of tables. Yields the results, also of tables that are not
        declared here."""
        for table, one in changes.items():
            self.columns[table] = self.columns[table] + one if table in self.columns else one
            yield schema_result(self.names.delta(table), self.columns[table])

    def _isquarantine_over(self, table: str, one: Expectation, check: dg.AssetCheckKey) -> bool:
        """Whether what made a check red has ended without a batch: a stop was lifted, a copy ended the quarantine."""
        rows = self.waiting()
        ended = rows is not None and not rows.get(table) and table not in self.stopped
        return ended and _lasts(one) and self.is_red(check)

    def _copy(self, table: str) -> str:
        return copy_hint(self.names.destination, table)

    def _result(self, key: dg.AssetKey, table: str, check: str) -> dg.AssetCheckResult:
        batches, failed = self.passed.get((table, check), 0), self.failed.get((table, check))
        if check == ROWS_ADD_UP and table in self.doubts and not failed:
            return doubtful(key, self.doubts[table], self._copy(table))
        text = f"{batches} batches passed" if batches else "no batch had rows of this table"
        return dg.AssetCheckResult(
            passed=failed is None,
            asset_key=key,
            check_name=check,
            severity=severity(failed),
            description=failed.text if failed else text,
            metadata={"batches": batches, **(failed.figures if failed else {})},
        )


def tables_of(batch: BatchResult) -> set[str]:
    """The tables to which something came with the batch."""
    rows = {one.table for one in batch.applied} | {one.table for one in batch.landed}
    return rows | {one.table for one in batch.refused} | {one.table for one in batch.followed}


def _lasts(one: Expectation) -> bool:
    """Whether a failure of the expectation lasts beyond its batch: rows wait, or the table is blocked."""
    return one.severity is not Severity.WARN
