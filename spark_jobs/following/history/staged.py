"""A large part of a log as the changes of its history: a Parquet file in the lake's staging, while a statement runs.

Of Spark's windows over a part Delta keeps a copy, because it reads a source more than once; both take about as long as
the MERGE itself. Arrow sorts the part in a fraction of that, and Delta reads a file as often as it needs. What Arrow
should not take goes by `statements.changes`: a small part, one of many bytes, entries of which Spark is to say what is
wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from spark_jobs.apply.net_file import LEAST_ROWS, make_room, staging_file
from spark_jobs.following.history.columns import CURRENT, VALID_FROM, VALID_TO
from spark_jobs.following.history.statements import KIND
from spark_jobs.following.pending import Part
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.columns import DELETE, EPOCH, INSERT, NTH, OP, TIME, UPDATE_AFTER, UPDATE_BEFORE, VERSION

log = structlog.get_logger(__name__)
MOST_BYTES = 256 << 20  # of Arrow; sorting them takes as many once more
_SLICE = 65_536  # rows that are written at a time
_one_at_a_time = threading.Lock()  # so that tables side by side do not hold that much each
_OPENS, _CLOSES = (INSERT, UPDATE_AFTER), (DELETE, UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class Staged:
    """The file, and the columns that it has."""

    file: str
    schema: pa.Schema


@contextmanager
def staged(
    lake: Lake, destination: str, source: DeltaTable, part: Part, columns: Sequence[str], key: Sequence[str]
) -> Iterator[Staged | None]:
    """What the part's changes do, as `statements.changes` says it. None where Spark should read the log."""
    if part.rows < LEAST_ROWS:
        yield None
        return
    with staging_file(lake, destination, columns) as file:
        if file is None:
            yield None
            return
        with _one_at_a_time:
            changes = _written(file, source, part, columns, key)
        yield changes


def _written(file: Path, source: DeltaTable, part: Part, columns: Sequence[str], key: Sequence[str]) -> Staged | None:
    try:
        images = _images(source, part, columns)
        if images is None:
            return None
        changes = _Changes.of(images, key)
        if changes is None:
            return None
        schema = pa.schema([*(images.schema.field(name) for name in columns), *_OWN])
        make_room(file)
        numbers = [field.name for field in _OWN]
        with pq.ParquetWriter(
            file, schema, compression="lz4", use_dictionary=False, write_statistics=numbers
        ) as writer:
            for kind in (0, 1):
                for rows in changes.slices(kind, columns, schema):
                    writer.write_batch(rows)
    except (OSError, DeltaError, pa.ArrowException) as error:
        log.warning(
            "the changes of a history are not staged, so Spark sorts them", log=str(source.table_uri), why=str(error)
        )
        return None
    return Staged(str(file), schema)


def _images(source: DeltaTable, part: Part, columns: Sequence[str]) -> pa.Table | None:
    """The part's rows; None for more bytes than a run should hold."""
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


_OWN = (
    pa.field(KIND, pa.int32()),
    pa.field(OP, pa.string()),
    pa.field(VALID_FROM, pa.timestamp("us", "UTC")),
    pa.field(VALID_TO, pa.timestamp("us", "UTC")),
    pa.field(CURRENT, pa.bool_()),
    pa.field(EPOCH, pa.int32()),
    pa.field(VERSION, pa.int64()),
    pa.field(NTH, pa.int64()),
)


@dataclass(frozen=True, slots=True)
class _Changes:
    """Images in the order of their keys, and of each key in that of its changes. `order`: where the row is in `images`;
    `first` and `last` of its key; `opens` a version; `until`: the time of the key's next image."""

    images: pa.Table
    order: np.ndarray
    first: np.ndarray
    last: np.ndarray
    opens: np.ndarray
    until: pa.Array

    @classmethod
    def of(cls, images: pa.Table, key: Sequence[str]) -> _Changes | None:
        """None for images that are no rows, or have no key."""
        if not images.num_rows or any(images[name].null_count for name in key):
            return None
        order = pc.sort_indices(images, sort_keys=[(name, "ascending") for name in (*key, VERSION, NTH)])
        op = images[OP].take(order)
        opens = pc.is_in(op, pa.array(_OPENS)).to_numpy()
        if not (opens | pc.is_in(op, pa.array(_CLOSES)).to_numpy()).all():
            return None
        same = np.ones(images.num_rows - 1, bool)
        for name in key:
            values = images[name].take(order).combine_chunks()
            same &= pc.equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
        last = np.append(~same, True)
        following = np.roll(order.to_numpy(), -1)
        until = images[TIME].take(pa.array(following, mask=last))
        return cls(images, order.to_numpy(), np.insert(~same, 0, True), last, opens, until.combine_chunks())

    def slices(self, kind: int, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """What closes the version that was there (0), or opens one (1)."""
        chosen = np.flatnonzero(self.opens if kind else self.first)
        for start in range(0, len(chosen), _SLICE):
            at = chosen[start : start + _SLICE]
            rows = self.images.take(pa.array(self.order[at])).combine_chunks()
            size, time = len(at), rows[TIME]
            own = {
                KIND: pa.array(np.full(size, kind, np.int32)),
                OP: rows[OP],
                VALID_FROM: time if kind else pa.nulls(size, time.type),
                VALID_TO: self.until.take(pa.array(at)) if kind else time,
                CURRENT: pa.array(self.last[at] if kind else np.zeros(size, bool)),
                **{name: rows[name] for name in (EPOCH, VERSION, NTH)},
            }
            arrays = [rows[name] for name in columns] + [own[field.name].cast(field.type) for field in _OWN]
            yield from pa.table(arrays, schema).to_batches()
