"""The files of a union, and of its shards as the union names them.

A path is relative to the union's folder, without the escapes of Delta's log. A file's statistics are those of the
union's columns: a column that the shard lacks is NULL in all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from spark_jobs.lake.statistics import INDEXED, ColumnBounds, files_in_log, known_statistics, statistics


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """What a log has of a file: the number of its rows, the columns of the table, and the bounds that are known."""

    rows: int | None = None
    columns: frozenset[str] = frozenset()
    known: Mapping[str, ColumnBounds] = field(default_factory=dict)

    def to_json(self, schema: pa.Schema) -> str:
        """Returns Delta's JSON of the statistics, for a table with these columns."""
        if self.rows is None:
            return "{}"
        lacking = {one.name: ColumnBounds(None, None, self.rows) for one in schema if one.name not in self.columns}
        return statistics(schema, self.rows, lacking | dict(self.known), INDEXED)


@dataclass(frozen=True, slots=True)
class File:
    """A file with `size` in bytes, and the time of its writing in milliseconds. `values`: what its rows have in the
    partitions' columns."""

    path: str
    size: int
    written: int
    about: FileStatistics = field(default_factory=FileStatistics, compare=False)
    values: Mapping[str, str | None] = field(default_factory=dict, compare=False)

    def added(self, schema: pa.Schema, *, new: bool = True) -> AddAction:
        """Returns the entry of the file in a union with these columns; not `new` if the union has its rows already."""
        return AddAction(self.path, self.size, dict(self.values), self.written, new, self.about.to_json(schema))

    def removed(self, now: int) -> RemoveAction:
        return RemoveAction(self.path, True, now, self.size, dict(self.values))


def files_of_shard(table: DeltaTable, below: str, values: Mapping[str, str]) -> list[File]:
    """Returns the files of a shard's table, which is in the folder `below` of its union's."""
    return [
        File(f"{below}/{unquote(one['path'])}", one["size_bytes"], _time(one), about, values)
        for one, about in _files(table)
    ]


def files_of_union(table: DeltaTable, *, bounds: bool = False) -> list[File]:
    """Returns the files that a union has; without the `bounds` of their columns they cannot be added."""
    names = table.metadata().partition_columns
    return [
        File(unquote(one["path"]), one["size_bytes"], _time(one), about, {n: one[f"partition.{n}"] for n in names})
        for one, about in _files(table, bounds=bounds)
    ]


def difference(wanted: Iterable[File], there: Iterable[File]) -> tuple[list[File], list[File]]:
    """Returns the files that a union lacks, and those that it has too many. A file is never written again, so one of
    the same path is the same."""
    new, old = ({one.path: one for one in files} for files in (wanted, there))
    lacking = [one for path, one in new.items() if path not in old]
    return lacking, [one for path, one in old.items() if path not in new]


def _files(table: DeltaTable, *, bounds: bool = True) -> list[tuple[dict[str, Any], FileStatistics]]:
    schema = pa.schema(table.schema().to_arrow())
    columns = frozenset(schema.names)
    return [
        (one, FileStatistics(one["num_records"], columns, known_statistics(schema, one)))
        for one in files_in_log(table, bounds=bounds)
    ]


def _time(file: Mapping[str, Any]) -> int:
    found = file["modification_time"]
    return int(found.timestamp() * 1000) if hasattr(found, "timestamp") else int(found)
