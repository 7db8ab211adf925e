"""A range in which images leave columns out (`binlog_row_image` MINIMAL or NOBLOB): what it says of each row.

An image that lacks a column says nothing of it, so one image a key is not enough. Of every row that is left, all images
are handed out since it was last known whole, under a number of the row; who applies them takes the latest value of each
column, and of a column that none of them has what the lake has, or the column's default for a row that was inserted.
A changed key goes along: the row keeps its number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cdc_core.binlog import net_kernels as kernels
from cdc_core.binlog import partial_kernels
from cdc_core.binlog.events import DELETE, INSERT, UPDATE_BEFORE
from cdc_core.binlog.plan import Plan, TableRows
from cdc_core.binlog.system_columns import NET
from cdc_core.binlog.tally import SEED, Key, Tally, even_parts, parts
from cdc_core.errors import TableStopped
from cdc_core.schema.table import TableSchema


def plan_partial(found: TableRows, splits: int) -> Plan:
    """Raises TableStopped where an image lacks what tells its row: a column of the key, or any where there is none."""
    return _keyed(found, splits) if found.schema.primary_key else _keyless(found, splits)


def stopped(schema: TableSchema, place: str) -> TableStopped:
    return TableStopped(
        f"a row image of {schema.name} leaves out columns by which its row is told",
        place=place,
        hint="Give the table a primary key, or SET GLOBAL binlog_row_image=FULL (sessions may override it); "
        "then take a new snapshot of it.",
    )


def _keyed(found: TableRows, splits: int) -> Plan:
    tally, key = Tally(found), Key(found)
    owner = np.empty(found.images, np.int64)
    groups = np.full(found.images, partial_kernels.NOBODY, np.int64)
    base = 0
    for chunk, images in found.chunks():
        bad = partial_kernels.absorb(
            chunk.data, images.starts, images.op, base, key.columns, found.layout, key.bounds, SEED,
            tally.slots, tally.hashes, tally.last, owner, groups, tally.counts,
        )  # fmt: skip
        if bad >= 0:
            raise stopped(found.schema, chunk.place(int(images.event[bad])))
        base += len(images)
    owner, last = owner[: tally.entries], tally.last[: tally.entries]
    kept, groups = _kept(owner, last, groups[:base], int(tally.counts[kernels.GROUPS]))
    removed, raw = int(np.count_nonzero(owner < 0)), tally.raw()
    least, greatest = key.range(tally.counts)
    return Plan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, parts(kept, splits), kept,
        groups=groups, partial=True,
        rows=len(kept), upserts=len(owner) - removed, deletes=removed, **raw,
        insert_only=raw["raw_updates"] == raw["raw_deletes"] == 0, min_key=least, max_key=greatest,
    )  # fmt: skip


def _kept(
    owner: npt.NDArray[np.int64], last: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ordinals of the images that matter, rising, and the row of each: NOBODY's are those of keys that are gone."""
    lives = np.zeros(count + 1, np.bool_)  # the last is NOBODY's place
    lives[owner[owner >= 0]] = True
    groups[~lives[groups]] = partial_kernels.NOBODY
    wanted = groups >= 0
    wanted[last[owner < 0]] = True
    kept = np.flatnonzero(wanted)
    return kept, groups[kept]


def _keyless(found: TableRows, splits: int) -> Plan:
    """All images: only with the defaults filled in can it be told which of them are equal."""
    inserts = updates = deletes = 0
    for chunk, images in found.chunks():
        if not images.old_full or partial_kernels.lacks(images.starts, images.op):
            raise stopped(found.schema, chunk.place(0))
        inserts += int(np.count_nonzero(images.op == INSERT))
        updates += int(np.count_nonzero(images.op == UPDATE_BEFORE))
        deletes += int(np.count_nonzero(images.op == DELETE))
    total = inserts + 2 * updates + deletes
    return Plan(
        found.schema, NET, found.slices, found.schemas, found.after, found.layout, even_parts(total, splits),
        partial=True, rows=total, upserts=inserts + updates, deletes=updates + deletes,
        raw_inserts=inserts, raw_updates=updates, raw_deletes=deletes, insert_only=updates == deletes == 0,
    )  # fmt: skip
