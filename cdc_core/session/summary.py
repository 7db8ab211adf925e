"""What a range holds, counted over the indexes of its blocks: rows by table and operation, and by second of commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.block import BlockSlice, Kind
from cdc_core.binlog.events import DELETE, INSERT, OPERATION, UPDATE_BEFORE
from cdc_core.contract.claim import TableRange
from cdc_core.schema.table import TableSchema

_OPERATIONS = 5  # the codes of `op` are below this

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary:
    """`execute_times`: ((second since the epoch, rows), ...), sorted."""

    tables: tuple[TableRange, ...]
    execute_times: tuple[tuple[int, int], ...]


def summarize(slices: Iterable[BlockSlice], table_of: Callable[[int], TableSchema]) -> Summary:
    """All schema ids of one table name are of one version within a range."""
    counts: dict[int, Counts] = {}
    times: dict[int, int] = {}
    for part in slices:
        index = part.block.index[part.low : part.high]
        events = index[index["kind"] == Kind.ROWS]
        if len(events):
            _add_counts(counts, events)
            _add_times(times, events)
    return Summary(_tables(counts, table_of), tuple(sorted(times.items())))


def _add_counts(counts: dict[int, Counts], events: npt.NDArray[np.void]) -> None:
    ids, number = np.unique(events["schema"], return_inverse=True)
    cell = number * _OPERATIONS + OPERATION[events["type"]]
    sums = np.bincount(cell, weights=events["rows"], minlength=_OPERATIONS * len(ids)).astype(np.int64)
    for schema_id, row in zip(ids.tolist(), sums.reshape(-1, _OPERATIONS), strict=True):
        counts[schema_id] = counts[schema_id] + row if schema_id in counts else row


def _add_times(times: dict[int, int], events: npt.NDArray[np.void]) -> None:
    seconds, number = np.unique(events["timestamp"], return_inverse=True)
    rows = np.bincount(number, weights=events["rows"])
    for second, count in zip(seconds.tolist(), rows.tolist(), strict=True):
        times[second] = times.get(second, 0) + int(count)


def _tables(counts: dict[int, Counts], table_of: Callable[[int], TableSchema]) -> tuple[TableRange, ...]:
    by_name: dict[str, tuple[TableSchema, Counts]] = {}
    for schema_id, row in sorted(counts.items()):
        schema = table_of(schema_id)
        known = by_name.get(schema.name)
        by_name[schema.name] = (schema, row if known is None else known[1] + row)
    return tuple(
        TableRange(schema, int(row[INSERT]), int(row[UPDATE_BEFORE]), int(row[DELETE]))
        for _, (schema, row) in sorted(by_name.items())
    )
