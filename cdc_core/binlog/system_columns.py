"""The columns that we add to a table's own, and the Arrow schema of both together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.binlog.columns import arrow_fields
from cdc_core.binlog.columns.kernel import numbers, strings
from cdc_core.binlog.gather import Chunk
from cdc_core.schema.table import TableSchema

NET, CHANGES = "net", "changes"
OP, COUNT = "_sluice_op", "_sluice_count"
UPSERT, REMOVE = 1, 2  # values of `_sluice_op` in mode net
_OPERATIONS = strings(("", "insert", "update_before", "update_after", "delete"))
_CHANGES = (
    pa.field(OP, pa.string()),
    pa.field("_sluice_journal", pa.int32()),
    pa.field("_sluice_position", pa.int64()),
    pa.field("_sluice_row", pa.int32()),
    pa.field("_sluice_timestamp", pa.timestamp("us", "UTC")),
)


def arrow_schema(schema: TableSchema, mode: str = NET) -> pa.Schema:
    """The table's columns, then the system columns of the mode."""
    fields = arrow_fields(schema)
    if mode == CHANGES:
        return pa.schema([*fields, *_CHANGES])
    if schema.primary_key:
        return pa.schema([*fields, pa.field(OP, pa.int8())])
    return pa.schema([*fields, pa.field(COUNT, pa.int64())])


def changes_columns(
    chunk: Chunk, op: npt.NDArray[np.uint8], event: npt.NDArray[np.int32], row: npt.NDArray[np.int32]
) -> list[pa.Array]:
    """The system columns of mode `changes` for these images of a chunk."""
    seconds = chunk.index["timestamp"][event].astype(np.int64)
    return [
        _OPERATIONS.take(numbers(op)),
        numbers(chunk.journals[event]),
        numbers(chunk.index["end"][event]),
        numbers(row),
        numbers(seconds * 1_000_000, pa.timestamp("us", "UTC")),
    ]
