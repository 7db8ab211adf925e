"""Values of a configuration as Arrow has them in a column of some type. Pure.

A value that the type cannot have is a ValueError: a test of it would hold for all rows, or for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

Value = str | int | float | bool

_EXACT = pa.decimal256(76, 30)  # has every whole number and every DECIMAL of a lake


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values, also if they come as a dictionary."""
    return kind.value_type if pt.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_decimal(kind) or pt.is_floating(kind))


def is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def typed(values: Sequence[Value], kind: pa.DataType) -> pa.Array:
    """Returns the values in the type in which a column of type `kind` is compared with them: its own, or one that has
    them exactly, if they are numbers that the column cannot have. Raises ValueError for a value of another type."""
    found = [_typed(one, kind) for one in values]
    if pt.is_integer(kind) and any(one != int(one) for one in found):
        return pa.array(found, _EXACT)
    try:
        return pa.array([int(one) for one in found] if pt.is_integer(kind) else found, kind)
    except (pa.ArrowException, OverflowError):
        if pt.is_integer(kind) or pt.is_decimal(kind):
            return pa.array(found, _EXACT)
        raise


def _typed(value: Value, kind: pa.DataType) -> Any:
    if pt.is_boolean(kind):
        return _as(bool, value, "true or false")
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a value of a column of type {kind}; put texts in quotes")
    if is_text(kind):
        return _as(str, value, "a text, in quotes")
    if pt.is_date(kind):
        return _parsed(value, date.fromisoformat, "a date, as '2026-11-26'")
    if pt.is_timestamp(kind):
        return _moment(value, kind)
    if pt.is_floating(kind):
        return _parsed(value, float, "a number")
    if is_number(kind):
        return _exact(value)
    raise ValueError(f"columns of type {kind} are not compared with values")


def _exact(value: Value) -> Decimal:
    try:
        found = Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError(f"{value!r} is not a number") from error
    exponent = found.as_tuple().exponent
    if not isinstance(exponent, int) or abs(found) >= Decimal(10) ** 46 or exponent < -30:
        raise ValueError(f"{value} has more digits than a number of a lake")
    return found


def _moment(value: Value, kind: pa.TimestampType) -> datetime:
    found: datetime = _parsed(value, datetime.fromisoformat, "a date and time, as '2026-11-26T12:00:00'")
    if kind.tz:
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    if found.tzinfo:
        raise ValueError(f"{value} has a time zone, and a DATETIME has none")
    return found


def _parsed(value: Value, parse: Any, wanted: str) -> Any:
    try:
        return parse(value if parse is float else str(value))
    except ValueError as error:
        raise ValueError(f"{value!r} is not {wanted}") from error


def _as(kind: type, value: Value, wanted: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is not {wanted}")
    return value
