"""The files of a log by their statistics: the epochs and versions of their rows, and their values. No row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.errors import TableStopped
from spark_jobs.changes.columns import EPOCH, INSERT, OP, VERSION
from spark_jobs.changes.version_range import VersionRange


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a log: the first and last epoch and version of its rows, their number, and when it was written, in
    seconds since 1970. A compacted file may have rows of several epochs."""

    epochs: tuple[int, int]
    low: int
    high: int
    rows: int
    written: float


def log_files(log: DeltaTable) -> list[LogFile]:
    """Returns the files of a log that have rows. Raises TableStopped if one has no statistics."""
    actions = pa.table(log.get_add_actions(flatten=True))
    if not actions.num_rows:
        return []
    names = (f"min.{EPOCH}", f"max.{EPOCH}", f"min.{VERSION}", f"max.{VERSION}", "num_records", "modification_time")
    lacks = [name for name in names if name not in actions.column_names or actions[name].null_count]
    if lacks:
        hint = f"Keep statistics of {EPOCH} and {VERSION} (delta.dataSkippingStatsColumns), and rewrite the file."
        raise TableStopped(f"a file of the change log has no statistic {lacks[0]}", place=log.table_uri, hint=hint)
    written = actions["modification_time"].cast(pa.int64()).to_pylist()
    columns = [actions[name].to_pylist() for name in names[:5]]
    unit = _per_second(actions["modification_time"].type)
    return [
        LogFile((int(first), int(last)), int(low), int(high), int(rows), at / unit)
        for first, last, low, high, rows, at in zip(*columns, written, strict=True)
        if rows
    ]


def epochs_in(log: DeltaTable) -> list[int]:
    """Returns the epochs that a log may have rows of, in order."""
    return epochs_of(log_files(log))


def epochs_of(files: Sequence[LogFile]) -> list[int]:
    """Returns the epochs that the files may have rows of, in order."""
    return sorted({epoch for file in files for epoch in range(file.epochs[0], file.epochs[1] + 1)})


def key_bounds(log: DeltaTable, asked: VersionRange, column: str) -> tuple[int, int] | None:
    """Returns the least and the greatest value of an integer column in the files with changes of a range, or None if
    they are unknown."""
    bounds = _bounds(log, asked, column)
    if not bounds or any(not isinstance(value, int) for pair in bounds for value in pair):
        return None
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def only_inserted(log: DeltaTable, asked: VersionRange) -> bool:
    """Whether the statistics of the files with changes of a range show that all were inserted."""
    bounds = _bounds(log, asked, OP)
    return bool(bounds) and all(pair == (INSERT, INSERT) for pair in bounds)


def _bounds(log: DeltaTable, asked: VersionRange, column: str) -> list[tuple[Any, Any]]:
    """Returns the least and the greatest value of a column in each file with changes of a range; nothing if there are
    no statistics of it."""
    files = pa.table(log.get_add_actions(flatten=True))
    own = (f"min.{column}", f"max.{column}")
    if any(name not in files.column_names for name in own):
        return []
    names = (f"min.{EPOCH}", f"max.{EPOCH}", f"min.{VERSION}", f"max.{VERSION}", *own)
    rows = zip(*(files[name].to_pylist() for name in names), strict=True)
    return [(least, most) for first, last, low, high, least, most in rows if asked.meets((first, last), low, high)]


def _per_second(kind: pa.DataType) -> float:
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit] if pa.types.is_timestamp(kind) else 1e3
