"""Values in another type, where a rule says so. NULL stays NULL.

A time that a zone does not have, or that no TIMESTAMP of Delta holds, is refused or becomes NULL, like a date that does
not exist. So two times are never one instant.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_core.rows.columns.arrays import strings
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.zones import EARLIEST, LATEST, ZoneOffsets
from cdc_core.schema.column_rule import UTC, Cast
from cdc_core.schema.table import Column, unsupported

_MOST = (1 << 63) - 1
_REMEDY = "Leave BIGINT UNSIGNED as decimal (`rules` in defs.yaml), or correct the row."
_INSTANT = pa.timestamp("us", UTC)
_NO_INSTANT = "Set sluice.zero.dates to null, have DATETIME as timestamp_ntz or in UTC (`rules` in defs.yaml), or "
_NO_INSTANT += "correct the row."
_TYPES = {
    Cast.TINYINT1: pa.bool_(), Cast.BIGINT_UNSIGNED: pa.int64(), Cast.ENUM: pa.int32(), Cast.BIT1: pa.int8(),
    Cast.DATETIME_TIMESTAMP: _INSTANT, Cast.DATETIME_STRING: pa.string(),
}  # fmt: skip


def cast_type(column: Column, kind: pa.DataType) -> pa.DataType:
    """The type of the column's values, which is `kind` without a rule. Raises SchemaError for labels of which one is
    empty: it would look like an invalid value."""
    if column.cast is Cast.ENUM and "" in column.labels:
        raise unsupported(
            column, "its empty label has the text of an invalid value", "Leave ENUM as label in its rule."
        )
    return _TYPES[column.cast] if column.cast else kind


def cast(cells: Cells, values: pa.Array) -> pa.Array:
    """The values in the type of their rule; the same without one. Raises DecodeError for a number that is too large,
    and for a local time that does not exist."""
    match cells.column.cast:
        case None | Cast.DATETIME_STRING:  # a column that is read as text
            return values
        case Cast.DATETIME_TIMESTAMP:
            return _instants(cells, values)
        case Cast.TINYINT1:
            return pc.not_equal(values, pa.scalar(0, values.type))
        case Cast.BIT1:
            return values.cast(pa.int8())
        case Cast.ENUM:
            return pc.index_in(values, value_set=strings(("", *cells.column.labels)))
        case Cast.BIGINT_UNSIGNED:
            large = pc.greater(values, pa.scalar(_MOST, values.type)).fill_null(False)
            if pc.any(large).as_py():
                image = int(np.flatnonzero(large.to_numpy(zero_copy_only=False))[0])
                raise cells.error(image, "a number beyond BIGINT, which its rule makes of it", _REMEDY)
            return values.cast(pa.int64())


def _instants(cells: Cells, values: pa.Array) -> pa.Array:
    zone = cells.column.rule.zone if cells.column.rule else UTC
    if zone == UTC:
        return values.cast(_INSTANT)
    local = values.cast(pa.int64()).fill_null(0).to_numpy()
    years = pc.unique(pc.year(values.drop_null())).to_pylist()
    instants, exist = ZoneOffsets.of(zone, years).instants(local)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    fits = exist & (instants >= EARLIEST) & (instants <= LATEST)
    if cells.zero_dates == "fail" and not fits[present].all():
        image = int(np.flatnonzero(present & ~fits)[0])
        raise cells.error(image, f"a local time that does not exist in {zone}, {values[image]}", _NO_INSTANT)
    return pa.array(instants, pa.int64(), mask=~(present & fits)).view(_INSTANT)
