"""What Arrow makes of a range of a log for a statement of Spark: the last image of each key, or versions for a history.

A MERGE of them costs Spark about half of one that reads the log, which is many small files and takes windows over them.
Few rows are sent along, many are staged as a file. The rows are the same however often Spark reads them, also for a
statement that comes late. What `changes.in_order` does not take, Spark reads itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.connect.session import SparkSession

from spark_jobs.changes.in_order import ONE_AT_A_TIME, InOrder, images_in_order
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.changes.versions import SYSTEM, Versions
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import OP
from spark_jobs.write.net_file import LEAST_ROWS, staging_file, write_rows
from spark_jobs.write.order import SENT_BYTES
from spark_jobs.write.view import create_file_view, create_sent_view

log = structlog.get_logger(__name__)
_SENT_ROWS = 20_000  # more are staged as a file: Spark would hold them as rows
_SLICE = 65_536  # rows that are written at a time


@dataclass(frozen=True, slots=True)
class SortedImages:
    """At most so many `rows`, with the columns of `schema`: sent along, or in `file`."""

    rows: int
    schema: pa.Schema
    sent: pa.Table | None = field(default=None, repr=False)
    file: str = ""

    def create_view(self, spark: SparkSession, view: str) -> None:
        if self.sent is not None:
            create_sent_view(spark, self.sent, view)
        else:
            create_file_view(spark, self.schema, view, self.file)


@contextmanager
def last_images(
    lake: Lake, destination: str, source: DeltaTable, asked: VersionRange, columns: Sequence[str], key: Sequence[str]
) -> Iterator[SortedImages | None]:
    """Yields the last image of each key, with `OP`: 1 for a key that has a row now, 2 for a key without one. Yields
    None if Spark should read the log itself."""
    with staging_file(lake, destination, columns) as file:
        yield _made(source, asked, columns, key, partial(_last, file, columns))


@contextmanager
def row_versions(
    lake: Lake,
    destination: str,
    source: DeltaTable,
    asked: VersionRange,
    rows: int,
    columns: Sequence[str],
    key: Sequence[str],
) -> Iterator[SortedImages | None]:
    """Yields the versions that a history closes and opens, which `changes.versions` describes. Yields None if Spark
    should read the log itself, as it does if the range has few `rows`."""
    if rows < LEAST_ROWS:
        yield None
        return
    with staging_file(lake, destination, columns) as file:
        yield _made(source, asked, columns, key, partial(_versions, file, columns)) if file else None


def _made(
    source: DeltaTable,
    asked: VersionRange,
    columns: Sequence[str],
    key: Sequence[str],
    make: Callable[[InOrder], SortedImages | None],
) -> SortedImages | None:
    """Returns what `make` makes of the sorted images of a range, or None if Arrow does not take them."""
    try:
        with ONE_AT_A_TIME:
            images = images_in_order(source, asked.expression, columns, key)
            return make(images) if images is not None and len(images.order) else None
    except (OSError, DeltaError, pa.ArrowException) as error:
        log.warning("Arrow cannot read a change log, so Spark does", log=str(source.table_uri), why=str(error))
        return None


def _last(file: Path | None, columns: Sequence[str], images: InOrder) -> SortedImages | None:
    chosen = np.flatnonzero(images.last)
    schema = pa.schema([*(images.rows.schema.field(name) for name in columns), pa.field(OP, pa.int8())])
    if len(chosen) <= _SENT_ROWS:
        sent = images.net(chosen, columns)
        if sent.nbytes <= SENT_BYTES:
            return SortedImages(len(chosen), schema, sent)
    if file is None:
        return None
    slices = (images.net(chosen[start : start + _SLICE], columns) for start in range(0, len(chosen), _SLICE))
    write_rows(file, schema, slices)
    return SortedImages(len(chosen), schema, file=str(file))


def _versions(file: Path, columns: Sequence[str], images: InOrder) -> SortedImages:
    schema = pa.schema([*(images.rows.schema.field(name) for name in columns), *SYSTEM])
    write_rows(file, schema, Versions.of(images).slices(columns), [field.name for field in SYSTEM])
    return SortedImages(2 * len(images.order), schema, file=str(file))
