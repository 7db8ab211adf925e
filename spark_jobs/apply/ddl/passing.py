"""Statements of tables that have a change log alone: no table follows them, and effects that the log hides are
noted."""

from __future__ import annotations

from collections.abc import Iterable

from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.apply.table import Batch
from spark_jobs.lake.state import LOG
from spark_jobs.landing.modes import Mode
from spark_jobs.landing.unfollowed import Unfollowed, is_in_log


def passes_by(batch: Batch, table: str) -> bool:
    """Whether no merged table follows. One that was merged so far, and has no log yet, does: its rows are whole."""
    if batch.modes.of(table) is not Mode.APPEND:
        return False
    return _has_log(batch, table) or not batch.lake.has(*split_name(table))


def note_passed(batch: Batch, step: Step, tables: Iterable[str]) -> None:
    """Notes tables whose log does not show what the step did to their rows. Raises LakeError."""
    if not all(is_in_log(effect) for effect in step.effects):
        _notes(batch).note({*tables}, (batch.claim.epoch, step.version))
        batch.notes.unfollowed = ()


def check_unfollowed(batch: Batch, table: str) -> None:
    """Raises TableStopped for a table that lacks a statement. Call it before a table is merged without its log."""
    notes = _notes(batch)
    if not batch.notes.unfollowed:
        batch.notes.unfollowed = (notes.places(),)
    if table in batch.notes.unfollowed[0]:
        path = batch.lake.path(*split_name(table))
        notes.check(table, batch.lake.state(path, ""), path)


def _notes(batch: Batch) -> Unfollowed:
    return Unfollowed(batch.lake, batch.claim.destination, batch.claim.client_id)


def _has_log(batch: Batch, table: str) -> bool:
    try:
        state = batch.lake.state(batch.lake.log_path(*split_name(table)), "")
    except TableStopped:  # it is damaged, which stops the table when it is written
        return True
    return state is not None and LOG in state.properties
