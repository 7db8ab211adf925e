"""Sorts images in Arrow by key, and for each key in the order of its changes.

In Spark, a window over a log costs more than the MERGE that follows. Arrow sorts a part in a fraction of that time. The
result is None for parts that Spark should read by `net`: many bytes, images without a key, and invalid entries, which
Spark reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from spark_jobs.changes.columns import (
    DELETE,
    EPOCH,
    INSERT,
    JOURNAL,
    NTH,
    OP,
    POSITION,
    TIME,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    VERSION,
)
from spark_jobs.changes.net import ANEW, GONE
from spark_jobs.lake import own_columns as own
from spark_jobs.lake.own_columns import NO_OWN, Own
from spark_jobs.lake.types import COUNT

MOST_BYTES = 256 << 20  # of Arrow; sorting them takes as many once more
ONE_AT_A_TIME = Lock()  # of a run, so that only one table or history holds that much at a time
LOGGED = (EPOCH, VERSION, NTH)  # what orders a log's images
_THERE, _BEFORE = (INSERT, UPDATE_AFTER), (DELETE, UPDATE_BEFORE)
_LAST_OPS = {INSERT: "insert", UPDATE_AFTER: "update", UPDATE_BEFORE: "delete", DELETE: "delete"}


@dataclass(frozen=True, slots=True)
class InOrder:
    """`order`: where the images are in `rows`; `first` and `last` of their key; `there`: whether the key has a row
    then. All but `rows` are by place in the order."""

    rows: pa.Table
    order: np.ndarray
    first: np.ndarray
    last: np.ndarray
    there: np.ndarray

    def net(self, chosen: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Of the images at these places in the order: the columns, and `OP`, 1 for a key that has a row then, 2 for one
        that has none."""
        rows = self.rows.select(columns).take(pa.array(self.order[chosen]))
        op = pa.array(np.where(self.there[chosen], 1, 2).astype(np.int8))
        return rows.append_column(OP, op).combine_chunks()

    def last_of_each(self, columns: Sequence[str], wanted: Own = NO_OWN) -> pa.Table:
        """Of each key: the columns of its last image and those of ours, and `GONE`: whether the key has no row then.
        Also `ANEW`: whether a row of it came: it was inserted, or had another key before."""
        chosen = np.flatnonzero(self.last)
        rows, gone = self.rows.take(pa.array(self.order[chosen])), pa.array(~self.there[chosen])
        came = self._came()
        anew = np.logical_or.reduceat(came, np.flatnonzero(self.first)) if len(chosen) else came
        found = rows.select(columns).append_column(GONE, gone).append_column(ANEW, pa.array(anew))
        if not wanted:
            return found
        place = (rows[name].cast(pa.string()) for name in (JOURNAL, POSITION))
        values = {
            own.DELETED: gone,
            own.POSITION: pc.binary_join_element_wise(*place, ":"),
            own.COMMIT_TIME: rows[TIME],
            own.LAST_OP: pa.array([_LAST_OPS[op] for op in rows[OP].to_pylist()], pa.string()),
        }
        for name in wanted.names:
            found = found.append_column(name, values[name])
        return found

    def _came(self) -> np.ndarray:
        """Of each image, whether its row was not there before: it is no image after an update of the same row."""
        is_after = pc.equal(self.rows[OP], UPDATE_AFTER).to_numpy()[self.order]
        epoch, version, nth = (self.rows[name].to_numpy()[self.order] for name in LOGGED)
        stayed = is_after & ~self.first
        stayed[1:] &= ~self.there[:-1] & (np.diff(epoch) == 0) & (np.diff(version) == 0) & (np.diff(nth) == 1)
        return np.asarray(self.there & ~stayed)


def images_in_order(
    log: DeltaTable, where: pc.Expression, columns: Sequence[str], key: Sequence[str]
) -> InOrder | None:
    """Returns the sorted images. Raises OSError, DeltaError and ArrowException if the log cannot be read so."""
    rows = log_images(log, where, [*columns, OP, TIME, *LOGGED], MOST_BYTES)
    return in_order(rows, key) if rows is not None else None


def log_images(log: DeltaTable, where: pc.Expression, columns: Sequence[str], most: int) -> pa.Table | None:
    """These columns of a log's images; None for more bytes than `most`. Raises the same."""
    found, size = list[pa.RecordBatch](), 0
    reader = log.to_pyarrow_dataset().scanner(columns=columns, filter=where).to_reader()
    for batch in reader:
        size += batch.nbytes
        if size > most:
            return None
        found.append(batch)
    return pa.Table.from_batches(found, reader.schema.remove_metadata()).combine_chunks()


def in_order(rows: pa.Table, key: Sequence[str], by: Sequence[str] = LOGGED) -> InOrder | None:
    """Images that the columns `by` order. None for one without a key, and for what is no image of a row."""
    if any(rows[name].null_count for name in key):
        return None
    if not rows.num_rows:
        return InOrder(rows, *(np.empty(0, kind) for kind in (np.int64, bool, bool, bool)))
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*key, *by)])
    there = _there(rows[OP].take(order))
    if there is None:
        return None
    same = np.ones(rows.num_rows - 1, bool)
    for name in key:
        values = rows[name].take(order).combine_chunks()
        same &= pc.equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
    return InOrder(rows, order.to_numpy(), np.insert(~same, 0, True), np.append(~same, True), there)


def signed(rows: pa.Table, columns: Sequence[str]) -> pa.Table | None:
    """The columns of each image, and `COUNT`: 1 for a copy that comes, -1 for one that goes. None for what is no image
    of a row."""
    there = _there(rows[OP])
    if there is None:
        return None
    return rows.select(columns).append_column(COUNT, pa.array(np.where(there, 1, -1).astype(np.int64)))


def _there(ops: pa.ChunkedArray) -> np.ndarray | None:
    """Of each image, whether its row is there then."""
    there = pc.is_in(ops, pa.array(_THERE)).to_numpy()
    return there if (there | pc.is_in(ops, pa.array(_BEFORE)).to_numpy()).all() else None
