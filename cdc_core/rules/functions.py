"""The functions of the language of rules, on Arrow's values: each gives NULL where a value is NULL.

Numbers are exact. Texts are not numbers, and dates are not texts: a conversion needs CAST. What cannot be computed
raises an error of Arrow, where MySQL would give a warning and another value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from sqlglot import exp

from cdc_core.rules.language import MOST_DIGITS, PARTS_OF_TIME

Values: TypeAlias = Any  # an array, or a scalar for all rows: pyarrow has no types

DATETIME = pa.timestamp("us")
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)
_FRACTION = 30  # digits that a text may have after the point
_PLAIN_SCALE = 6  # Arrow prints no decimal of so few places with an exponent
_DAY, _MOMENT = r"^\d{4}-\d{2}-\d{2}$", r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
_WHOLE, _NUMBER = r"^-?\d+$", r"^-?\d+(\.\d+)?$"
_SLICES = dict(zip(PARTS_OF_TIME, ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19)), strict=True))
_DECIMALS: tuple[tuple[int, Callable[[int, int], pa.DataType]], ...] = ((38, pa.decimal128), (76, pa.decimal256))


class NoValue(pa.ArrowInvalid):  # type: ignore[misc]  # pyarrow has no types
    """What cannot be computed. The text says why, without a value of the row."""


def why_not(error: pa.ArrowException) -> str:
    """Returns why something was not computed. Arrow's own text may have a value of the row."""
    if isinstance(error, pa.ArrowInvalid) and not isinstance(error, NoValue):
        return "a value does not fit its type"
    return str(error)


def alike(values: Sequence[Values]) -> list[Values]:
    """The same in one type: all are texts, numbers, or dates and times. NULL is of any."""
    known = [one for one in values if not pt.is_null(one.type)]
    kind = _common(known) if known else pa.null()
    return [one.cast(kind) for one in values]


def _common(values: Sequence[Values]) -> pa.DataType:
    if any(pt.is_string(one.type) for one in values):
        return {text(one).type for one in values}.pop()
    if any(pt.is_temporal(one.type) for one in values):
        kinds = {moment(one).type if not pt.is_date(one.type) else one.type for one in values}
        return kinds.pop() if len(kinds) == 1 else DATETIME
    if all(pt.is_signed_integer(one.type) for one in values):
        return pa.int64()
    numbers = [number(one) for one in values]
    scale = max(one.type.scale for one in numbers)
    whole = max(one.type.precision - one.type.scale for one in numbers)
    return _decimal(whole + scale, scale)


def text(values: Values) -> Values:
    """The same. Raises ArrowTypeError for what is no text."""
    if not pt.is_string(values.type):
        raise pa.ArrowTypeError(f"{values.type} is not text")
    return values


def number(values: Values) -> Values:
    """Numbers as decimals."""
    if pt.is_integer(values.type):
        return values.cast(_decimal(20, 0))
    if not pt.is_decimal(values.type):
        raise pa.ArrowTypeError(f"{values.type} is not a number")
    return values


def moment(values: Values) -> Values:
    """Dates and times as times; an instant as its time in UTC."""
    if pt.is_date(values.type) or pt.is_timestamp(values.type):
        return values.cast(DATETIME)
    raise pa.ArrowTypeError(f"{values.type} is not a date or a time")


def _day(values: Values) -> Values:
    """The dates of dates and times."""
    if pt.is_date(values.type):
        return values
    return pc.floor_temporal(moment(values), unit="day").cast(pa.date32())


def _wide(values: Values) -> Values:
    """The same, whose sums and products may have as many digits as there can be."""
    return values.cast(pa.decimal256(values.type.precision, values.type.scale))


def _decimal(precision: int, scale: int) -> pa.DataType:
    for most, kind in _DECIMALS:
        if precision <= most:
            return kind(precision, scale)
    raise NoValue(f"a number of {precision} digits")


def _narrowed(values: Values, precision: int, scale: int) -> Values:
    return values.cast(_decimal(max(precision, scale, 1), scale))


def _arithmetic(name: str) -> Callable[[exp.Expr, list[Values]], Values]:
    return lambda _, parts: pc.call_function(name, [_wide(number(part)) for part in parts])


def _integers(values: Values) -> Values:
    numbers = number(values)
    if numbers.type.scale:
        raise pa.ArrowTypeError(f"{values.type} is not a whole number")
    return _wide(numbers)


def _quotient(_: exp.Expr, parts: list[Values]) -> Values:
    """The whole number of times, toward 0, as DIV gives it; NULL for a divisor of 0."""
    left, right = map(_integers, parts)
    precision = left.type.precision
    divisor = pc.if_else(pc.equal(right, pa.scalar(0).cast(right.type)), pa.scalar(None, right.type), right)
    return pc.trunc(pc.divide(left, divisor)).cast(pa.decimal256(precision, 0))


def _remainder(node: exp.Expr, parts: list[Values]) -> Values:
    """What is left of a division; it has the sign of the dividend."""
    left, right = map(_integers, parts)
    rest = pc.subtract(left, pc.multiply(_quotient(node, parts), right))
    return rest.cast(pa.decimal256(max(left.type.precision, right.type.precision), 0))


def _rounded(values: Values, scale: int) -> Values:
    """Halves go away from 0."""
    values = _wide(number(values))
    if scale >= values.type.scale:
        return values
    whole = values.type.precision - values.type.scale + 1
    wider = values.cast(pa.decimal256(min(MOST_DIGITS, values.type.precision + 1), values.type.scale))
    return _narrowed(pc.round(wider, scale, "half_towards_infinity"), whole + scale, scale)


def _to_whole(name: str) -> Callable[[exp.Expr, list[Values]], Values]:
    def apply(_: exp.Expr, parts: list[Values]) -> Values:
        values = _wide(number(parts[0]))
        whole = values.type.precision - values.type.scale + 1
        wider = values.cast(pa.decimal256(min(MOST_DIGITS, values.type.precision + 1), values.type.scale))
        return _narrowed(pc.call_function(name, [wider]), whole, 0)

    return apply


def _joined(_: exp.Expr, parts: list[Values]) -> Values:
    return pc.binary_join_element_wise(*map(text, parts), "")  # NULL where one is


def _joined_with(_: exp.Expr, parts: list[Values]) -> Values:
    """CONCAT_WS passes NULLs over."""
    separator, *texts = map(text, parts)
    if not texts or not isinstance(separator, pa.Scalar):
        raise NoValue("CONCAT_WS has a column for its separator, or nothing to join")
    led = (pc.fill_null(pc.binary_join_element_wise(separator, one, ""), "") for one in texts)
    return pc.utf8_slice_codeunits(pc.binary_join_element_wise(*led, ""), len(separator.as_py()))


def _sliced(node: exp.Expr, parts: list[Values]) -> Values:
    start, length = int(node.args["start"].name) - 1, node.args.get("length")
    return pc.utf8_slice_codeunits(text(parts[0]), start, None if length is None else start + int(length.name))


def _left(node: exp.Expr, parts: list[Values]) -> Values:
    return pc.utf8_slice_codeunits(text(parts[0]), 0, int(node.expression.name))


def _right(node: exp.Expr, parts: list[Values]) -> Values:
    size = int(node.expression.name)
    start, stop = (-size, None) if size else (0, 0)
    return pc.utf8_slice_codeunits(text(parts[0]), start, stop)


def _trimmed(node: exp.Expr, parts: list[Values]) -> Values:
    """Without the spaces at an end, or at both."""
    name = {"LEADING": "utf8_ltrim", "TRAILING": "utf8_rtrim"}.get(node.args.get("position") or "", "utf8_trim")
    return getattr(pc, name)(text(parts[0]), " ")


def _replaced(_: exp.Expr, parts: list[Values]) -> Values:
    values, old, new = map(text, parts)
    if not isinstance(old, pa.Scalar) or not isinstance(new, pa.Scalar):
        raise NoValue("REPLACE has a column for what it replaces")
    if not old.as_py():
        return values  # as MySQL does
    return pc.replace_substring(values, old.as_py(), new.as_py())


def _time_text(node: exp.Expr, parts: list[Values]) -> Values:
    """The parts of DATE_FORMAT that stand for digits, and the characters between them."""
    printed, pattern, found = moment(parts[0]).cast(pa.string()), node.args["format"].name, []
    while pattern:
        part = pattern[:2]
        if part in _SLICES:
            found.append(pc.utf8_slice_codeunits(printed, *_SLICES[part]))
        else:
            part = pattern[:1]
            found.append(pa.scalar(part))
        pattern = pattern[len(part) :]
    nothing = pc.utf8_slice_codeunits(printed, 0, 0)
    return pc.binary_join_element_wise(*found, nothing, "")


def _calendar(name: str) -> Callable[[exp.Expr, list[Values]], Values]:
    return lambda _, parts: pc.call_function(name, [moment(parts[0])])


def _days_between(_: exp.Expr, parts: list[Values]) -> Values:
    later, earlier = (_day(part).cast(pa.int32()).cast(pa.int64()) for part in parts)
    return pc.subtract(later, earlier)


def _cast(node: exp.Expr, parts: list[Values]) -> Values:
    values, kind = parts[0], node.args["to"]
    sizes = [int(one.this.name) for one in kind.expressions]
    match kind.this:
        case exp.DType.CHAR:
            printed = as_text(values)
            return pc.utf8_slice_codeunits(printed, 0, sizes[0]) if sizes else printed
        case exp.DType.BIGINT:
            return _as_integer(values)
        case exp.DType.DECIMAL:
            return _as_decimal(values, *sizes)
        case exp.DType.DATE:
            return _matched(values, _DAY, "a date").cast(pa.date32()) if pt.is_string(values.type) else _day(values)
        case _:
            times = _matched(values, _MOMENT, "a time").cast(DATETIME) if pt.is_string(values.type) else moment(values)
            return _to_digits(times, *sizes)


def _to_digits(times: Values, digits: int = 0) -> Values:
    """Times with so many digits of a second, halves rounded up. Raises NoValue beyond the year 9999."""
    unit = 10 ** (6 - digits)
    later = pc.add(times, pa.scalar(unit // 2, pa.duration("us")))
    found = pc.floor_temporal(later, unit="microsecond", multiple=unit)
    beyond = pc.greater(found, pa.scalar(_LAST, DATETIME))
    if (pc.any(beyond) if isinstance(found, pa.Array) else beyond).as_py():
        raise NoValue("a time rounds to one beyond the year 9999")
    return found


def as_text(values: Values) -> Values:
    """The text that the server prints of a text, a number or a date. Of a time it depends on its column, so that it has
    none."""
    kind = values.type
    if pt.is_string(kind):
        return values
    if pt.is_decimal(kind) and kind.scale > _PLAIN_SCALE and isinstance(values, pa.Array):
        return plain_decimals(values)
    if pt.is_integer(kind) or pt.is_decimal(kind) or pt.is_date(kind):
        return values.cast(pa.string())
    raise pa.ArrowTypeError(f"{kind} has no text; write DATE_FORMAT for a time")


def plain_decimals(values: pa.Array) -> pa.Array:
    """The digits of decimals without an exponent, which Arrow writes for many places."""
    precision, scale = values.type.precision, values.type.scale
    whole = pa.decimal256(precision, 0) if pt.is_decimal256(values.type) else pa.decimal128(precision, 0)
    unscaled = values.view(whole).cast(pa.string())
    negative = pc.starts_with(unscaled, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(unscaled, "-"), scale + 1, "0")
    front, rest = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale, None)
    sign = pc.if_else(negative, pa.scalar("-"), pa.scalar(""))
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, front, ""), rest, ".")


def _matched(values: Values, pattern: str, what: str) -> Values:
    """Texts that are what they are cast to. Raises NoValue for another one."""
    fits = pc.match_substring_regex(values, pattern)
    if pc.any(pc.invert(fits)).as_py() if isinstance(fits, pa.Array) else fits.as_py() is False:
        raise NoValue(f"a text is not {what}")
    return values


def _as_integer(values: Values) -> Values:
    if pt.is_string(values.type):
        return _matched(values, _WHOLE, "a whole number").cast(pa.int64())
    return values.cast(pa.int64()) if pt.is_integer(values.type) else _rounded(values, 0).cast(pa.int64())


def _as_decimal(values: Values, precision: int, scale: int) -> Values:
    if pt.is_string(values.type):
        values = _matched(values, _NUMBER, "a number").cast(pa.decimal256(MOST_DIGITS, _FRACTION))
    return _rounded(values, scale).cast(pa.decimal128(precision, scale))


def _member(node: exp.Expr, parts: list[Values]) -> Values:
    """What `->>` gives of a JSON document: a text without its quotes, and the text of another value."""
    path = [step.this for step in node.expression.expressions[1:]]
    if isinstance(parts[0], pa.Scalar):
        raise pa.ArrowTypeError("->> is for a column of type JSON")
    found = [None if one is None else _found(one, path) for one in text(parts[0]).to_pylist()]
    return pa.array(found, pa.string())


class _Digits(str):
    """A number as the document has it."""


def _found(document: str, path: Sequence[str | int]) -> str | None:
    try:
        value = json.loads(document, parse_float=_Digits, parse_int=_Digits)
    except (ValueError, RecursionError) as error:
        raise NoValue("a text is not JSON") from error
    for step in path:
        if isinstance(step, str):
            there = isinstance(value, dict) and step in value
        else:
            value = value if isinstance(value, list) else [value]  # of what is no array, [0] is the value itself
            there = step < len(value)
        if not there:
            return None
        value = value[step]
    return str(value) if isinstance(value, str) else "".join(_printed(value))


def _printed(value: Any) -> Iterator[str]:
    match value:
        case _Digits():
            yield str(value)
        case dict():
            members = (
                f"{json.dumps(name, ensure_ascii=False)}: {''.join(_printed(one))}" for name, one in value.items()
            )
            yield "{" + ", ".join(members) + "}"
        case list():
            yield "[" + ", ".join("".join(_printed(one)) for one in value) + "]"
        case _:
            yield json.dumps(value, ensure_ascii=False)


FUNCTIONS: dict[type[exp.Expr], Callable[[exp.Expr, list[Values]], Values]] = {
    exp.Add: _arithmetic("add"),
    exp.Sub: _arithmetic("subtract"),
    exp.Mul: _arithmetic("multiply"),
    exp.IntDiv: _quotient,
    exp.Mod: _remainder,
    exp.Neg: _arithmetic("negate"),
    exp.Abs: _arithmetic("abs"),
    exp.Floor: _to_whole("floor"),
    exp.Ceil: _to_whole("ceil"),
    exp.Round: lambda node, parts: _rounded(parts[0], int(places.name) if (places := node.args.get("decimals")) else 0),
    exp.Lower: lambda _, parts: pc.utf8_lower(text(parts[0])),
    exp.Upper: lambda _, parts: pc.utf8_upper(text(parts[0])),
    exp.Length: lambda _, parts: pc.utf8_length(text(parts[0])).cast(pa.int64()),
    exp.Trim: _trimmed,
    exp.Concat: _joined,
    exp.ConcatWs: _joined_with,
    exp.Replace: _replaced,
    exp.Left: _left,
    exp.Right: _right,
    exp.Substring: _sliced,
    exp.JSONExtractScalar: _member,
    exp.Year: _calendar("year"),
    exp.Quarter: _calendar("quarter"),
    exp.Month: _calendar("month"),
    exp.Day: _calendar("day"),
    exp.DayOfMonth: _calendar("day"),
    exp.Hour: _calendar("hour"),
    exp.Minute: _calendar("minute"),
    exp.Second: _calendar("second"),
    exp.TsOrDsToDate: lambda _, parts: _day(parts[0]),
    exp.TsOrDsToTimestamp: lambda _, parts: moment(parts[0]),
    exp.DateDiff: _days_between,
    exp.TimeToStr: _time_text,
    exp.Cast: _cast,
}
