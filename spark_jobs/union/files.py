"""The files of a union, and of its shards as the union names them.

A path is relative to the union's folder, without the escapes of Delta's log. Statistics are those that every reader
takes alike: the number of rows, and the bounds of integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

_INTEGERS = ("byte", "short", "integer", "long")
_INDEXED = 32  # columns with statistics, as Delta's own writers count


@dataclass(frozen=True, slots=True)
class File:
    """A file with `size` in bytes, the time of its writing in milliseconds, and Delta's JSON of its statistics.
    `values`: what its rows have in the partitions' columns."""

    path: str
    size: int
    written: int
    stats: str = field(default="", compare=False)
    values: Mapping[str, str | None] = field(default_factory=dict, compare=False)

    @property
    def added(self) -> AddAction:
        return AddAction(self.path, self.size, dict(self.values), self.written, True, self.stats)

    def removed(self, now: int) -> RemoveAction:
        return RemoveAction(self.path, True, now, self.size, dict(self.values))


def files_of_shard(table: DeltaTable, below: str, values: Mapping[str, str]) -> list[File]:
    """Returns the files of a shard's table, which is in the folder `below` of its union's."""
    fields = table.schema().fields[:_INDEXED]
    integers = [one.name for one in fields if getattr(one.type, "type", "") in _INTEGERS]
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        File(f"{below}/{unquote(one['path'])}", one["size_bytes"], _time(one), _stats(one, integers), values)
        for one in files
    ]


def files_of_union(table: DeltaTable) -> list[File]:
    """Returns the files that a union has."""
    names = table.metadata().partition_columns
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        File(
            unquote(one["path"]), one["size_bytes"], _time(one), values={n: one[f"partition.{n}"] for n in names}
        )
        for one in files
    ]  # fmt: skip


def difference(wanted: Iterable[File], there: Iterable[File]) -> tuple[list[File], list[File]]:
    """Returns the files that a union lacks, and those that it has too many. A file is never written again, so one of
    the same path is the same."""
    new, old = ({one.path: one for one in files} for files in (wanted, there))
    lacking = [one for path, one in new.items() if path not in old]
    return lacking, [one for path, one in old.items() if path not in new]


def _time(file: Mapping[str, Any]) -> int:
    found = file["modification_time"]
    return int(found.timestamp() * 1000) if hasattr(found, "timestamp") else int(found)


def _stats(file: Mapping[str, Any], integers: Iterable[str]) -> str:
    parts = {"minValues": "min", "maxValues": "max", "nullCount": "null_count"}
    found: dict[str, Any] = {"numRecords": file["num_records"]}
    for part, prefix in parts.items():
        known = ((name, file.get(f"{prefix}.{name}")) for name in integers)
        found[part] = {name: value for name, value in known if value is not None}
    return json.dumps(found)
