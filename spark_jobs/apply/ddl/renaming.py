"""RENAME TABLE: all renames of a statement at once, swaps and other databases among them.

A table's rows are read from the version that it had before the statement, so the order of the commits does not matter
and a replay finds the same rows. Each target is one commit; then the tables that have no new rows are retired. The rows
of a stopped table are wrong, so no table gets them; a stopped table that gets another table's rows is resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from cdc_core.errors import TableStopped
from cdc_core.schema.ddl import EffectKind
from cdc_core.schema.sql_text import SHOWN, shown
from spark_jobs.apply.commits import is_step
from spark_jobs.apply.ddl.again import check_again
from spark_jobs.apply.ddl.consent import check_consent
from spark_jobs.apply.ddl.mending import is_mended, mend_old_name
from spark_jobs.apply.ddl.standing import DdlTarget, filled, retire, standing
from spark_jobs.apply.ddl.steps import Step, origins
from spark_jobs.apply.ddl.waiting import take_over, waiting_rows
from spark_jobs.apply.result import DONE_BEFORE, Followed, Refusal
from spark_jobs.apply.table import Batch
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.progress import TableProgress
from spark_jobs.lake.replacement import replace_table, rows_of
from spark_jobs.lake.state import FENCE, TABLE, TableState


@dataclass(frozen=True, slots=True)
class RenamedTable:
    """The table whose rows move, as it was before the statement. `exact`: none of its rows comes again, so that the
    target's earlier rows do not matter. `waiting`: the rows of its quarantine, None if it has none."""

    path: str
    state: TableState
    exact: bool
    waiting: pa.Table | None = None


def rename(batch: Batch, step: Step, stopped: Collection[str]) -> Iterator[Followed | Refusal]:
    """Gives each table the rows that its name has now. The target of a rename from a table in `stopped` must be
    copied. A stopped table is followed where that mends it."""
    tables: dict[str, DdlTarget] = {}
    for name in step.tables:
        try:
            tables[name] = standing(batch, name)
        except TableStopped as error:
            if name not in stopped:
                yield Refusal(name, error)
    moves = {target: origin for target, origin in origins(step.effects).items() if target in tables}
    known = {*moves.values()} & {*tables}.difference(stopped)
    found = {origin: _origin(tables[origin], step) for origin in known if origin is not None}
    work = _RenameWork(step, tables, found, stopped)
    refused = set[str]()
    for target in sorted(moves, key=lambda name: moves[name] is None):  # old names last
        origin = moves[target]
        if target in refused:
            continue
        try:
            step.check_seen(target)
            outcomes = work.old_name(target) if origin is None else work.moved(target, origin)
        except TableStopped as error:
            outcomes = [Refusal(target, error)]
        refused |= {outcome.table for outcome in outcomes if isinstance(outcome, Refusal)}
        yield from outcomes


@dataclass(frozen=True, slots=True)
class _RenameWork:
    """One step at work: the tables that it touches, and the rows that move, by the table that had them."""

    step: Step
    tables: dict[str, DdlTarget]
    found: dict[str, RenamedTable | None]
    stopped: Collection[str]

    def moved(self, target: str, origin: str) -> list[Followed | Refusal]:
        """Moves the rows of `origin` to `target`, and returns the outcome. Raises TableStopped."""
        at, rows, step = self.tables[target], self.found.get(origin), self.step
        exact = rows is not None and rows.exact
        if at.has(step, anew=exact):
            return self._followed(target, DONE_BEFORE if self._is_right(at) else None, origin)
        if rows is None:
            if origin not in self.stopped and self._may_be_absent(origin):
                return []
            why = "which is stopped" if origin in self.stopped else "which the lake does not have"
            raise CopyNeeded(f"it was renamed from {origin}, {why}", target)
        try:
            check_consent(self.tables[origin], step)
            check_consent(at, step)
        except TableStopped as error:
            return [Refusal(name, error) for name in (origin, target)]
        if not exact:
            check_again(at, step)
        take_over(at, step, rows.waiting)
        _move(at, step, rows)
        return self._followed(target, f"has the rows of {origin}", origin)

    def _may_be_absent(self, origin: str) -> bool:
        """Whether the source may have had no such table, so that RENAME ... IF EXISTS left it out."""
        return any(one.conditional and one.before is None for one in self.step.effects if one.name == origin)

    def old_name(self, table: str) -> list[Followed | Refusal]:
        """Retires a table that has no rows any more, and returns the outcome. Raises TableStopped."""
        at = self.tables[table]
        if table in self.stopped:
            return self._followed(table, mend_old_name(at, self.step))
        if at.live is not None and not at.has(self.step):
            take_over(at, self.step, None)
            retire(at, self.step)
        return self._followed(table, "renamed")

    def _is_right(self, at: DdlTarget) -> bool:
        return at.table not in self.stopped or is_mended(at, self.step)

    def _followed(self, table: str, outcome: str | None, origin: str = "") -> list[Followed | Refusal]:
        """Nothing for a table that stays stopped."""
        if not outcome:
            return []
        ddl = self.step.ddl
        return [Followed(table, EffectKind.RENAME, shown(ddl.text, SHOWN), ddl.position, outcome, origin)]


def _origin(at: DdlTarget, step: Step) -> RenamedTable | None:
    """Returns the table as it was before the statement, or None if the lake does not have it. Raises nothing: the
    target that needs it is refused."""
    if at.state is None:
        return None
    try:
        if not at.has(step):
            state = None if at.state.dropped else filled(at)
            return RenamedTable(at.path, state, _is_exact(at), waiting_rows(at, state)) if state else None
    except TableStopped:
        return None
    lake, claim = at.batch.lake, at.batch.claim
    for commit in lake.commits(at.path):
        if is_step(commit, claim, at.table, step.version):
            before = lake.state(at.path, at.app, commit.version - 1) if commit.version else None
            return (
                None
                if before is None or before.dropped
                else RenamedTable(at.path, before, _is_exact(at, before.version), waiting_rows(at, before))
            )
    return None


def _is_exact(at: DdlTarget, version: int | None = None) -> bool:
    progress = TableProgress.read(at.batch.ledger, at.table, at.batch.claim.epoch, version)
    return progress is None or not progress.crosses(at.batch.range.epoch)


def _move(at: DdlTarget, step: Step, origin: RenamedTable) -> None:
    state, noted = origin.state, at.begun(step) if origin.exact else at.note(step)
    properties = state.own_properties | {TABLE: at.table, FENCE: at.batch.fence.token} | noted
    with at.committing(step) as spark:
        replace_table(at.path, rows_of(spark, origin.path, state.version), state.columns, properties, state.comment)
