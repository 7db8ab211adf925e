"""Stages a large part of a log as the changes of its history: a Parquet file in the lake, while a statement runs.

Delta keeps a copy of what Spark's windows over a part return, because it reads a source more than once; both take about
as long as the MERGE itself. Delta reads a file as often as it needs. Small parts, and parts that `changes.in_order`
does not take, are read by `statements.changes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from spark_jobs.changes.in_order import ONE_AT_A_TIME, images_in_order, within_expression
from spark_jobs.changes.versions import SYSTEM, Versions
from spark_jobs.following.pending import Part
from spark_jobs.lake.tables import Lake
from spark_jobs.write.net_file import LEAST_ROWS, make_room, staging_file

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Staged:
    """The file, and its columns."""

    file: str
    schema: pa.Schema


@contextmanager
def staged(
    lake: Lake, destination: str, source: DeltaTable, part: Part, columns: Sequence[str], key: Sequence[str]
) -> Iterator[Staged | None]:
    """Yields the part's changes in the form of `statements.changes`, or None if Spark should read the log."""
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
        schema = pa.schema([*(images.rows.schema.field(name) for name in columns), *SYSTEM])
        make_room(file)
        numbers = [field.name for field in SYSTEM]
        with pq.ParquetWriter(
            file, schema, compression="lz4", use_dictionary=False, write_statistics=numbers
        ) as writer:
            for rows in Versions.of(images).slices(columns):
                writer.write_table(rows)
    except (OSError, DeltaError, pa.ArrowException) as error:
        log.warning(
            "a history's changes cannot be staged, so Spark sorts them", log=str(source.table_uri), why=str(error)
        )
        return None
    return Staged(str(file), schema)
