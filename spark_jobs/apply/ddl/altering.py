"""ALTER TABLE: by name if no row changes; otherwise the table is rewritten in one commit. So is a shard whose columns
get other names or go: its union reads its files by the names that they have.

A run that dies half way leaves some of the changes by name. The next run does the missing ones; the last commit carries
the statement's version.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql.connect.session import SparkSession

from cdc_core.schema.ddl import ChangeKind, Effect, EffectKind
from spark_jobs.apply.ddl.consent import check_consent
from spark_jobs.apply.ddl.standing import DdlTarget, filled, mark
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.lake.alteration import Alteration, alteration, empty_columns, with_dropped
from spark_jobs.lake.by_name import metadata_changes, needed_properties, statements
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ddl import alter_table, listed
from spark_jobs.lake.features import MAPPING
from spark_jobs.lake.own_columns import living_now
from spark_jobs.lake.policies import Changed
from spark_jobs.lake.replacement import replace_table
from spark_jobs.lake.seen_columns import check_rules, definition_properties
from spark_jobs.lake.sql import literal, quote, table_at
from spark_jobs.lake.state import EMPTY_COLUMNS, PRIMARY_KEY, TableState

_OF_LATER_ROWS = (ChangeKind.SET_DEFAULT, ChangeKind.DROP_DEFAULT, ChangeKind.FOREIGN_KEY)
_OF_STRUCTURE = (
    *_OF_LATER_ROWS,
    ChangeKind.ADD_COLUMN,
    ChangeKind.DROP_COLUMN,
    ChangeKind.RENAME_COLUMN,
    ChangeKind.COMMENT,
)


def alter(at: DdlTarget, step: Step, effect: Effect) -> str:
    """Alters the table, and returns the outcome. The outcome is "" if the lake has no such table and the statement,
    which was not understood, may not concern it.

    Raises CopyNeeded if old rows' values are not known, TableStopped for a definition that no lake table can have.
    """
    state = at.live
    if state is None:
        if effect.kind is EffectKind.REWRITE:
            raise CopyNeeded("it has rows that were never captured", at.table)
        return (
            "" if all(change.kind is ChangeKind.UNKNOWN for change in effect.changes) else "the lake has no such table"
        )
    state = filled(at) or state
    changed = at.batch.policies.of(at.table).changed
    if not _is_shown(effect):
        return "no change in the lake"
    if changed is Changed.IGNORE:
        if effect.kind is EffectKind.REWRITE or any(change.kind not in _OF_STRUCTURE for change in effect.changes):
            raise CopyNeeded("its policy is ignore, and the statement changes values or types", at.table)
        return "skipped by the table's policy"
    check_consent(at, step)
    if effect.before is not None:
        check_rules(effect.before, state)
    plan = alteration(effect, state.columns)
    comments = [one.definition for one in effect.changes if one.kind is ChangeKind.COMMENT]
    comment = [state.comment, *comments][-1]
    if plan is None:
        return _noted(at, step, state, empty_columns(effect), comment)
    if changed is Changed.LENIENT:
        plan = with_dropped(plan, state.columns)
    state.own.check(at.table, plan.schema.primary_key, [one.column.name for one in plan.columns])
    _check_rows(at, state, plan)
    if plan.by_name and not (at.is_shard and MAPPING in needed_properties(state.columns, plan)):
        if not _altered_plainly(at, state, plan, comment):
            with at.session() as spark:
                _alter_by_name(spark, at, at.batch.lake.state(at.path, at.app) or state, plan, comment)
        mark(at, step, at.note(step))
        return "altered in place"
    _write_anew(at, step, state, plan, comment)
    return "altered, with its rows rewritten"


def _noted(at: DdlTarget, step: Step, state: TableState, empty: set[str], comment: str) -> str:
    """Notes what is known where the definition is not: a comment, and which columns rows will bring that are NULL in
    old rows, whatever their default is by then. Returns the outcome."""
    empty -= {column.name.lower() for column in state.columns}
    if comment == state.comment and not empty:
        return "no change in the lake"
    if comment != state.comment and not at.batch.fence.alter(
        at.path, lambda altered: altered.set_table_description(comment)
    ):
        with at.session() as spark:
            _comment(spark, at, comment)
    mark(at, step, {EMPTY_COLUMNS: json.dumps(sorted(state.empty_columns | empty))} if empty else {})
    return "its comment changed" if comment != state.comment else "rows will bring its new columns"


def _is_shown(effect: Effect) -> bool:
    """Whether the lake could show the change."""
    return effect.kind is EffectKind.REWRITE or any(change.kind not in _OF_LATER_ROWS for change in effect.changes)


def _check_rows(at: DdlTarget, state: TableState, plan: Alteration) -> None:
    """Raises CopyNeeded for a row whose value the server changed, or a deleted row whose value the new type cannot
    hold."""
    own, table = state.own, f"delta.{quote(at.path)}"
    if plan.unless and _has_row(at, living_now(at.path, own), plan.unless):
        raise CopyNeeded(f"the statement changed the values of rows with {' or '.join(plan.unless)}", at.table)
    if plan.misfits and own and _has_row(at, table, tuple(plan.misfits)):
        names = ", ".join(plan.misfits.values())
        raise CopyNeeded(f"deleted rows have values of {names} that the new type cannot hold", at.table)


def _has_row(at: DdlTarget, rows: str, conditions: Sequence[str]) -> bool:
    """Whether one of the conditions holds for a row."""
    with at.session() as spark:
        question = f"SELECT 1 FROM {rows} WHERE {' OR '.join(conditions)} LIMIT 1"  # noqa: S608
        return bool(spark.sql(question).collect())


def _altered_plainly(at: DdlTarget, state: TableState, plan: Alteration, comment: str) -> bool:
    """Whether delta-rs made the changes of names, without a statement of Spark. Changes that it made before one that it
    cannot make stay."""
    changes = metadata_changes(state, plan, comment)
    if changes is None or not at.batch.fence.note(at.path, _properties(plan)):
        return False
    return all(at.batch.fence.alter(at.path, change) for change in changes)


def _alter_by_name(spark: SparkSession, at: DdlTarget, state: TableState, plan: Alteration, comment: str) -> None:
    fence, changes = at.batch.fence, statements(state.columns, plan)
    properties = _properties(plan) | needed_properties(state.columns, plan)
    if new := {key: value for key, value in properties.items() if state.properties.get(key) != value}:
        alter_table(spark, fence, at.path, f"SET TBLPROPERTIES ({listed(new)})")
    for change in changes:
        alter_table(spark, fence, at.path, change)
    if comment != state.comment:
        _comment(spark, at, comment)


def _comment(spark: SparkSession, at: DdlTarget, comment: str) -> None:
    at.batch.fence.check(at.path)
    spark.sql(f"COMMENT ON TABLE delta.{quote(at.path)} IS {literal(comment)}")


def _write_anew(at: DdlTarget, step: Step, state: TableState, plan: Alteration, comment: str) -> None:
    selected = ", ".join([*(f"{one.value} AS {quote(one.column.name)}" for one in plan.columns), *state.own.names])
    rows = f"SELECT {selected} FROM {table_at(at.path, state.version)}"  # noqa: S608
    with at.committing(step) as spark:
        columns = [one.column for one in plan.columns]
        properties = state.own_properties | _properties(plan) | at.note(step)
        replace_table(at.path, spark.sql(rows), columns, properties, comment)


def _properties(plan: Alteration) -> dict[str, str]:
    return definition_properties(plan.schema) | {PRIMARY_KEY: json.dumps(list(plan.schema.primary_key))}
