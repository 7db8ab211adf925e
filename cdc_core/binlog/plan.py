"""A plan: what of one table's share of a range is handed out, and in which splits. Values; `binlog.net` makes them.

Keeps the range's blocks alive as long as it lives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.binlog.gather import Chunk, Wanted, gather, survey
from cdc_core.binlog.rows import RowImages, walk
from cdc_core.binlog.system_columns import arrow_schema
from cdc_core.errors import SchemaError, TableStopped
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.source.block import BlockSlice

_COUNTED = (
    "rows", "upserts", "deletes", "raw_inserts", "raw_updates", "raw_deletes", "insert_only", "min_key", "max_key",
    "partial",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What of one table's share of a range is handed out. Counts are of rows above `after`.

    `splits`: (first ordinal, end ordinal, rows) of each part. `kept` (net alone): ordinals of the images that are left,
    rising, and for a table without a key the signed count of each. `partial`: images leave columns out; then all that
    matter are kept, with the number of the row that each belongs to in `groups`, -1 where a key is left."""

    schema: TableSchema
    mode: str
    slices: Sequence[BlockSlice] = field(repr=False)
    schemas: frozenset[int]
    after: int | None
    layout: npt.NDArray[np.int32] = field(repr=False)
    splits: tuple[tuple[int, int, int], ...] = ()
    kept: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    copies: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    groups: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    partial: bool = False
    rows: int = 0
    upserts: int = 0
    deletes: int = 0
    raw_inserts: int = 0
    raw_updates: int = 0
    raw_deletes: int = 0
    insert_only: bool = False
    min_key: int | None = None
    max_key: int | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, self.mode, self.partial)

    def to_dict(self) -> dict[str, Any]:
        """The metadata `sluice.plan`."""
        return {name: getattr(self, name) for name in _COUNTED}


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows events of one table in a range."""

    schema: TableSchema
    slices: Sequence[BlockSlice]
    schemas: frozenset[int]
    after: int | None
    layout: npt.NDArray[np.int32]
    images: int = 0  # at most: `after` may leave fewer

    def chunks(self, wanted: Wanted | None = None) -> Iterator[tuple[Chunk, RowImages]]:
        """A chunk is valid until the next one. Raises TableStopped for what changed of a document that is not there."""
        for chunk in gather(self.slices, self.schemas, after=self.after, wanted=wanted, reuse=True):
            images = walk(chunk, self.layout)
            if images.astray:
                raise TableStopped(
                    f"a partial JSON update of {self.schema.name} does not tell the document that it changes",
                    place=chunk.place(0),
                    hint="SET GLOBAL binlog_row_image=FULL, or binlog_row_value_options='' (sessions may override "
                    "them); then take a new snapshot of it.",
                )
            yield chunk, images


def rows_of(slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None) -> TableRows:
    """The table's definitions in the range: several numbers only if they differ in nothing that matters to rows."""
    images = survey(slices, len(registry))
    numbers = [number for number in np.flatnonzero(images).tolist() if registry.get(number).name == table]
    if not numbers:
        raise SchemaError(
            "the range has no rows of this table", place=table, hint="Ask for a table that the claim lists."
        )
    schema = registry.get(numbers[-1])
    if len({registry.get(number).version for number in numbers}) > 1:
        raise SchemaError(
            "the range holds rows of two definitions of this table", place=table, hint="Claim less: up to the change."
        )
    return TableRows(
        schema, slices, frozenset(numbers), after, registry.layout(numbers[-1]), int(images[numbers].sum())
    )
