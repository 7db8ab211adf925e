"""One table's share of a range as Arrow: its net changes, or every image, in bounded batches.

A plan is made once (one pass over the range) and read split by split, each any number of times while the range lives.
Holds 8 bytes a kept row; never a copy of the range. Refuses images that leave columns out (DecodeError with remedy).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.binlog import net_kernels as kernels
from cdc_core.binlog.columns import decode
from cdc_core.binlog.columns.kernel import ZeroDates
from cdc_core.binlog.gather import CHUNK_IMAGES, Chunk, Wanted, gather, survey
from cdc_core.binlog.hashing import new_seed
from cdc_core.binlog.rows import DELETE, UPDATE_BEFORE, RowImages, walk
from cdc_core.binlog.system_columns import CHANGES, NET, REMOVE, UPSERT, arrow_schema, changes_columns
from cdc_core.errors import DecodeError, SchemaError
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.source.block import BlockSlice

__all__ = ["CHANGES", "NET", "Plan", "arrow_schema", "plan_changes", "plan_net", "read"]

_SEED = new_seed()  # of this process: hashes are never stored
_INTEGERS = {1, 2, 3, 8, 9}
_LIMITS = np.iinfo(np.int64)
_HALF = 1 << 63
_COUNTED = (
    "rows", "upserts", "deletes", "raw_inserts", "raw_updates", "raw_deletes", "insert_only", "min_key", "max_key",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What of one table's share of a range is handed out. Counts are of rows above `after`.

    `splits`: (first ordinal, end ordinal, rows) of each part. `kept` (net alone): ordinals of the images that are left,
    rising, and for a table without a key the signed count of each."""

    schema: TableSchema
    mode: str
    slices: Sequence[BlockSlice] = field(repr=False)
    schemas: frozenset[int]
    after: int | None
    layout: npt.NDArray[np.int32] = field(repr=False)
    splits: tuple[tuple[int, int, int], ...] = ()
    kept: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    copies: npt.NDArray[np.int64] | None = field(default=None, repr=False)
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
        return arrow_schema(self.schema, self.mode)

    def to_dict(self) -> dict[str, Any]:
        """The metadata `sluice.plan`."""
        return {name: getattr(self, name) for name in _COUNTED}


@dataclass(frozen=True, slots=True)
class _Range:
    """The rows events of one table in a range."""

    schema: TableSchema
    slices: Sequence[BlockSlice]
    schemas: frozenset[int]
    after: int | None
    layout: npt.NDArray[np.int32]
    images: int = 0  # at most: `after` may leave fewer

    def chunks(self, wanted: Wanted | None = None) -> Iterator[tuple[Chunk, RowImages]]:
        for chunk in gather(self.slices, self.schemas, after=self.after, wanted=wanted):
            yield chunk, walk(chunk, self.layout)


def plan_net(
    slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None = None, splits: int = 1
) -> Plan:
    """What the range leaves behind: per key the last image, or per distinct row its signed count."""
    found = _range(slices, registry, table, after)
    return _keyed(found, splits) if found.schema.primary_key else _keyless(found, splits)


def plan_changes(
    slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None = None, splits: int = 1
) -> Plan:
    """Every image of the range, in order; splits are contiguous."""
    found = _range(slices, registry, table, after)
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


def read(plan: Plan, split: int = 0, zero_dates: ZeroDates = "fail") -> Iterator[pa.RecordBatch]:
    """The batches of one split: at most 65,536 rows each, and about as many bytes as a chunk."""
    if not plan.splits:
        return
    low, high, _ = plan.splits[split]
    kept = None
    if plan.kept is not None:
        first, end = np.searchsorted(plan.kept, (low, high)).tolist()
        kept = plan.kept[first:end]
    source = _Range(plan.schema, plan.slices, plan.schemas, plan.after, plan.layout)
    for chunk, images in source.chunks(Wanted(low, high, kept)):
        _refuse_partial(plan, images, chunk)
        chosen, ordinals = _chosen(chunk, images, low, high, kept)
        for at in range(0, len(chosen), CHUNK_IMAGES):
            part = slice(at, at + CHUNK_IMAGES)
            yield _batch(plan, chunk, images, chosen[part], ordinals[part], zero_dates)


def _range(slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None) -> _Range:
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
    return _Range(schema, slices, frozenset(numbers), after, registry.layout(numbers[-1]), int(images[numbers].sum()))


class _Tables:
    """The hash tables of a pass: room for every image of the range."""

    def __init__(self, found: _Range) -> None:
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


def _keyed(found: _Range, splits: int) -> Plan:
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
            raise _partial(schema, chunk.place(int(images.event[max(bad, 0)])))
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


def _keyless(found: _Range, splits: int) -> Plan:
    tables = _Tables(found)
    columns = np.arange(len(found.schema.columns), dtype=np.int32)
    copies = np.empty(len(tables.last), np.int64)
    base = 0
    for chunk, images in found.chunks():
        if not (images.new_full and images.old_full):
            raise _partial(found.schema, chunk.place(0))
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


def _chosen(
    chunk: Chunk, images: RowImages, low: int, high: int, kept: npt.NDArray[np.int64] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which of a chunk's images are handed out, and their ordinals."""
    first = np.searchsorted(images.event, np.arange(len(chunk.index)))
    ordinals = chunk.ordinals[images.event] + np.arange(len(images)) - first[images.event]
    if kept is None:
        chosen = np.flatnonzero((ordinals >= low) & (ordinals < high))
    else:
        place = np.searchsorted(kept, ordinals)
        chosen = np.flatnonzero(kept[np.minimum(place, len(kept) - 1)] == ordinals)
    return chosen, ordinals[chosen]


def _batch(
    plan: Plan,
    chunk: Chunk,
    images: RowImages,
    chosen: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
    zero_dates: ZeroDates,
) -> pa.RecordBatch:
    starts = images.starts if len(chosen) == len(images) else np.ascontiguousarray(images.starts[:, chosen])
    op, event = images.op[chosen], images.event[chosen]
    if plan.mode == CHANGES:
        extra = changes_columns(chunk, op, event, images.row[chosen])
    elif plan.copies is not None and plan.kept is not None:
        extra = [pa.array(plan.copies[np.searchsorted(plan.kept, ordinals)])]
    else:
        kernels.blank(starts, op, np.array([c.name in plan.schema.primary_key for c in plan.schema.columns]))
        extra = [pa.array(np.where((op == DELETE) | (op == UPDATE_BEFORE), REMOVE, UPSERT).astype(np.int8))]
    batch = decode(plan.schema, chunk.data, starts, zero_dates=zero_dates, place=lambda i: chunk.place(int(event[i])))
    return pa.RecordBatch.from_arrays(batch.columns + extra, schema=plan.arrow_schema)


def _refuse_partial(plan: Plan, images: RowImages, chunk: Chunk) -> None:
    if plan.mode == CHANGES and not (images.new_full and images.old_full):
        raise _partial(plan.schema, chunk.place(0))


def _partial(schema: TableSchema, place: str) -> DecodeError:
    return DecodeError(
        f"a row image of {schema.name} leaves out columns",
        place=place,
        hint="SET GLOBAL binlog_row_image=FULL (sessions may override it), then take a new snapshot of the table.",
    )
