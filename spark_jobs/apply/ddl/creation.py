"""CREATE, DROP and TRUNCATE: one commit each, or a repeatable change before the commit."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdc_core.errors import SchemaError, TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.ddl import Effect
from cdc_core.schema.table import TableSchema
from spark_jobs.apply.ddl.consent import check_consent
from spark_jobs.apply.ddl.standing import DdlTarget, empty, retire, set_dropped
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.lake.ddl import make_table, table_properties
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.policies import Dropped
from spark_jobs.lake.replacement import no_rows, replace_table, rows_of
from spark_jobs.lake.types import LakeColumn, lake_columns


def columns_of(schema: TableSchema) -> tuple[LakeColumn, ...]:
    """Returns the lake's columns for a definition. Raises TableStopped for one that no lake table can have."""
    try:
        return lake_columns(pa.schema(arrow_fields(schema)), schema)
    except SchemaError as error:
        raise TableStopped(error.message, place=schema.name, hint=error.hint) from error


def create(at: DdlTarget, step: Step, effect: Effect) -> str:
    """Creates the table without rows, and returns the outcome. Rows of an earlier table of that name stay in its
    history alone.

    If the definition is not known, the first row creates the table. CREATE TABLE IF NOT EXISTS is in the binlog also if
    the table existed; then nothing happens.
    """
    if at.live is not None and effect.conditional:
        return "the table exists already"
    if at.live is not None:
        check_consent(at, step)
    if effect.schema is None:
        if at.state is None:
            return "the first row creates the table"
        retire(at, step)
        return "emptied; the first row replaces the table"
    batch, columns = at.batch, columns_of(effect.schema)
    batch.lake.check_writable()
    properties = table_properties(batch.lake, batch.claim.destination, effect.schema, batch.fence.token)
    properties |= at.begun(step)
    comment = effect.schema.comment
    if at.state is None and make_table(batch.lake, at.path, columns, properties, comment, at.noted(step)):
        batch.fence.skip(at.path)
        return "made"
    with at.committing(step) as spark:
        replace_table(at.path, no_rows(spark, columns), columns, properties, comment)
    return "made" if at.state is None else "made again"


def drop(at: DdlTarget, step: Step) -> str:
    """Drops the table, and returns the outcome: by its policy the rows stay, are archived or are deleted."""
    if at.live is None:
        return "the lake has no such table"
    check_consent(at, step)
    match at.batch.policies.of(at.table).dropped:
        case Dropped.KEEP:
            set_dropped(at, step)
            return "kept, and marked as dropped"
        case Dropped.ARCHIVE:
            there = _archive(at, step)
            retire(at, step)
            return f"moved to {there}"
        case Dropped.DROP:
            retire(at, step)
            _vacuum(at)
            return "its rows and files are deleted"


def truncate(at: DdlTarget, step: Step) -> str:
    """Deletes or marks all rows in one commit, and returns the outcome."""
    if at.live is None:
        return "the lake has no such table"
    check_consent(at, step)
    empty(at, step)
    return "all rows are deleted"


def _archive(at: DdlTarget, step: Step) -> str:
    """Copies the rows to `_sluice/{destination}/archive/{database}/{table}/{version}`; again changes nothing."""
    assert at.state is not None
    batch, state = at.batch, at.state
    there = batch.lake.archive_path(batch.claim.destination, at.table, step.version)
    with batch.sessions.take() as spark, lake_errors(there):
        replace_table(there, rows_of(spark, at.path, state.version), state.columns, state.own_properties, state.comment)
    return there


def _vacuum(at: DdlTarget) -> None:
    """Removes the files. The log stays: a replay reads from it that the table is gone. Files of a table that delta-rs
    cannot vacuum stay until somebody does."""
    with suppress(DeltaError, OSError):
        at.batch.lake.open(at.path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
