"""The rows events of one table in a range, whichever blocks they stand in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cdc_core.binlog.block import BlockSlice, Kind
from cdc_core.binlog.events import name_of
from cdc_core.compiled.kernel import Ints
from cdc_core.errors import SchemaError, TableStopped
from cdc_core.rows.chunk_kernels import Wanted
from cdc_core.rows.chunks import Chunk, gather, images_by_schema
from cdc_core.rows.images import RowImages, walk
from cdc_core.rows.seen_images import seen_images
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import Defect, TableSchema

_SHOWN = 64  # bytes of an event in an error


@dataclass(frozen=True, slots=True)
class TableRows:
    """`schemas` are the definition's numbers in the registry, `layout` is its `schema.row_layout`. Rows at or below
    version `after` are left out; `images` counts them all the same. `where`: the condition of the rows that count."""

    schema: TableSchema
    slices: Sequence[BlockSlice]
    schemas: frozenset[int]
    after: int | None
    layout: Ints
    images: int = 0
    where: str = ""

    def chunks(self, wanted: Wanted | None = None) -> Iterator[tuple[Chunk, RowImages]]:
        """The row images, chunk by chunk; a chunk is valid until the next one. Raises DecodeError for damaged events,
        TableStopped for a change of a JSON document that is not logged."""
        for chunk in gather(self.slices, self.schemas, after=self.after, wanted=wanted, reuse=True):
            images = walk(chunk, self.layout)
            if images.astray:
                raise TableStopped(
                    f"a partial JSON update of {self.schema.name} lacks the document that it changes",
                    place=chunk.place(int(images.event[images.first_astray()])),
                    hint="SET GLOBAL binlog_row_image=FULL, or binlog_row_value_options='' (sessions may override "
                    "them); then reload the table (sluice copy).",
                )
            yield chunk, seen_images(self.schema, self.where, chunk, images) if self.where else images


def rows_of(
    slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None, rules: Rules = NO_RULES
) -> TableRows:
    """A table's rows in a range, by its definition at the source; of a table with a condition in `rules` those that
    meet it. Raises SchemaError for a range without any, or with two definitions of the table, and TableStopped for a
    definition with a defect."""
    images = images_by_schema(slices, len(registry))
    numbers = [number for number in np.flatnonzero(images).tolist() if registry.get(number).name == table]
    if not numbers:
        raise SchemaError(
            "the range has no rows of this table", place=table, hint="Ask for a table that the claim lists."
        )
    if len({registry.get(number).version for number in numbers}) > 1:
        raise SchemaError(
            "the range has rows of two definitions of this table", place=table, hint="Claim less: up to the change."
        )
    schema, layout = registry.get(numbers[-1]), registry.row_layout(numbers[-1])
    if schema.defect:
        raise _unreadable(slices, numbers, schema.defect, shows=rules.of(table) is None)
    where = readable(rules.view(schema)).where
    return TableRows(schema, slices, frozenset(numbers), after, layout, int(images[numbers].sum()), where)


def readable(schema: TableSchema) -> TableSchema:
    """The same definition. Raises TableStopped for one with a defect."""
    if schema.defect:
        raise TableStopped(schema.defect.reason, place=schema.name, hint=schema.defect.hint)
    return schema


def _unreadable(slices: Sequence[BlockSlice], numbers: Sequence[int], defect: Defect, *, shows: bool) -> TableStopped:
    """The error for rows with a defect, with the place and the bytes of the first event."""
    for piece in slices:
        index = piece.block.index[piece.low : piece.high]
        found = np.flatnonzero(np.isin(index["schema"], numbers) & (index["kind"] == Kind.ROWS))
        if len(found):
            event = index[found[0]]
            raw = piece.block.data[event["offset"] : event["offset"] + min(int(event["length"]), _SHOWN)].tobytes()
            shown = f"event {name_of(int(event['type']))} of {event['length']} bytes"
            shown += f" begins with {raw.hex()}" if shows else ""
            place = piece.block.place(piece.low + int(found[0]))
            return TableStopped(f"{defect.reason}: {shown}", place=place, hint=defect.hint)
    return TableStopped(defect.reason, hint=defect.hint)
