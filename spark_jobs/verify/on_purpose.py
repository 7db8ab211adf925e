"""`OnPurpose`: the rows of a table that corrections made different from the source's.

A row differs on purpose if the lake has the row that a correction put, and the source has the one in whose place it was
put. If the source has changed it since, the change is missing in the lake, whatever the correction did. A row that was
put back differs from nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import DELETE, OP, UPDATE_BEFORE
from spark_jobs.lake.corrections import CorrectedTable, Corrections
from spark_jobs.lake.record import CopyNote
from spark_jobs.verify.lake_rows import as_fields
from spark_jobs.verify.row_text import lake_text

Side = bytes | None  # the text of a row, None for no row


@dataclass(frozen=True, slots=True)
class Replaced:
    """A row `then` that the correction `number` put in the place of the row `was`."""

    number: int
    was: Side
    then: Side


@dataclass(frozen=True, slots=True)
class OnPurpose:
    """By the text of a key, what corrections put there that may still count. `names`: by number, what a correction was,
    and why."""

    replaced: Mapping[bytes, Sequence[Replaced]] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)

    def by(self, key: bytes, source: Side, lake: Sequence[bytes]) -> str:
        """Returns the correction that made the key's rows in the lake different from the source's row, or ""."""
        there = lake[0] if len(lake) == 1 else None
        if len(lake) > 1:
            return ""
        found = (one for one in reversed(self.replaced.get(key, ())) if (one.was, one.then) == (source, there))
        return next((self.names[one.number] for one in found), "")


def on_purpose(corrections: Corrections, schema: TableSchema) -> OnPurpose:
    """Returns what corrections put into a table, by the columns of `schema`. Raises LakeError."""
    replaced, names = dict[bytes, list[Replaced]](), dict[int, str]()
    columns = {field.name for field in arrow_fields(schema)}
    state = corrections.lake.state(corrections.lake.path(schema.database, schema.table), "")
    base = state.base if state is not None else None
    of_table = [one for one in corrections.tables() if one.table == schema.name]
    for one in of_table:
        correction = one.correction
        if not one.put_rows or _are_gone(one, base, of_table):
            continue
        if not corrections.has_rows(correction.number, one.table):
            continue
        images = corrections.rows(correction.number, one.table)
        if not columns.issubset(images.column_names):  # of before a statement: the rows have other columns by now
            continue
        names[correction.number] = f"{correction.kind} {correction.number}: {correction.reason}".removesuffix(": ")
        for key, was, then in _sides(images, schema):
            put = Replaced(correction.number, was, then)
            replaced[key] = after(replaced.get(key, ()), put, certain=one.state == "done")
    return OnPurpose(replaced, names)


def _are_gone(one: CorrectedTable, base: CopyNote | None, of_table: Sequence[CorrectedTable]) -> bool:
    """Whether the rows of a correction were replaced since, by a table that begins at `base`. Of those that a restore
    brought, corrections up to its place are a part."""
    epoch, at = one.counts["epoch"], one.counts["at"]
    if base is None or (base.epoch, base.low) < (epoch, at):
        return False
    place = {"epoch": base.epoch, "at": base.low}
    found = (later.correction for later in of_table if later.correction.kind == "restore" and later.counts == place)
    restores = (later for later in found if later.number > one.correction.number)
    return not any(later.epoch <= epoch and at <= base.low for later in restores)


def after(there: Sequence[Replaced], put: Replaced, *, certain: bool) -> list[Replaced]:
    """Returns what differs on purpose at a key once a correction has put a row, in the order of numbers. Pure.

    One that went on from another's row stands for both together, and for nothing if it took that one back. Others are
    past: the row was not theirs any more. `certain`: the commit came; otherwise either may be so.
    """
    went_on = [Replaced(put.number, one.was, put.then) for one in there if one.then == put.was] or [put]
    found = [one for one in went_on if one.was != one.then]
    return found if certain else [*there, *found]


def _sides(images: pa.Table, schema: TableSchema) -> Iterator[tuple[bytes, Side, Side]]:
    """Yields each key with the text of its row before and after the images."""
    found = dict[bytes, list[Side]]()
    names = [column.name for column in schema.shown]
    for batch in images.to_batches():
        rows = as_fields(batch, arrow_fields(schema))
        texts = (lake_text(rows, columns).to_pylist() for columns in (schema.primary_key, names))
        for op, key, text in zip(batch.column(OP).to_pylist(), *texts, strict=True):
            found.setdefault(key, [None, None])[op not in (DELETE, UPDATE_BEFORE)] = text
    for key, (was, then) in found.items():
        yield key, was, then
