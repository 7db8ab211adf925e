"""Stages many net changes as a Parquet file in the lake, for as long as one statement reads them.

To pull rows by Python workers costs Spark about as much as their MERGE, because Delta keeps a copy of a source that it
cannot read twice. It reads a file as often as it needs, each time only the columns that it needs, and without Python.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from cdc_core.client.changes import RowsDoor, TableRead
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, needs_mapping

log = structlog.get_logger(__name__)
LEAST_ROWS = 50_000  # fewer are sent along or pulled in about the same time
_LEFT_SECONDS = 86400.0  # an older file was left by a run that died
_GLOB = re.compile(r"[*?\[\]{}\\]")  # characters that make Spark read a path as a pattern


@contextmanager
def staged(lake: Lake, destination: str, read: TableRead, door: RowsDoor, *, fresh: bool) -> Iterator[str | None]:
    """Yields the path of a file with the rows, or None if they should travel otherwise: they are few, have no
    `staging_file` or no key, the file system has no room, or the table is fresh.

    In a table that is fresh or has no key, a late statement would add the rows again, while the service refuses rows
    that Spark pulls when their claim is gone.
    """
    if read.rows < LEAST_ROWS or not read.table.primary_key or fresh:
        yield None
        return
    with staging_file(lake, destination, read.schema.names) as file:
        yield str(file) if file is not None and _is_written(file, read, door) else None


@contextmanager
def staging_file(lake: Lake, destination: str, names: Sequence[str]) -> Iterator[Path | None]:
    """Yields the path for a file with these columns, which is removed after the block; None for a lake that is not on a
    file system, and for names that Parquet cannot hold."""
    folder = lake.staging_path(destination, "net")
    fits = folder.startswith("/") and not _GLOB.search(folder)
    if not fits or needs_mapping([LakeColumn(name, "") for name in names]):
        yield None
        return
    file = Path(folder) / f"{uuid.uuid4().hex}.parquet"
    try:
        yield file
    finally:
        with suppress(OSError):  # the next day's run tries again
            file.unlink(missing_ok=True)


def write_rows(
    file: Path, schema: pa.Schema, rows: Iterable[pa.Table | pa.RecordBatch], bounded: Sequence[str] = ()
) -> None:
    """Writes rows into a file of `staging_file`, a table or batch at a time, with statistics of the `bounded` columns.
    Raises OSError, and what `rows` raise."""
    make_room(file)
    statistics = list(bounded) or False
    with pq.ParquetWriter(file, schema, compression="lz4", use_dictionary=False, write_statistics=statistics) as writer:
        for some in rows:
            writer.write(some)


def make_room(file: Path) -> None:
    """Creates the file's folder, and removes old files of dead runs from it. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _sweep(file.parent)


def _is_written(file: Path, read: TableRead, door: RowsDoor) -> bool:
    """Writes all rows of the plan. Returns False if the file system does not take them."""
    batches = (batch.replace_schema_metadata(None) for ticket in read.tickets for batch in door.split(ticket))
    try:
        write_rows(file, read.schema.remove_metadata(), batches)
    except OSError as error:
        log.warning("net changes cannot be staged, so Spark pulls them", table=read.table.name, why=str(error))
        return False
    return True


def _sweep(folder: Path) -> None:
    """Removes files that dead runs left."""
    now = time.time()
    for left in folder.glob("*.parquet"):
        with suppress(OSError):
            if now - left.stat().st_mtime > _LEFT_SECONDS:
                left.unlink()
