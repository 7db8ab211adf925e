"""A default's constant as the catalogue shows it: MySQL converts it to the column's type.

Source: MySQL manual, "Data Type Default Values"; `information_schema.columns`.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.declaration import BINARY
from cdc_core.schema.table import Column

_INTEGERS = (ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG)
_FLOATS = (ColumnType.FLOAT, ColumnType.DOUBLE)
_TEXTS = (ColumnType.VARCHAR, ColumnType.STRING, ColumnType.BLOB)
_MOMENTS = (ColumnType.DATETIME2, ColumnType.TIMESTAMP2, ColumnType.TIME2)
_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"-?\d{2,3}:\d\d:\d\d"
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?<!-0)")  # a number that is written as the server writes it
_LENGTH = re.compile(r"(?:var)?char\((\d+)\)", re.ASCII)
_BITS = re.compile(r"[bB]'0*([01]+)'")  # how SQL writes bits


def constant(column: Column, text: str, *, quoted: bool = True, strict: bool = True) -> str:
    """`quoted`: the text is a string, not a number. Raises ValueError for a form that is not known here."""
    code = column.type_code
    if code in _TEXTS and column.charset != BINARY and not column.is_address:
        if not (quoted or _INTEGER.fullmatch(text)):
            raise ValueError(text)
        return _text(column, text)
    if code in (ColumnType.ENUM, ColumnType.SET):
        if not quoted:  # the label's number
            raise ValueError(text)
        return _label(column, text, strict=strict)
    if not text.isascii():
        raise ValueError(text)
    if code in (*_INTEGERS, *_FLOATS, ColumnType.NEWDECIMAL):
        return _number(column, text, quoted=quoted)
    if code in _MOMENTS:
        return _moment(column, text)
    if code == ColumnType.DATE and re.fullmatch(_DATE, text):
        return _day(text)
    if code == ColumnType.YEAR and re.fullmatch(r"\d{4}", text):
        return text
    if code == ColumnType.BIT and (bits := _BITS.fullmatch(text)):
        return f"b'{bits[1]}'"
    raise ValueError(text)


def _text(column: Column, text: str) -> str:
    """The server cuts blanks that do not fit; for anything else it refuses the statement."""
    if column.type_code == ColumnType.STRING:
        text = text.rstrip(" ")
    found = _LENGTH.match(column.column_type)
    length = int(found[1]) if found else 255 if column.column_type == "tinytext" else 65535
    if len(text) <= length:
        return text
    if not found or text[length:].strip(" "):
        raise ValueError(text)
    return text[:length]


def _number(column: Column, text: str, *, quoted: bool) -> str:
    try:
        value = Decimal(text.strip())
    except InvalidOperation as error:
        raise ValueError(text) from error
    is_double = quoted or "e" in text.lower()  # -0.0 is a DECIMAL, which has no -0
    if not value and column.type_code in _FLOATS and value.is_signed() and is_double:
        raise ValueError(text)
    value = value or Decimal(0)
    if column.type_code == ColumnType.NEWDECIMAL:
        if "e" in text.lower():  # a DOUBLE, which is rounded otherwise
            raise ValueError(text)
        with localcontext(rounding=ROUND_HALF_UP):
            rounded = f"{value:.{column.meta & 255}f}"
        return rounded if Decimal(rounded) else rounded.removeprefix("-")
    if column.type_code in _FLOATS and "(" in column.column_type:  # FLOAT(9,2): rounded too
        raise ValueError(text)
    if not text.isascii() or not value.is_finite() or "_" in text:
        raise ValueError(text)
    if value != value.to_integral_value():
        if column.type_code in _INTEGERS:
            raise ValueError(text)
        return f"{value.normalize():f}"
    return str(int(value))


def _day(text: str) -> str:
    """A date of the calendar, or none. Raises ValueError for others: modes decide what becomes of `2024-01-00`."""
    return text if text == "0000-00-00" else date.fromisoformat(text).isoformat()


def _moment(column: Column, text: str) -> str:
    if column.type_code != ColumnType.TIME2 and re.fullmatch(_DATE, text):
        text += " 00:00:00"
    form = _TIME if column.type_code == ColumnType.TIME2 else rf"{_DATE} {_TIME}"
    found = re.fullmatch(rf"({form})(?:\.(\d+))?", text)
    if not found or len((found[2] or "").rstrip("0")) > column.meta:
        raise ValueError(text)
    if column.type_code != ColumnType.TIME2:
        _day(found[1].partition(" ")[0])
    return f"{found[1]}.{(found[2] or '').ljust(column.meta, '0')[: column.meta]}" if column.meta else found[1]


def _label(column: Column, text: str, *, strict: bool) -> str:
    if column.type_code == ColumnType.ENUM:
        return _known(column, text, strict=strict)
    chosen = {_known(column, part, strict=strict) for part in text.split(",")} if text else set()
    return ",".join(label for label in column.labels if label in chosen)


def _known(column: Column, text: str, *, strict: bool) -> str:
    """The label that the server finds. Only a collation says which labels are alike: none are in strict mode, where the
    statement would have failed; else the first of them is found."""
    if text in column.labels and (strict or text == column.labels[0]):
        return text
    alike = [label for label in column.labels if label.lower() == text.lower()]
    if len(alike) != 1 or not all(label.isascii() for label in (text, *column.labels)) or not strict:
        raise ValueError(text)
    return alike[0]
