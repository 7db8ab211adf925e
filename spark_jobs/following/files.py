"""The files of a log by their statistics: the epochs and versions of their rows, and their values. No row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.errors import TableStopped
from spark_jobs.changes.columns import EPOCH, INSERT, OP, VERSION


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


def key_bounds(log: DeltaTable, epoch: int, after: int | None, upto: int, column: str) -> tuple[int | None, int | None]:
    """Returns the least and the greatest value of an integer column in the files with these rows; None for both if they
    are unknown."""
    files = pa.table(log.get_add_actions(flatten=True))
    least, most = f"min.{column}", f"max.{column}"
    if least not in files.column_names or most not in files.column_names:
        return None, None
    names = (f"min.{EPOCH}", f"max.{EPOCH}", f"min.{VERSION}", f"max.{VERSION}", least, most)
    rows = zip(*(files[name].to_pylist() for name in names), strict=True)
    floor = -1 if after is None else after
    own = [
        (low, high)
        for first, last, begin, end, low, high in rows
        if first <= epoch <= last and end > floor and begin <= upto
    ]
    if not own or any(not isinstance(value, int) for pair in own for value in pair):
        return None, None
    return min(low for low, _ in own), max(high for _, high in own)


def only_inserted(log: DeltaTable, epoch: int, after: int | None, upto: int) -> bool:
    """Whether the statistics of the files with a part's rows show that all were inserted."""
    files = pa.table(log.get_add_actions(flatten=True))
    names = (f"min.{EPOCH}", f"max.{EPOCH}", f"min.{VERSION}", f"max.{VERSION}", f"min.{OP}", f"max.{OP}")
    if any(name not in files.column_names for name in names):
        return False
    rows = zip(*(files[name].to_pylist() for name in names), strict=True)
    floor = -1 if after is None else after
    own = [
        (least, most)
        for first, last, begin, end, least, most in rows
        if first <= epoch <= last and end > floor and begin <= upto
    ]
    return bool(own) and all(pair == (INSERT, INSERT) for pair in own)


def _per_second(kind: pa.DataType) -> float:
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit] if pa.types.is_timestamp(kind) else 1e3
