"""Lays the log's changes between two versions over the staged files: as `folded` does in Spark, but file by file.

A file without a changed key stays as it is. Any other file is written once more without the changed keys, and the rows
as they are now follow in their own files. Only for tables whose keys compare as Arrow compares them, and logs that
fit into memory. It holds the changes, and for each of two files a row group.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import VERSION
from spark_jobs.changes.in_order import images_in_order
from spark_jobs.lake.tables import Lake
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.files import Files, StagedFile, files_of, staged_schema, unwritable

_MOST_BYTES = 32 << 20  # of Parquet: a larger log is Spark's
_AT_ONCE = 2  # files
_AT, _THERE = "_sluice_at", "_sluice_there"
_NUMBERS = (pt.is_integer, pt.is_boolean, pt.is_decimal, pt.is_date, pt.is_timestamp)
_EXACT = (*_NUMBERS, pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)


def laid_over(
    lake: Lake, path: str, schema: TableSchema, log: ChangeLog, low: int, upto: int
) -> list[StagedFile] | None:
    """Returns the files of the table, in the folder of the staging table at `path`, with the changes after version
    `low` up to `upto`. None if this is left to Spark. Raises LakeError if nothing can be written."""
    columns = staged_schema(schema)
    key = [columns.names.index(name) if name in columns.names else -1 for name in schema.primary_key]
    if not key or not all(at >= 0 and any(fits(columns.field(at).type) for fits in _EXACT) for at in key):
        return None
    try:
        staged, changed = files_of(lake.open(path)), _last_changes(log, columns, key, low, upto)
        if changed is None:
            return None
        over = _Overlay(path, lake, columns, key, changed.select(key))
        now = changed.filter(changed[_THERE]).select(range(len(columns)))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            kept = [file for files in pool.map(over.without, staged) for file in files]
        return [*kept, *over.written(now)]
    except (OSError, DeltaError, pa.ArrowException) as error:
        raise unwritable(path, error) from error


def _last_changes(log: ChangeLog, columns: pa.Schema, key: Sequence[int], low: int, upto: int) -> pa.Table | None:
    """Returns the last image of each key, with the staged columns' names and types, and whether the key has a row then.
    None if there are too many, or if only Spark can compare them."""
    table = log.lake.open(log.path)
    if (pc.sum(pa.table(table.get_add_actions(flatten=True))["size_bytes"]).as_py() or 0) > _MOST_BYTES:
        return None
    names = [str(number) for number in range(len(columns))]
    since = (pc.field(VERSION) > low) & (pc.field(VERSION) <= upto)
    images = images_in_order(table, since, names, [names[at] for at in key])
    if images is None:
        return None
    last = images.rows.select(names).take(pa.array(images.order[images.last]))
    last = last.append_column(_THERE, pa.array(images.there[images.last]))
    return last.rename_columns([*columns.names, _THERE]).cast(pa.schema([*columns, pa.field(_THERE, pa.bool_())]))


@dataclass(frozen=True, slots=True)
class _Overlay:
    """`changed` are the keys that changed, each once; `key` says which of `columns` they are."""

    path: str
    lake: Lake
    columns: pa.Schema
    key: Sequence[int]
    changed: pa.Table

    def without(self, file: StagedFile) -> list[StagedFile]:
        """Returns the file, or another one that lacks the changed keys."""
        if not self._may_meet(file):
            return [file]
        source = pq.ParquetFile(self._folder().open_input_file(file.path))
        groups = range(source.num_row_groups)
        keys = [self.changed.column_names[at] for at in range(len(self.key))]
        if not any(self._met(source.read_row_group(number, columns=keys)).any() for number in groups):
            return [file]
        kept = Files(self.path, self.lake.storage, self.columns)
        for number in groups:
            group = source.read_row_group(number).cast(self.columns)
            for batch in group.filter(pa.array(~self._met(group.select(keys)))).to_batches():
                kept.add(batch)
        return kept.end()

    def written(self, rows: pa.Table) -> list[StagedFile]:
        files = Files(self.path, self.lake.storage, self.columns)
        for batch in rows.to_batches():
            files.add(batch)
        return files.end()

    def _may_meet(self, file: StagedFile) -> bool:
        """Whether a changed key may be in the file, by its bounds."""
        name, stats = self.changed.column_names[0], json.loads(file.stats)
        low, high = (stats.get(part, {}).get(name) for part in ("minValues", "maxValues"))
        first = self.changed.column(0)
        if not pt.is_integer(first.type) or low is None or high is None:
            return bool(self.changed.num_rows)
        return pc.any(pc.and_(pc.greater_equal(first, low), pc.less_equal(first, high))).as_py() is True

    def _met(self, keys: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Returns for each row whether its key has changed."""
        keys = keys.select(self.changed.column_names).cast(self.changed.schema)
        if len(self.key) == 1:
            return np.asarray(pc.is_in(keys.column(0), value_set=self.changed.column(0).combine_chunks()))
        numbered = keys.append_column(_AT, pa.array(np.arange(keys.num_rows)))
        met = np.zeros(keys.num_rows, np.bool_)
        met[np.asarray(numbered.join(self.changed, keys.column_names, join_type="left semi")[_AT])] = True
        return met

    def _folder(self) -> PyFileSystem:
        return PyFileSystem(DeltaStorageHandler(self.path, self.lake.storage or None))
