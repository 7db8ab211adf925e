"""Prepares a table for a batch's commit: creates it, adds the source's new columns, fills them in old rows."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.errors import UNNAMED, LakeError, TableStopped
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.table_changes import Changes
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ddl import (
    add_columns,
    create_table,
    fill_old_rows,
    table_properties,
    with_own_columns,
)
from spark_jobs.lake.defaults import old_row_values
from spark_jobs.lake.evolution import added_columns, check_key
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import Changed
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.replacement import no_rows, replace_table
from spark_jobs.lake.seen_columns import check_added, check_rules, noted_rules
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.session import Sessions


@dataclass(frozen=True, slots=True)
class Prepared:
    """The table's state before the batch, and how it changed for it."""

    state: TableState
    created: bool
    added_columns: tuple[str, ...]


def prepare(
    sessions: Sessions,
    lake: Lake,
    fence: Fence,
    path: str,
    destination: str,
    changes: Changes,
    state: TableState | None,
    app: str,
    changed: Changed = Changed.EVOLVE,
    *,
    again: bool = False,
) -> Prepared:
    """Creates the table if there is none, or if it was dropped; else adds the new columns. The run entered it by
    `fence`. `again`: the batch may have repeated rows, also of an earlier definition.

    Raises TableStopped for a definition that the table cannot take, LakeError when Spark's table is not visible here.
    """
    columns, table = changes.columns, changes.definition
    if state is not None and not state.dropped:
        state = with_own_columns(sessions, lake, fence, path, table.name, state, app)
    if state is None:
        create_table(sessions, lake, path, destination, table, columns, fence.token)
        fence.skip(path)
        return Prepared(_made(lake.state(path, app), path), created=True, added_columns=())
    if state.dropped:
        properties = table_properties(lake, destination, table, fence.token) | state.statement_properties
        fence.check(path)
        with sessions.take() as spark:
            replace_table(path, no_rows(spark, columns), columns, properties, table.comment)
        return Prepared(_made(lake.state(path, app), path), created=True, added_columns=())
    check_rules(table, state)
    check_key(state.primary_key, table.primary_key, table.name)
    state.own.check(table.name, table.primary_key, [column.name for column in columns])
    tolerant = changed in (Changed.LENIENT, Changed.IGNORE)
    added = added_columns(state.columns, columns, table.name, gone=tolerant, again=again)
    if added and changed is not Changed.EVOLVE:
        added = _allowed(added, table, changed)
    check_added(noted_rules(state), {column.name for column in added}, table)
    if state.unfilled or added:
        with sessions.take() as spark:
            if state.unfilled:  # before another note replaces this one
                fill_old_rows(spark, fence, path, state, app)
            if added:
                old_rows = {} if again else old_row_values(table, _valued(table, added, state))  # dropped later
                add_columns(spark, fence, path, table, columns, added, old_rows, state.version)
                state = _made(lake.state(path, app), path)
                if state.unfilled:
                    fill_old_rows(spark, fence, path, state, app)
    return Prepared(state, created=False, added_columns=tuple(column.name for column in added))


def _valued(table: TableSchema, added: tuple[LakeColumn, ...], state: TableState) -> tuple[LakeColumn, ...]:
    """Returns the added columns that may have values in old rows: no statement said that they are NULL there."""
    names = {column.name: column.source_name.lower() for column in table.columns}
    return tuple(column for column in added if names[column.name] not in state.empty_columns)


def _allowed(added: tuple[LakeColumn, ...], table: TableSchema, changed: Changed) -> tuple[LakeColumn, ...]:
    """Returns the new columns that a policy allows without a DDL statement."""
    names = ", ".join(column.name for column in added)
    if changed is Changed.LENIENT:
        return added
    if changed is Changed.IGNORE:
        if not table.primary_key:
            raise CopyNeeded(f"without a primary key the new columns ({names}) cannot be left out", table.name)
        return ()
    message = f"it has new columns ({names}), and its policy is {changed}"
    raise TableStopped(message, place=table.name, hint=copy_hint(UNNAMED, table.name))


def _made(state: TableState | None, path: str) -> TableState:
    if state is None:
        hint = "Spark and this process must see the same lake: name it by a path or URI that both can open."
        raise LakeError("the table that Spark created is not visible here", place=path, hint=hint)
    return state
