"""One table's share of a range: what it leaves behind, or all of it, planned once and read split by split.

Holds 8 bytes a kept row; never a copy of the range. Refuses images that leave columns out (DecodeError with remedy).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cdc_core.binlog import net_kernels as kernels
from cdc_core.binlog.gather import gather
from cdc_core.binlog.hashing import new_seed
from cdc_core.binlog.plan import Plan, TableRows, partial_image, rows_of
from cdc_core.binlog.reading import read
from cdc_core.binlog.system_columns import CHANGES, NET, arrow_schema
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.block import BlockSlice

__all__ = ["CHANGES", "NET", "Plan", "arrow_schema", "plan_changes", "plan_net", "read"]

_SEED = new_seed()  # of this process: hashes are never stored
_INTEGERS = {1, 2, 3, 8, 9}
_LIMITS = np.iinfo(np.int64)
_HALF = 1 << 63


def plan_net(
    slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None = None, splits: int = 1
) -> Plan:
    """What the range leaves behind: per key the last image, or per distinct row its signed count."""
    found = rows_of(slices, registry, table, after)
    return _keyed(found, splits) if found.schema.primary_key else _keyless(found, splits)


def plan_changes(
    slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None = None, splits: int = 1
) -> Plan:
    """Every image of the range, in order; splits are contiguous."""
    found = rows_of(slices, registry, table, after)
    inserts = updates = deletes = 0
    for chunk in gather(found.slices, found.schemas, after=after):
        rows, kind = chunk.index["rows"].astype(np.int64), chunk.index["type"]
        inserts += int(rows[np.isin(kind, (23, 30))].sum())
        updates += int(rows[np.isin(kind, (24, 31))].sum())
        deletes += int(rows[np.isin(kind, (25, 32))].sum())
    images = inserts + 2 * updates + deletes
    cuts = [images * i // splits for i in range(splits + 1)]
    parts = tuple((low, high, high - low) for low, high in pairwise(cuts) if high > low)
    return Plan(
        found.schema, CHANGES, slices, found.schemas, after, found.layout, parts,
        rows=images, upserts=inserts + updates, deletes=deletes,
        raw_inserts=inserts, raw_updates=updates, raw_deletes=deletes,
    )  # fmt: skip


class _Tables:
    """The hash tables of a pass: room for every image of the range."""

    def __init__(self, found: TableRows) -> None:
        room = found.images
        self.slots = np.zeros(1 << max(4, (room + room // 2).bit_length()), np.int32)
        self.hashes = np.empty((room, 2), np.uint64)
        self.last = np.empty(room, np.int64)
        self.counts = np.array([0, 0, 0, 0, _LIMITS.max, _LIMITS.min], np.int64)

    @property
    def entries(self) -> int:
        return int(self.counts[kernels.ENTRIES])

    def raw(self) -> dict[str, Any]:
        inserts, updates, deletes = self.counts[kernels.INSERTS : kernels.DELETES + 1].tolist()
        return {"raw_inserts": inserts, "raw_updates": updates, "raw_deletes": deletes}


def _keyed(found: TableRows, splits: int) -> Plan:
    schema, tables = found.schema, _Tables(found)
    names = [column.name for column in schema.columns]
    keys = np.array([names.index(name) for name in schema.primary_key], np.int32)
    first = schema.columns[keys[0]]
    bounds = (1 + first.unsigned) if len(keys) == 1 and first.type_code in _INTEGERS else 0
    mark = np.empty(len(tables.last), np.uint8)
    base = 0
    for chunk, images in found.chunks():
        bad = kernels.absorb_keys(
            chunk.data, images.starts, images.op, base, keys, found.layout, bounds, _SEED,
            tables.slots, tables.hashes, tables.last, mark, tables.counts,
        )  # fmt: skip
        if bad >= 0 or not images.new_full:
            raise partial_image(schema, chunk.place(int(images.event[max(bad, 0)])))
        base += len(images)
    mark = mark[: tables.entries]
    removed = int(np.count_nonzero(mark & kernels.REMOVED))
    least, greatest = _key_bounds(tables.counts, bounds, first.type_code)
    kept = np.sort(tables.last[: tables.entries])
    return Plan(
        schema, NET, found.slices, found.schemas, found.after, found.layout, _parts(kept, splits), kept,
        rows=len(kept), upserts=len(kept) - removed, deletes=removed, **tables.raw(),
        insert_only=bool(np.all(mark == kernels.FRESH)), min_key=least, max_key=greatest,
    )  # fmt: skip


def _key_bounds(counts: npt.NDArray[np.int64], bounds: int, type_code: int) -> tuple[int | None, int | None]:
    least, greatest = counts[kernels.LEAST :].tolist()
    if bounds == 0 or least > greatest:
        return None, None
    shift = _HALF if bounds == 2 and type_code == 8 else 0
    return least + shift, greatest + shift


def _keyless(found: TableRows, splits: int) -> Plan:
    tables = _Tables(found)
    columns = np.arange(len(found.schema.columns), dtype=np.int32)
    copies = np.empty(len(tables.last), np.int64)
    base = 0
    for chunk, images in found.chunks():
        if not (images.new_full and images.old_full):
            raise partial_image(found.schema, chunk.place(0))
        kernels.absorb_rows(
            chunk.data, images.starts, images.op, base, columns, found.layout, _SEED,
            tables.slots, tables.hashes, tables.last, copies, tables.counts,
        )  # fmt: skip
        base += len(images)
    copies, last = copies[: tables.entries], tables.last[: tables.entries]
    left = np.flatnonzero(copies)
    left = left[np.argsort(last[left])]
    kept, copies = last[left], copies[left]
    removed = int(np.count_nonzero(copies < 0))
    raw = tables.raw()
    return Plan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, _parts(kept, splits), kept, copies,
        rows=len(kept), upserts=len(kept) - removed, deletes=removed, **raw,
        insert_only=raw["raw_updates"] == raw["raw_deletes"] == 0,
    )  # fmt: skip


def _parts(kept: npt.NDArray[np.int64], splits: int) -> tuple[tuple[int, int, int], ...]:
    """Contiguous parts with about equally many kept rows; none of them empty."""
    cuts = [len(kept) * i // splits for i in range(splits + 1)]
    return tuple((int(kept[low]), int(kept[high - 1]) + 1, high - low) for low, high in pairwise(cuts) if high > low)
