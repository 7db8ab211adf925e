"""The images of a part of a log in Arrow, in the order of their keys, and of each key in that of its changes.

Spark pays for a window over a log with more than the MERGE behind it costs. Arrow sorts a part in a fraction of that.
What Arrow should not take is None here, and Spark reads the log: a part of many bytes, images without a key, and
entries of which Spark is to say what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from spark_jobs.following.pending import Part
from spark_jobs.landing.columns import DELETE, EPOCH, INSERT, NTH, OP, TIME, UPDATE_AFTER, UPDATE_BEFORE, VERSION

MOST_BYTES = 256 << 20  # of Arrow; sorting them takes as many once more
ONE_AT_A_TIME = Lock()  # of a run, so that tables and histories side by side do not hold that much each
_THERE, _GONE = (INSERT, UPDATE_AFTER), (DELETE, UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class Images:
    """`order`: where the rows are in `rows`; `first` and `last` of their key; `there`: whether the key has a row then.
    All but `rows` are by place in the order."""

    rows: pa.Table
    order: np.ndarray
    first: np.ndarray
    last: np.ndarray
    there: np.ndarray


def images_of(source: DeltaTable, part: Part, columns: Sequence[str], key: Sequence[str]) -> Images | None:
    """Raises OSError, DeltaError and ArrowException where the log cannot be read so."""
    rows = _read(source, part, columns)
    return _ordered(rows, key) if rows is not None else None


def _read(source: DeltaTable, part: Part, columns: Sequence[str]) -> pa.Table | None:
    where = (pc.field(EPOCH) == part.epoch) & (pc.field(VERSION) <= part.upto)
    if part.after is not None:
        where &= pc.field(VERSION) > part.after
    wanted = [*columns, OP, TIME, EPOCH, VERSION, NTH]
    found, size = list[pa.RecordBatch](), 0
    reader = source.to_pyarrow_dataset().scanner(columns=wanted, filter=where).to_reader()
    for batch in reader:
        size += batch.nbytes
        if size > MOST_BYTES:
            return None
        found.append(batch)
    return pa.Table.from_batches(found, reader.schema.remove_metadata()).combine_chunks()


def _ordered(rows: pa.Table, key: Sequence[str]) -> Images | None:
    if not rows.num_rows or any(rows[name].null_count for name in key):
        return None
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*key, VERSION, NTH)])
    op = rows[OP].take(order)
    there = pc.is_in(op, pa.array(_THERE)).to_numpy()
    if not (there | pc.is_in(op, pa.array(_GONE)).to_numpy()).all():
        return None
    same = np.ones(rows.num_rows - 1, bool)
    for name in key:
        values = rows[name].take(order).combine_chunks()
        same &= pc.equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
    return Images(rows, order.to_numpy(), np.insert(~same, 0, True), np.append(~same, True), there)
