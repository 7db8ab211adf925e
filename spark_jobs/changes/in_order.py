"""Sorts the images of a change log in Arrow by key, and for each key in the order of its changes.

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

from spark_jobs.changes.columns import DELETE, EPOCH, INSERT, NTH, OP, TIME, UPDATE_AFTER, UPDATE_BEFORE, VERSION

MOST_BYTES = 256 << 20  # of Arrow; sorting them takes as many once more
ONE_AT_A_TIME = Lock()  # of a run, so that only one table or history holds that much at a time
_THERE, _BEFORE = (INSERT, UPDATE_AFTER), (DELETE, UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class InOrder:
    """`order`: where the images are in `rows`; `first` and `last` of their key; `there`: whether the key has a row
    then. All but `rows` are by place in the order."""

    rows: pa.Table
    order: np.ndarray
    first: np.ndarray
    last: np.ndarray
    there: np.ndarray


def within_expression(epoch: int | None, after: int | None, upto: int) -> pc.Expression:
    """As `net.within` for Arrow; `epoch`: None for every one."""
    where = pc.field(VERSION) <= upto
    if epoch is not None:
        where &= pc.field(EPOCH) == epoch
    return where if after is None else where & (pc.field(VERSION) > after)


def images_in_order(
    log: DeltaTable, where: pc.Expression, columns: Sequence[str], key: Sequence[str]
) -> InOrder | None:
    """Returns the sorted images. Raises OSError, DeltaError and ArrowException if the log cannot be read so."""
    rows = _read(log, where, [*columns, OP, TIME, EPOCH, VERSION, NTH])
    return _in_order(rows, key) if rows is not None else None


def _read(log: DeltaTable, where: pc.Expression, columns: Sequence[str]) -> pa.Table | None:
    found, size = list[pa.RecordBatch](), 0
    reader = log.to_pyarrow_dataset().scanner(columns=columns, filter=where).to_reader()
    for batch in reader:
        size += batch.nbytes
        if size > MOST_BYTES:
            return None
        found.append(batch)
    return pa.Table.from_batches(found, reader.schema.remove_metadata()).combine_chunks()


def _in_order(rows: pa.Table, key: Sequence[str]) -> InOrder | None:
    if any(rows[name].null_count for name in key):
        return None
    if not rows.num_rows:
        return InOrder(rows, *(np.empty(0, kind) for kind in (np.int64, bool, bool, bool)))
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*key, EPOCH, VERSION, NTH)])
    op = rows[OP].take(order)
    there = pc.is_in(op, pa.array(_THERE)).to_numpy()
    if not (there | pc.is_in(op, pa.array(_BEFORE)).to_numpy()).all():
        return None
    same = np.ones(rows.num_rows - 1, bool)
    for name in key:
        values = rows[name].take(order).combine_chunks()
        same &= pc.equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
    return InOrder(rows, order.to_numpy(), np.insert(~same, 0, True), np.append(~same, True), there)
