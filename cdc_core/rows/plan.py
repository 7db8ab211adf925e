"""A plan: what is handed out of one table's share of a range, and in which splits. `rows.net` makes plans.

A plan keeps the blocks of its range alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.binlog.block import BlockSlice
from cdc_core.errors import TableStopped
from cdc_core.rows.seen_images import WHOLE_IMAGES
from cdc_core.rows.system_columns import arrow_schema
from cdc_core.rows.table_rows import readable
from cdc_core.rules.rules import Rules
from cdc_core.schema.table import TableSchema

_COUNTED = (
    "rows", "upserts", "deletes", "raw_inserts", "raw_updates", "raw_deletes", "insert_only", "min_key", "max_key",
    "partial", "lacking", "gained", "lost", "replaced", "moved",
)  # fmt: skip


class Split(NamedTuple):
    """Images with ordinals from `low` to `high` (exclusive), of which `rows` are handed out."""

    low: int
    high: int
    rows: int


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """What is handed out of one table's share of a range. Rows at or below version `after` do not count.

    `kept` are the ordinals of the images that are left, rising; None in mode `changes`, unless a condition leaves some
    out. Each has its signed count in `copies` in mode `net` where the table has no key. `partial`: images leave columns
    out, so all images that matter are kept; each has the number of its row in `groups`, -1 where a row gave its key up.

    `gained`: keys that have a row now and had none before the range; `lost`: the other way round; `replaced`: keys that
    had a row and have another one now. None without a key, and in mode `changes`. `moved`: rows that have another key
    now, and take values from the row that the lake has of the earlier one. `lacking`: as `partial`, or only images that
    remove rows leave columns out."""

    schema: TableSchema
    mode: str
    slices: Sequence[BlockSlice] = field(repr=False)
    schemas: frozenset[int]
    after: int | None
    layout: npt.NDArray[np.int32] = field(repr=False)
    splits: tuple[Split, ...] = ()
    kept: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    copies: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    groups: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    partial: bool = False
    lacking: bool = False
    rows: int = 0
    upserts: int = 0
    deletes: int = 0
    raw_inserts: int = 0
    raw_updates: int = 0
    raw_deletes: int = 0
    insert_only: bool = False
    min_key: int | None = None
    max_key: int | None = None
    gained: int | None = None
    lost: int | None = None
    replaced: int | None = None
    moved: int = 0

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, self.mode, self.partial)

    def seen(self, rules: Rules) -> RowsPlan:
        """The plan of the same rows as a lake with these rules sees them. Raises TableStopped where a rule does not fit
        the table."""
        schema = readable(rules.view(self.schema))
        if self.partial and (computed := [column.name for column in schema.columns if column.is_computed]):
            raise TableStopped(
                f"row images of {schema.name} lack columns, and its rule computes the column {computed[0]!r}",
                place=schema.name,
                hint=WHOLE_IMAGES,
            )
        keyed = any(column.changes_values for column in schema.columns if column.name in schema.primary_key)
        bounds = (None, None) if keyed else (self.min_key, self.max_key)
        return replace(self, schema=schema, min_key=bounds[0], max_key=bounds[1])

    def to_dict(self) -> dict[str, Any]:
        """The metadata `sluice.plan` of a Flight stream."""
        return {name: getattr(self, name) for name in _COUNTED}


def split_kept(kept: npt.NDArray[np.int64], splits: int) -> tuple[Split, ...]:
    """Contiguous splits with about equally many kept images; none is empty."""
    return tuple(Split(int(kept[low]), int(kept[high - 1]) + 1, high - low) for low, high in _bounds(len(kept), splits))


def split_all(images: int, splits: int) -> tuple[Split, ...]:
    """The same where all images are kept."""
    return tuple(Split(low, high, high - low) for low, high in _bounds(images, splits))


def _bounds(count: int, splits: int) -> list[tuple[int, int]]:
    return [(low, high) for low, high in pairwise(count * i // splits for i in range(splits + 1)) if high > low]
