"""The columns that batches have besides the table's own, and the Arrow schema of both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc_core.binlog import events
from cdc_core.position import OFFSET_BITS
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.columns.arrays import numbers, strings, validity
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema

NET, CHANGES = "net", "changes"
OP, COUNT, GROUP, SEQUENCE = "_sluice_op", "_sluice_count", "_sluice_group", "_sluice_sequence"
UPSERT, REMOVE, BASE, INSERT = (
    1,
    2,
    3,
    4,
)  # of `_sluice_op` in mode net; the last two only with partial images
BEFORE = ("update_before", "delete")  # of `_sluice_op` in mode changes: rows as they were before the change
LACKS_COLUMNS = "lacks columns, which mode changes cannot show"  # how an error says so of a row image
VALUE = "value"  # the one field of the struct around a column that images may leave out: absent is a NULL struct
_PLACE = ("_sluice_journal", "_sluice_position")
_OPERATIONS = strings(("", "insert", "update_before", "update_after", "delete"))
_CHANGES = (
    pa.field(OP, pa.string()),
    pa.field(_PLACE[0], pa.int32()),
    pa.field(_PLACE[1], pa.int64()),
    pa.field("_sluice_row", pa.int32()),
    pa.field("_sluice_timestamp", pa.timestamp("us", "UTC")),
)
_PARTIAL = (pa.field(OP, pa.int8()), pa.field(GROUP, pa.int64()), pa.field(SEQUENCE, pa.int64()))


def arrow_schema(schema: TableSchema, mode: str = NET, partial: bool = False) -> pa.Schema:
    """The table's columns, then the mode's system columns. `partial`: all columns but the key's are in structs."""
    fields = arrow_fields(schema)
    if partial:
        fields = [field if field.name in schema.primary_key else _wrapped(field) for field in fields]
        if schema.primary_key:
            return pa.schema([*fields, *_PARTIAL])
    if mode == CHANGES:
        return pa.schema([*fields, *_CHANGES])
    if schema.primary_key:
        return pa.schema([*fields, pa.field(OP, pa.int8())])
    return pa.schema([*fields, pa.field(COUNT, pa.int64())])


def _wrapped(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.struct([pa.field(VALUE, field.type)]))


def optional(values: pa.Array, there: npt.NDArray[np.bool_]) -> pa.Array:
    """A column that images may leave out; `there` says which images have it."""
    return pa.StructArray.from_buffers(
        pa.struct([pa.field(VALUE, values.type)]), len(values), [validity(there.view(np.uint8))], children=[values]
    )


def partial_columns(
    op: npt.NDArray[np.uint8], groups: npt.NDArray[np.int64], ordinals: npt.NDArray[np.int64]
) -> list[pa.Array]:
    """The system columns of a table with a key whose images leave columns out."""
    old = np.where(groups < 0, REMOVE, BASE)
    codes = np.where(op == events.INSERT, INSERT, np.where(op == events.UPDATE_AFTER, UPSERT, old))
    return [numbers(codes.astype(np.int8)), numbers(groups), numbers(ordinals)]


def changes_columns(
    chunk: Chunk, op: npt.NDArray[np.uint8], event: npt.NDArray[np.int32], row: npt.NDArray[np.int32]
) -> list[pa.Array]:
    """The system columns of mode `changes` for these images of a chunk."""
    times = chunk.index["timestamp"].astype(np.int64) * 1_000_000
    return [
        _OPERATIONS.take(numbers(op)),
        numbers(chunk.journals.take(event)),
        numbers(chunk.index["end"].copy().take(event)),
        numbers(row),
        numbers(times.take(event), pa.timestamp("us", "UTC")),
    ]


def versions(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Of each image in mode `changes`, the version of its event's end."""
    journal, offset = (np.asarray(batch.column(name)).astype(np.int64) for name in _PLACE)
    return journal << OFFSET_BITS | offset


def is_before(batch: pa.RecordBatch) -> pa.Array:
    """Of each image in mode `changes`, whether it is the row before the change."""
    return pc.is_in(batch.column(OP), pa.array(BEFORE))
