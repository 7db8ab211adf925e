"""One table's share of a range: what it leaves behind, or all of it, planned once and read split by split.

Holds 8 bytes a kept row; never a copy of the range. Images that leave columns out are `binlog.partial`'s matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cdc_core.binlog import net_kernels as kernels
from cdc_core.binlog.gather import count_changes
from cdc_core.binlog.partial import plan_partial, stopped
from cdc_core.binlog.plan import Plan, TableRows, rows_of
from cdc_core.binlog.reading import read
from cdc_core.binlog.system_columns import CHANGES, NET, arrow_schema
from cdc_core.binlog.tally import SEED, Key, Tally, even_parts, parts
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.block import BlockSlice

__all__ = ["CHANGES", "NET", "Plan", "arrow_schema", "plan_changes", "plan_net", "read"]


def plan_net(
    slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None = None, splits: int = 1
) -> Plan:
    """What the range leaves behind: per key the last image, or per distinct row its signed count. Where images leave
    columns out: what `plan_partial` says. Raises TableStopped for rows of which the log does not say enough."""
    found = rows_of(slices, registry, table, after)
    plan = _keyed(found, splits) if found.schema.primary_key else _keyless(found, splits)
    return plan or plan_partial(found, splits)


def plan_changes(
    slices: Sequence[BlockSlice], registry: SchemaRegistry, table: str, after: int | None = None, splits: int = 1
) -> Plan:
    """Every image of the range, in order; splits are contiguous."""
    found = rows_of(slices, registry, table, after)
    inserts, updates, deletes = count_changes(found.slices, found.schemas, after)
    images = inserts + 2 * updates + deletes
    return Plan(
        found.schema, CHANGES, slices, found.schemas, after, found.layout, even_parts(images, splits),
        rows=images, upserts=inserts + updates, deletes=deletes,
        raw_inserts=inserts, raw_updates=updates, raw_deletes=deletes,
    )  # fmt: skip


def _keyed(found: TableRows, splits: int) -> Plan | None:
    """None when an image leaves columns out."""
    tally, key = Tally(found), Key(found)
    mark = np.empty(len(tally.last), np.uint8)
    base = 0
    for chunk, images in found.chunks():
        bad = kernels.absorb_keys(
            chunk.data, images.starts, images.op, base, key.columns, found.layout, key.bounds, SEED,
            tally.slots, tally.hashes, tally.last, mark, tally.counts,
        )  # fmt: skip
        if bad >= 0:
            raise stopped(found.schema, chunk.place(int(images.event[bad])))
        if not images.new_full:
            return None
        base += len(images)
    mark = mark[: tally.entries]
    removed = int(np.count_nonzero(mark & kernels.REMOVED))
    least, greatest = key.range(tally.counts)
    kept = np.sort(tally.last[: tally.entries])
    return Plan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, parts(kept, splits), kept,
        rows=len(kept), upserts=len(kept) - removed, deletes=removed, **tally.raw(),
        insert_only=bool(np.all(mark == kernels.FRESH)), min_key=least, max_key=greatest,
    )  # fmt: skip


def _keyless(found: TableRows, splits: int) -> Plan | None:
    """None when an image leaves columns out, or tells what changed of one: such images cannot be compared."""
    tally = Tally(found)
    columns = np.arange(len(found.schema.columns), dtype=np.int32)
    copies = np.empty(len(tally.last), np.int64)
    base = 0
    for chunk, images in found.chunks():
        if not (images.new_full and images.old_full) or images.diffs:
            return None
        kernels.absorb_rows(
            chunk.data, images.starts, images.op, base, columns, found.layout, SEED,
            tally.slots, tally.hashes, tally.last, copies, tally.counts,
        )  # fmt: skip
        base += len(images)
    copies, last = copies[: tally.entries], tally.last[: tally.entries]
    left = np.flatnonzero(copies)
    left = left[np.argsort(last[left])]
    kept, copies = last[left], copies[left]
    removed = int(np.count_nonzero(copies < 0))
    raw = tally.raw()
    return Plan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, parts(kept, splits), kept, copies,
        rows=len(kept), upserts=len(kept) - removed, deletes=removed, **raw,
        insert_only=raw["raw_updates"] == raw["raw_deletes"] == 0,
    )  # fmt: skip
