"""The last image of each key of a part, as a view in Spark: few rows are sent along, many are staged as a file.

A MERGE of them costs Spark about half of one that reads the log, which is many small files. The rows are the same
however often Spark reads them, also for a statement that comes late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.connect.session import SparkSession

from spark_jobs.changes.in_order import ONE_AT_A_TIME, InOrder, images_in_order, within_expression
from spark_jobs.following.pending import Part
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import OP
from spark_jobs.write.net_file import make_room, staging_file
from spark_jobs.write.order import SENT_BYTES
from spark_jobs.write.view import create_file_view, create_sent_view

log = structlog.get_logger(__name__)
_SENT_ROWS = 20_000  # more are staged as a file: Spark would hold them as rows
_SLICE = 65_536  # rows that are written at a time


@dataclass(frozen=True, slots=True)
class LastImages:
    """The images of so many `rows`, with the columns of `schema`: sent along, or in `file`."""

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
    lake: Lake, destination: str, source: DeltaTable, part: Part, columns: Sequence[str], key: Sequence[str]
) -> Iterator[LastImages | None]:
    """Yields the images, with `OP`: 1 for a key that has a row now, 2 for a key without one. Yields None if Spark
    should read the log itself."""
    with staging_file(lake, destination, columns) as file:
        yield _made(file, source, part, columns, key)


def _made(
    file: Path | None, source: DeltaTable, part: Part, columns: Sequence[str], key: Sequence[str]
) -> LastImages | None:
    try:
        with ONE_AT_A_TIME:
            images = images_in_order(source, within_expression(part.epoch, part.after, part.upto), columns, key)
            if images is None or not len(images.order):
                return None
            chosen = np.flatnonzero(images.last)
            schema = pa.schema([*(images.rows.schema.field(name) for name in columns), pa.field(OP, pa.int8())])
            if len(chosen) <= _SENT_ROWS:
                sent = images.net(chosen, columns)
                if sent.nbytes <= SENT_BYTES:
                    return LastImages(len(chosen), schema, sent)
            if file is None:
                return None
            _write(file, images, chosen, schema)
            return LastImages(len(chosen), schema, file=str(file))
    except (OSError, DeltaError, pa.ArrowException) as error:
        log.warning("Arrow cannot read a change log, so Spark does", log=str(source.table_uri), why=str(error))
        return None


def _write(file: Path, images: InOrder, chosen: np.ndarray, schema: pa.Schema) -> None:
    make_room(file)
    with pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False, write_statistics=False) as writer:
        for start in range(0, len(chosen), _SLICE):
            writer.write_table(images.net(chosen[start : start + _SLICE], schema.names[:-1]))
