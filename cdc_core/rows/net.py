"""Plans for one table's share of a range: its net changes, or all of its images.

Planning is one pass over the range; a plan holds 8 bytes for each kept image, never a copy of the range. Where images
leave columns out, `rows.partial` plans.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cdc_core.binlog.block import BlockSlice
from cdc_core.binlog.events import DELETE, INSERT, NOTHING, UPDATE_BEFORE
from cdc_core.rows import net_kernels as kernels
from cdc_core.rows.batches import read
from cdc_core.rows.chunks import count_changes
from cdc_core.rows.hash_table import HashTable, PrimaryKey, all_columns
from cdc_core.rows.hashing import Images
from cdc_core.rows.partial import lacks_columns, plan_partial
from cdc_core.rows.plan import RowsPlan, split_all, split_kept
from cdc_core.rows.system_columns import CHANGES, NET, arrow_schema
from cdc_core.rows.table_rows import TableRows, rows_of
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.registry import SchemaRegistry

__all__ = ["CHANGES", "NET", "RowsPlan", "arrow_schema", "plan_changes", "plan_net", "read"]


def plan_net(
    slices: Sequence[BlockSlice],
    registry: SchemaRegistry,
    table: str,
    after: int | None = None,
    splits: int = 1,
    rules: Rules = NO_RULES,
) -> RowsPlan:
    """What the range leaves behind: the last image of each key, or the signed count of each distinct row. Raises
    TableStopped for images that lack the columns which identify their row. Rows are those that `rules` show, of the
    source's definition."""
    found = rows_of(slices, registry, table, after, rules)
    plan = _keyed(found, splits) if found.schema.primary_key else _keyless(found, splits)
    return plan or plan_partial(found, splits)


def plan_changes(
    slices: Sequence[BlockSlice],
    registry: SchemaRegistry,
    table: str,
    after: int | None = None,
    splits: int = 1,
    rules: Rules = NO_RULES,
) -> RowsPlan:
    """Every image of the range, in order; splits are contiguous. Rows are those that `rules` show, of the source's
    definition."""
    found = rows_of(slices, registry, table, after, rules)
    if found.where:
        return _seen_changes(found, splits)
    inserts, updates, deletes = count_changes(found.slices, found.schemas, after)
    images = inserts + 2 * updates + deletes
    return RowsPlan(
        found.schema, CHANGES, slices, found.schemas, after, found.layout, split_all(images, splits),
        rows=images, upserts=inserts + updates, deletes=deletes,
        raw_inserts=inserts, raw_updates=updates, raw_deletes=deletes,
    )  # fmt: skip


def _seen_changes(found: TableRows, splits: int) -> RowsPlan:
    """The images of a table with a condition."""
    ops = [images.op for _, images in found.chunks()]
    op = np.concatenate(ops) if ops else np.zeros(0, np.uint8)
    kept = np.flatnonzero(op != NOTHING)
    inserts, updates, deletes = (int(np.count_nonzero(op == code)) for code in (INSERT, UPDATE_BEFORE, DELETE))
    return RowsPlan(
        found.schema, CHANGES, found.slices, found.schemas, found.after, found.layout, split_kept(kept, splits), kept,
        rows=len(kept), upserts=inserts + updates, deletes=deletes,
        raw_inserts=inserts, raw_updates=updates, raw_deletes=deletes,
    )  # fmt: skip


def _keyed(found: TableRows, splits: int) -> RowsPlan | None:
    """None when an image leaves columns out."""
    table, key = HashTable(found), PrimaryKey(found.schema, found.layout)
    mark = np.empty(found.images, np.uint8)
    base, lacking = 0, False
    for chunk, images in found.chunks():
        bad = kernels.absorb_keys(Images(chunk.data, images.starts, images.op, base), key.hashed, table.entries, mark)
        if bad >= 0:
            raise lacks_columns(found.schema, chunk.place(int(images.event[bad])))
        if not images.new_full:
            return None
        lacking |= not images.old_full
        base += len(images)
    mark = mark[: len(table)]
    gone, fresh, came = (mark & bit != 0 for bit in (kernels.REMOVED, kernels.FRESH, kernels.CAME))
    removed = int(np.count_nonzero(gone))
    least, greatest = key.range(table)
    kept = np.sort(table.entries.last[: len(table)])
    return RowsPlan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, split_kept(kept, splits), kept,
        rows=len(kept), upserts=len(kept) - removed, deletes=removed, **table.raw()._asdict(),
        gained=int(np.count_nonzero(fresh & ~gone)), lost=int(np.count_nonzero(gone & ~fresh)),
        replaced=int(np.count_nonzero(came & ~gone & ~fresh)), lacking=lacking,
        insert_only=bool(np.all(mark == kernels.FRESH | kernels.INSERTED | kernels.CAME)),
        min_key=least, max_key=greatest,
    )  # fmt: skip


def _keyless(found: TableRows, splits: int) -> RowsPlan | None:
    """None when an image leaves columns out, or has only what changed of a document: it cannot be compared."""
    table, row = HashTable(found), all_columns(found)
    copies = np.empty(found.images, np.int64)
    base = 0
    for chunk, images in found.chunks():
        if not (images.new_full and images.old_full) or images.diffs:
            return None
        kernels.absorb_rows(Images(chunk.data, images.starts, images.op, base), row, table.entries, copies)
        base += len(images)
    copies, last = copies[: len(table)], table.entries.last[: len(table)]
    left = np.flatnonzero(copies)
    left = left[np.argsort(last[left])]
    kept, copies = last[left], copies[left]
    removed = int(np.count_nonzero(copies < 0))
    raw = table.raw()
    return RowsPlan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, split_kept(kept, splits),
        kept, copies, rows=len(kept), upserts=len(kept) - removed, deletes=removed, **raw._asdict(),
        insert_only=raw.raw_updates == raw.raw_deletes == 0,
    )  # fmt: skip
