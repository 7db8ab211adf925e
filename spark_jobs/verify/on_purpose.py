"""`OnPurpose`: the rows of a table that corrections made different from the source's.

A row differs on purpose if the lake has the row that a correction put, and the source has the one in whose place it was
put. If the source has changed it since, the change is missing in the lake, whatever the correction did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import DELETE, OP, UPDATE_BEFORE
from spark_jobs.lake.corrections import Corrections
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
    """By the text of a key, what corrections put there, in order. `names`: by number, what a correction was, and
    why."""

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
    for one in corrections.of_table(schema.name):
        correction = one.correction
        if not corrections.has_rows(correction.number, one.table):
            continue
        images = corrections.rows(correction.number, one.table)
        if not columns.issubset(images.column_names):  # of before a statement: the rows have other columns by now
            continue
        names[correction.number] = f"{correction.kind} {correction.number}: {correction.reason}".removesuffix(": ")
        for key, was, then in _sides(images, schema):
            add(replaced.setdefault(key, []), Replaced(correction.number, was, then))
    return OnPurpose(replaced, names)


def add(there: list[Replaced], new: Replaced) -> None:
    """Adds what a correction put to what earlier ones did to the same key: one that went on from another's row stands
    for both together. Either may have died before its commit."""
    there += [Replaced(new.number, one.was, new.then) for one in there if one.then == new.was]
    there.append(new)


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
