"""A large part of a log as the changes of its history: a Parquet file in the lake's staging, while a statement runs.

Of Spark's windows over a part Delta keeps a copy, because it reads a source more than once; both take about as long as
the MERGE itself. Delta reads a file as often as it needs. A small part goes by `statements.changes`, and so does what
`changes.in_order` does not take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from spark_jobs.changes.columns import EPOCH, NTH, OP, TIME, VERSION
from spark_jobs.changes.in_order import ONE_AT_A_TIME, InOrder, images_in_order, within_expression
from spark_jobs.following.history.columns import CURRENT, VALID_FROM, VALID_TO
from spark_jobs.following.history.statements import KIND
from spark_jobs.following.pending import Part
from spark_jobs.lake.tables import Lake
from spark_jobs.write.net_file import LEAST_ROWS, make_room, staging_file

log = structlog.get_logger(__name__)
_SLICE = 65_536  # rows that are written at a time


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
        with ONE_AT_A_TIME:
            changes = _written(file, source, part, columns, key)
        yield changes


def _written(file: Path, source: DeltaTable, part: Part, columns: Sequence[str], key: Sequence[str]) -> Staged | None:
    try:
        images = images_in_order(source, within_expression(part.epoch, part.after, part.upto), columns, key)
        if images is None or not len(images.order):
            return None
        changes = _Changes.of(images)
        schema = pa.schema([*(images.rows.schema.field(name) for name in columns), *_OWN])
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
    """`until`: by place in the order, the time of the key's next image."""

    images: InOrder
    until: pa.Array

    @classmethod
    def of(cls, images: InOrder) -> _Changes:
        following = np.roll(images.order, -1)
        until = images.rows[TIME].take(pa.array(following, mask=images.last))
        return cls(images, until.combine_chunks())

    def slices(self, kind: int, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """What closes the version that was there (0), or opens one (1)."""
        images = self.images
        chosen = np.flatnonzero(images.there if kind else images.first)
        for start in range(0, len(chosen), _SLICE):
            at = chosen[start : start + _SLICE]
            rows = images.rows.take(pa.array(images.order[at])).combine_chunks()
            size, time = len(at), rows[TIME]
            own = {
                KIND: pa.array(np.full(size, kind, np.int32)),
                OP: rows[OP],
                VALID_FROM: time if kind else pa.nulls(size, time.type),
                VALID_TO: self.until.take(pa.array(at)) if kind else time,
                CURRENT: pa.array(images.last[at] if kind else np.zeros(size, bool)),
                **{name: rows[name] for name in (EPOCH, VERSION, NTH)},
            }
            arrays = [rows[name] for name in columns] + [own[field.name].cast(field.type) for field in _OWN]
            yield from pa.table(arrays, schema).to_batches()
