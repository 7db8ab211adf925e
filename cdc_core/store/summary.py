"""What a range holds, counted over the blocks' indexes: rows by table and operation, and when they were committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.schema.table import TableSchema
from cdc_core.session.claim import TableRange
from cdc_core.source.block import BlockSlice, Kind

_INSERTS = (23, 30, 166, 169)  # WRITE_ROWS v1, v2, and MariaDB's compressed ones
_UPDATES = (24, 31, 39, 167, 170)  # likewise; 39 is PARTIAL_UPDATE_ROWS
_DELETES = (25, 32, 168, 171)


def _operations() -> npt.NDArray[np.int64]:
    table = np.full(256, -1, dtype=np.int64)
    for operation, types in enumerate((_INSERTS, _UPDATES, _DELETES)):
        table[list(types)] = operation
    return table


_OPERATION = _operations()


@dataclass(frozen=True, slots=True)
class Summary:
    tables: tuple[TableRange, ...]
    execute_times: tuple[tuple[int, int], ...]


def summarize(slices: Iterable[BlockSlice], table_of: Callable[[int], TableSchema]) -> Summary:
    """Counts by table name; ids of one name are of one version within a range."""
    counts: dict[int, npt.NDArray[np.int64]] = {}
    times: dict[int, int] = {}
    for part in slices:
        index = part.block.index[part.low : part.high]
        events = index[index["kind"] == Kind.ROWS]
        if len(events):
            _add_counts(counts, events)
            _add_times(times, events)
    return Summary(_tables(counts, table_of), tuple(sorted(times.items())))


def _add_counts(counts: dict[int, npt.NDArray[np.int64]], events: npt.NDArray[np.void]) -> None:
    ids, number = np.unique(events["schema"], return_inverse=True)
    cell = number * 3 + _OPERATION[events["type"]]
    sums = np.bincount(cell, weights=events["rows"], minlength=3 * len(ids)).astype(np.int64).reshape(-1, 3)
    for schema_id, row in zip(ids.tolist(), sums, strict=True):
        counts[schema_id] = counts[schema_id] + row if schema_id in counts else row


def _add_times(times: dict[int, int], events: npt.NDArray[np.void]) -> None:
    seconds, number = np.unique(events["timestamp"], return_inverse=True)
    rows = np.bincount(number, weights=events["rows"])
    for second, count in zip(seconds.tolist(), rows.tolist(), strict=True):
        times[second] = times.get(second, 0) + int(count)


def _tables(counts: dict[int, npt.NDArray[np.int64]], table_of: Callable[[int], TableSchema]) -> tuple[TableRange, ...]:
    by_name: dict[str, tuple[TableSchema, npt.NDArray[np.int64]]] = {}
    for schema_id, row in sorted(counts.items()):
        schema = table_of(schema_id)
        known = by_name.get(schema.name)
        by_name[schema.name] = (schema, row if known is None else known[1] + row)
    return tuple(TableRange(schema, *map(int, row)) for _, (schema, row) in sorted(by_name.items()))
