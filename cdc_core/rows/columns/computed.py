"""The columns that rules compute, as Arrow: from columns of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.errors import DecodeError, SchemaError
from cdc_core.rules.expressions import FailedRow, asked_kind, expression
from cdc_core.schema.table import Column, TableSchema

_REMEDY = "Correct the row, or the expression (`rules` in defs.yaml); then reload the table (sluice copy)."


def arrays(
    schema: TableSchema,
    columns: Sequence[pa.Array],
    count: int,
    place: Callable[[int], str] | None = None,
    blank: npt.NDArray[np.bool_] | None = None,
) -> list[pa.Array]:
    """Returns the values of the computed columns. `columns` are those of `schema.selected`, of `count` rows; `place`
    says of a row where it is, for errors. `blank` rows have NULL.

    Raises DecodeError for a row without a value, SchemaError for a definition without a column that is asked."""
    wanted = [column for column in schema.shown if column.is_computed]
    if not wanted:
        return []
    asked = dict(zip((column.source_name.lower() for column in schema.selected), schema.selected, strict=True))
    values = dict(zip(asked, columns, strict=True))
    rows = None if blank is None or not blank.any() else np.flatnonzero(~blank)
    if rows is not None:
        values, count = {name: one.take(pa.array(rows)) for name, one in values.items()}, len(rows)
    found = [_computed(schema.name, column, asked, values, count, _place(place, rows)) for column in wanted]
    if rows is None or blank is None:
        return found
    back = pa.array(np.cumsum(~blank) - 1, pa.int64(), mask=blank)
    return [one.take(back) for one in found]


def _place(place: Callable[[int], str] | None, rows: npt.NDArray[np.int64] | None) -> Callable[[int], str]:
    """Where a row is, by its number among those of which something is computed."""
    if place is None:
        return lambda _: ""
    return place if rows is None else lambda row: place(int(rows[row]))


def _computed(
    table: str,
    column: Column,
    asked: dict[str, Column],
    values: dict[str, pa.Array],
    count: int,
    place: Callable[[int], str],
) -> pa.Array:
    assert column.rule is not None
    asks = expression(column.rule.expression)
    if lacking := [name for name in asks.columns if name not in values or asked_kind(asked[name]) is None]:
        message = f"its column {column.name!r} is computed from {lacking[0]!r}, which is not read"
        raise SchemaError(message, place=table, hint="Reload the table from the source (sluice copy).")
    kind = asks.kind({name: values[name].type for name in asks.columns})
    try:
        return asks.values({name: values[name] for name in asks.columns}, count, kind)
    except FailedRow as error:
        message = f"{table}.{column.name}, row {error.row}: the expression {asks.text!r} has no value ({error})"
        raise DecodeError(message, place=place(error.row), hint=_REMEDY) from None
