"""The files that differ between two versions of a Delta table, and the rows that make the difference.

Only the commits between the versions and the files that they add or remove are read, without Spark. A row that was only
moved to another file is no difference.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, PyFileSystem

from cdc_core.errors import LakeError
from spark_jobs.changes.columns import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.tables import Lake
from spark_jobs.past.vectors import Places, deleted_places, identity

MOST_BYTES = 256 << 20
_SIGN = "_sluice_sign"  # 1: the later version has the row, -1: the earlier one had it
_PHYSICAL = "delta.columnMapping.physicalName"
_OTHERWISE = "Read these rows in the source's binlog, or in Spark: SELECT ... VERSION AS OF."


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with its deletion vector, as in a commit. `size` in bytes, 0 if the commit does not say it."""

    path: str
    vector: Mapping[str, Any] | None = field(default=None, compare=False)
    values: Mapping[str, str | None] = field(default_factory=dict, compare=False)
    size: int = field(default=0, compare=False)
    which: str = ""  # of the vectors of the file

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> DataFile:
        vector = action.get("deletionVector")
        values = action.get("partitionValues") or {}
        return cls(unquote(action["path"]), vector, values, int(action.get("size") or 0), identity(vector))


def net_files(commits: Iterable[Iterable[Mapping[str, Any]]]) -> tuple[list[DataFile], list[DataFile]]:
    """Returns the files that only the version before the commits has, and those that only the last one has. Pure:
    `commits` are their actions, in order. A commit that removes nothing and changes no rows adds files once more that
    are there, with other statistics for example."""
    gone, come = dict[DataFile, DataFile](), dict[DataFile, DataFile]()
    for actions in map(list, commits):
        removed = [action["remove"] for action in actions if "remove" in action]
        added = [action["add"] for action in actions if "add" in action]
        for file in map(DataFile.of, removed):
            if come.pop(file, None) is None:
                gone[file] = file
        for file in (DataFile.of(one) for one in added if removed or one.get("dataChange", True)):
            if gone.pop(file, None) is None:
                come[file] = file
    return list(gone), list(come)


@dataclass(frozen=True, slots=True)
class TwoVersions:
    """The difference between version `before`, None for an empty table, and version `after` of the table at `path`,
    whose key is `key` at that version. At most so many bytes of rows are held, and of files read."""

    lake: Lake
    path: str
    before: int | None
    after: int
    key: tuple[str, ...]
    most_bytes: int = MOST_BYTES
    most_read: int | None = None

    def images(self) -> Iterator[pa.RecordBatch]:
        """Yields the table's columns and `OP` as in a change log: the two images of an update one after the other, by
        key. Raises LakeError if a commit or file is gone, or too many rows were moved."""
        try:
            rows = _with_ops(self._differing(), self.key)
        except (DeltaError, OSError, ValueError, KeyError, struct.error, pa.ArrowException) as error:
            what = f"versions {self.before} to {self.after} cannot be compared: {first_line(error)}"
            raise LakeError(what, place=self.path, hint=_OTHERWISE) from error
        yield from rows.to_batches(max_chunksize=1 << 16)

    def _differing(self) -> pa.Table:
        lake, folder = self.lake, PyFileSystem(DeltaStorageHandler(self.path, self.lake.storage or None))
        table = lake.open(self.path, self.after)
        first = 0 if self.before is None else self.before + 1
        gone, come = net_files([_actions(folder, number) for number in range(first, self.after + 1)])
        own, shape = Own.of_table(table), _Shape.of(table)
        reader = _Reader(folder, shape, self.most_bytes, self.most_read)
        kept = {file.path: file for file in come}
        for file in gone:
            other = kept.pop(file.path, None)
            reader.add(file, -1, None if other is None else deleted_places(other.vector, folder))
        for file in come:
            if file.path in kept:
                reader.add(file, 1)
        return _unequal(reader.table(), own)


def _actions(folder: FileSystem, version: int) -> list[dict[str, Any]]:
    with folder.open_input_stream(f"_delta_log/{version:020d}.json") as file:
        return [json.loads(line) for line in file.read().splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class _Shape:
    """The columns of a version: Arrow's schema, the name of each in files, and the columns that are in no file."""

    schema: pa.Schema
    physical: Mapping[str, str]
    partitions: frozenset[str]

    @classmethod
    def of(cls, table: DeltaTable) -> _Shape:
        fields = table.schema().fields
        physical = {field.name: str(field.metadata.get(_PHYSICAL, field.name)) for field in fields}
        schema = pa.schema(pa.schema(table.schema().to_arrow()))
        return cls(schema, physical, frozenset(table.metadata().partition_columns))

    def rows(self, batch: pa.RecordBatch, values: Mapping[str, str | None]) -> pa.Table:
        """Returns a file's rows with these columns."""
        arrays = []
        for column in self.schema:
            name = self.physical[column.name]
            if column.name in self.partitions:
                text = values.get(name)
                array = pa.repeat(pa.scalar(text or None, pa.string()), batch.num_rows)
            elif name in batch.schema.names:
                array = batch.column(name)
            else:
                array = pa.nulls(batch.num_rows, column.type)
            arrays.append(array.cast(column.type) if array.type != column.type else array)
        return pa.Table.from_arrays(arrays, names=self.schema.names)


class _Reader:
    """Gathers rows of files. Raises LakeError beyond `most` bytes, or before more than `most_read` bytes are read: a
    file is read whole, even for one row that a deletion vector names."""

    def __init__(self, folder: FileSystem, shape: _Shape, most: int, most_read: int | None) -> None:
        self._folder, self._shape, self._most, self._most_read = folder, shape, most, most_read
        self._found: list[pa.Table] = []
        self._size = self._read = 0

    def add(self, file: DataFile, sign: int, later: Places | None = None) -> None:
        """Adds the file's living rows; with `later`, only those that are deleted by then, at these places."""
        dead = deleted_places(file.vector, self._folder)
        wanted = None if later is None else np.setdiff1d(later, dead)
        if later is None and self._size + file.size > self._most:
            raise self._too_much(file)
        self._read += file.size
        if self._most_read is not None and self._read > self._most_read:
            message = f"the files that its commits changed have more than {self._most_read:,} bytes"
            raise LakeError(message, place=file.path, hint=_OTHERWISE)
        with self._folder.open_input_file(file.path) as raw:
            opened = pq.ParquetFile(raw, coerce_int96_timestamp_unit="us")
            for batch in _rows_of(opened, dead, wanted):
                rows = self._shape.rows(batch, file.values)
                self._size += rows.nbytes
                if self._size > self._most:
                    raise self._too_much(file)
                signs = pa.array(np.full(rows.num_rows, sign, np.int64))
                self._found.append(rows.append_column(_SIGN, signs))

    def table(self) -> pa.Table:
        if self._found:
            return pa.concat_tables(self._found)
        return self._shape.schema.append(pa.field(_SIGN, pa.int64())).empty_table()

    def _too_much(self, file: DataFile) -> LakeError:
        message = f"its commits moved more than {self._most:,} bytes of rows to other files"
        return LakeError(message, place=file.path, hint=_OTHERWISE)


def _rows_of(file: pq.ParquetFile, dead: Places, wanted: Places | None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file at the `wanted` places, all that are not `dead` without them. The places rise, so that
    those of a batch are a slice."""
    low = 0
    for batch in file.iter_batches(1 << 16):
        named, low = _between(dead if wanted is None else wanted, low, batch.num_rows), low + batch.num_rows
        if wanted is not None:
            batch = batch.take(named)
        elif len(named):
            keep = np.ones(batch.num_rows, bool)
            keep[named] = False
            batch = batch.filter(pa.array(keep))
        if batch.num_rows:
            yield batch


def _between(places: Places, low: int, count: int) -> Places:
    """Returns the rising places of so many rows from `low` on, counted from there."""
    first, end = np.searchsorted(places, (low, low + count))
    return places[first:end] - low


def _unequal(rows: pa.Table, own: Own) -> pa.Table:
    """Returns the rows that the versions do not have equally often, without those that are marked as deleted and
    without Sluice's columns. `_SIGN` says how much more often the later one has them."""
    if DELETED in own.names:
        rows = rows.filter(pc.fill_null(pc.invert(rows[DELETED]), True))
    names = [name for name in rows.column_names if name not in {*own.names, _SIGN}]
    if not rows.num_rows:
        return rows.select([*names, _SIGN])
    summed = rows.select([*names, _SIGN]).group_by(names, use_threads=False).aggregate([(_SIGN, "sum")])
    summed = summed.rename_columns([_SIGN if name == f"{_SIGN}_sum" else name for name in summed.column_names])
    return summed.filter(pc.not_equal(summed[_SIGN], 0)).select([*names, _SIGN])


def _with_ops(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Returns the rows, those before a change before those after it, with `OP`. Without all of the key's columns no row
    is known to be another's later form."""
    key = key if {*key} <= {*rows.column_names} else ()
    rows = rows.sort_by([*((name, "ascending") for name in key), (_SIGN, "ascending")])
    sign = rows[_SIGN].to_numpy()
    paired = np.zeros(max(rows.num_rows - 1, 0), bool)
    if key and rows.num_rows > 1:
        paired = (sign[:-1] < 0) & (sign[1:] > 0)
        for name in key:
            values = rows[name].combine_chunks()
            same = pc.fill_null(pc.equal(values.slice(1), values.slice(0, len(values) - 1)), False)
            paired &= same.to_numpy(zero_copy_only=False)
    has_next, has_previous = np.append(paired, False), np.insert(paired, 0, False)
    ops = np.where(sign < 0, np.where(has_next[: len(sign)], UPDATE_BEFORE, DELETE), "")
    ops = np.where(sign > 0, np.where(has_previous[: len(sign)], UPDATE_AFTER, INSERT), ops)
    often = np.repeat(np.arange(rows.num_rows), np.abs(sign))  # a table without a key may have a row several times
    images = rows.drop_columns([_SIGN]).append_column(OP, pa.array(ops.astype(object), pa.string()))
    return images if len(often) == rows.num_rows else images.take(pa.array(often))
