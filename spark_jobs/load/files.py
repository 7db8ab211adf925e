"""Writes batches of rows as Parquet files in a staging table's folder, each described by a small value.

A file is in the table when a commit names it, and not before: its writer may be killed, or write the same rows twice.
Files that no commit names go with the folder. Memory holds one row group and its encoded form.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from cdc_core.errors import LakeError
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.statistics import FileBounds, files_in_log, known_statistics, statistics

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # column names that every reader of Parquet accepts unchanged
_GROUP_BYTES = 32 << 20  # of Arrow, in one row group; a larger batch is a group of its own
_FILE_BYTES = 256 << 20  # of Parquet, about: a file ends with the row group that reaches it

_FORMAT: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,  # a third of the CPU without it; zstd makes the files as small
    "write_statistics": False,  # Delta's log has them
    "store_decimal_as_integer": True,  # Spark reads such decimals faster
    "store_schema": False,
}


@dataclass(frozen=True, slots=True)
class StagedFile:
    """`path` is relative to the table's; `size` is in bytes; `stats` is Delta's JSON of the file's statistics."""

    path: str
    size: int
    rows: int
    stats: str


def files_of(table: DeltaTable) -> list[StagedFile]:
    """Returns the files of a table whose log has their statistics."""
    schema = pa.schema(table.schema().to_arrow())
    return [_file_of(one, schema) for one in files_in_log(table)]


def _file_of(file: Mapping[str, Any], schema: pa.Schema) -> StagedFile:
    rows = file["num_records"]
    return StagedFile(file["path"], file["size_bytes"], rows, statistics(schema, rows, known_statistics(schema, file)))


def numbered(fields: Iterable[pa.Field], *more: pa.Field) -> pa.Schema:
    """Returns columns with numbers for names, because Parquet cannot hold every name; `more` keep theirs."""
    return pa.schema([*(pa.field(str(number), field.type) for number, field in enumerate(fields)), *more])


def staged_schema(schema: TableSchema) -> pa.Schema:
    """Returns a staging table's columns: the source's, or numbered ones if Parquet cannot hold a name."""
    fields = arrow_fields(schema)
    plain = all(_PLAIN.fullmatch(field.name) for field in fields)
    return pa.schema([pa.field(field.name, field.type) for field in fields]) if plain else numbered(fields)


class Files:
    """The files of one writer, in the table at `path`, which exists. `storage` are delta-rs' options."""

    def __init__(self, path: str, storage: Mapping[str, str], schema: pa.Schema) -> None:
        self._path, self._storage, self._schema = path, dict(storage), schema
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._open: _File | None = None
        self._done: list[StagedFile] = []

    def __repr__(self) -> str:
        return f"<Files path={self._path} done={len(self._done)}>"

    def add(self, batch: pa.RecordBatch) -> None:
        """Keeps a batch, whose columns are the schema's in their order. Raises LakeError."""
        self._batches.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._bytes += batch.nbytes
        if self._bytes >= _GROUP_BYTES:
            self._flush()

    def end(self) -> list[StagedFile]:
        """Writes the rest, and returns all files; empty if there were no rows. Raises LakeError."""
        self._flush(last=True)
        return self._done

    def _flush(self, *, last: bool = False) -> None:
        """Writes the kept batches as one row group."""
        group, self._batches, self._bytes = pa.Table.from_batches(self._batches, self._schema), [], 0
        try:
            if group.num_rows:
                self._open = self._open or _File(self._path, self._storage, self._schema)
                self._open.write(group)
            if self._open and (last or self._open.size >= _FILE_BYTES):
                self._done.append(self._open.end())
                self._open = None
        except (OSError, DeltaError, pa.ArrowException) as error:
            raise unwritable(self._path, error) from error


class _File:
    """A file that is being written."""

    def __init__(self, path: str, storage: dict[str, str], schema: pa.Schema) -> None:
        folder: Any = PyFileSystem(DeltaStorageHandler(path, storage or None))
        self._name, self._rows = f"{uuid.uuid4().hex}.parquet", 0
        self._sink = folder.open_output_stream(self._name)
        self._bounds = FileBounds(schema)
        self._writer = pq.ParquetWriter(self._sink, schema, **_FORMAT)

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def write(self, group: pa.Table) -> None:
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._rows += group.num_rows
        self._bounds.add(group)

    def end(self) -> StagedFile:
        self._writer.close()
        size = self.size
        self._sink.close()
        return StagedFile(self._name, size, self._rows, self._bounds.to_json(self._rows))


def unwritable(path: str, error: Exception) -> LakeError:
    """Returns the error for a staging table that cannot be written."""
    hint = "Make the lake writable and give it room for one more copy of the table; then read the table again."
    return LakeError(f"the rows cannot be staged: {first_line(error)}", place=path, hint=hint)
