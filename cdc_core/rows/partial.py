"""Plans for ranges whose images leave columns out (`binlog_row_image` MINIMAL or NOBLOB).

An image says nothing of a column that it lacks, so one image a key is not enough. A plan keeps all images of a row
since one was whole, under a number for the row. Whoever applies them takes the latest value of each column. A column
that none of them has keeps the lake's value, or gets its default when the row was inserted. A row that changes its key
keeps its number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import DELETE, INSERT, UPDATE_BEFORE
from cdc_core.errors import TableStopped
from cdc_core.rows import partial_kernels
from cdc_core.rows.hash_table import HashTable, PrimaryKey
from cdc_core.rows.hashing import Images
from cdc_core.rows.plan import RowsPlan, split_all, split_kept
from cdc_core.rows.system_columns import NET
from cdc_core.rows.table_rows import TableRows
from cdc_core.schema.table import TableSchema


def plan_partial(found: TableRows, splits: int) -> RowsPlan:
    """Raises TableStopped for an image that lacks a column of the key, or any column where the table has no key."""
    return _keyed(found, splits) if found.schema.primary_key else _keyless(found, splits)


def lacks_columns(schema: TableSchema, place: str) -> TableStopped:
    """The error for an image by which its row cannot be found."""
    first = "Name the key in every INSERT" if schema.primary_key else "Give the table a primary key"
    return TableStopped(
        f"a row image of {schema.name} lacks columns that identify its row",
        place=place,
        hint=f"{first}, or SET GLOBAL binlog_row_image=FULL (sessions may override it); "
        "then reload the table (sluice copy).",
    )


def _keyed(found: TableRows, splits: int) -> RowsPlan:
    table, key = HashTable(found), PrimaryKey(found.schema, found.layout)
    owner = np.empty(found.images, np.int64)
    groups = np.full(found.images, partial_kernels.NOBODY, np.int64)
    fresh = np.empty(found.images, np.bool_)
    rows = partial_kernels.RowOrigins(np.empty(found.images, np.int64), np.empty(found.images, np.bool_))
    base = 0
    for chunk, images in found.chunks():
        views = Images(chunk.data, images.starts, images.op, base)
        bad = partial_kernels.absorb(views, key.hashed, table.entries, owner, groups, fresh, rows)
        if bad >= 0:
            raise lacks_columns(found.schema, chunk.place(int(images.event[bad])))
        base += len(images)
    owner, last = owner[: len(table)], table.entries.last[: len(table)]
    kept, groups = _kept(owner, last, groups[:base], table.groups)
    gone, fresh, raw = owner < 0, fresh[: len(table)], table.raw()
    another = ~gone & (rows.origins[owner] != np.arange(len(owner)))  # the key has not the row that it had
    removed = int(np.count_nonzero(gone))
    least, greatest = key.range(table)
    return RowsPlan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, split_kept(kept, splits), kept,
        groups=groups, partial=True, lacking=True,
        rows=len(kept), upserts=len(owner) - removed, deletes=removed, **raw._asdict(),
        gained=int(np.count_nonzero(fresh & ~gone)), lost=int(np.count_nonzero(gone & ~fresh)),
        replaced=int(np.count_nonzero(another & ~fresh)), moved=int(np.count_nonzero(another & rows.leans[owner])),
        insert_only=raw.raw_updates == raw.raw_deletes == 0, min_key=least, max_key=greatest,
    )  # fmt: skip


def _kept(
    owner: npt.NDArray[np.int64], last: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The ordinals of the images that matter, rising, and the row of each: NOBODY where a key was given up."""
    lives = np.zeros(count + 1, np.bool_)  # the last is NOBODY's place
    lives[owner[owner >= 0]] = True
    groups[~lives[groups]] = partial_kernels.NOBODY
    wanted = groups >= 0
    wanted[last[owner < 0]] = True
    kept = np.flatnonzero(wanted)
    return kept, groups[kept]


def _keyless(found: TableRows, splits: int) -> RowsPlan:
    """All images: they can be compared only once the defaults are filled in."""
    inserts = updates = deletes = 0
    for chunk, images in found.chunks():
        bad = np.flatnonzero(images.lacking() & (images.op != INSERT))
        if len(bad):
            raise lacks_columns(found.schema, chunk.place(int(images.event[bad[0]])))
        inserts += int(np.count_nonzero(images.op == INSERT))
        updates += int(np.count_nonzero(images.op == UPDATE_BEFORE))
        deletes += int(np.count_nonzero(images.op == DELETE))
    total = inserts + 2 * updates + deletes
    return RowsPlan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, split_all(total, splits),
        partial=True, lacking=True, rows=total, upserts=inserts + updates, deletes=updates + deletes,
        raw_inserts=inserts, raw_updates=updates, raw_deletes=deletes, insert_only=updates == deletes == 0,
    )  # fmt: skip
