"""Computed columns: expressions over a row, in the language of rules.

They are evaluated on Arrow columns wherever conditions are, so that a stream, a snapshot and a comparison find the same
value. The column's type follows from those of the columns that the expression asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from cdc_core.errors import SchemaError
from cdc_core.rules.evaluation import RowValues, row_that_fails, truth, value
from cdc_core.rules.functions import DATETIME, why_not
from cdc_core.rules.language import columns_of, is_condition, parsed
from cdc_core.schema.column_rule import Cast, ColumnRule
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column

_HINT = "Write an expression as docs/rules.md describes it: CONCAT(first, ' ', last), or price * amount."
_DIGITS, _MOST_SCALE = 38, 30
_UTF8MB4 = 255  # a collation
_INTEGERS: dict[tuple[int, bool], pa.DataType] = {
    (ColumnType.TINY, False): pa.int8(), (ColumnType.TINY, True): pa.int16(),
    (ColumnType.SHORT, False): pa.int16(), (ColumnType.SHORT, True): pa.int32(),
    (ColumnType.INT24, False): pa.int32(), (ColumnType.INT24, True): pa.int32(),
    (ColumnType.LONG, False): pa.int32(), (ColumnType.LONG, True): pa.int64(),
    (ColumnType.LONGLONG, False): pa.int64(), (ColumnType.LONGLONG, True): pa.decimal128(20, 0),
}  # fmt: skip
_TEXTS = (
    ColumnType.STRING, ColumnType.VAR_STRING, ColumnType.VARCHAR, ColumnType.TINY_BLOB, ColumnType.BLOB,
    ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.ENUM, ColumnType.JSON,
)  # fmt: skip
_TIMES: dict[int, pa.DataType] = {
    ColumnType.DATE: pa.date32(), ColumnType.NEWDATE: pa.date32(), ColumnType.DATETIME: DATETIME,
    ColumnType.DATETIME2: DATETIME, ColumnType.TIMESTAMP: pa.timestamp("us", "UTC"),
    ColumnType.TIMESTAMP2: pa.timestamp("us", "UTC"),
}  # fmt: skip
_BINARY = 63  # the collation of bytes

Type: TypeAlias = pa.DataType


class FailedRow(Exception):
    """An expression has no value for a row, whose number is `row`. The text says why."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


@dataclass(frozen=True, slots=True)
class Expression:
    """`columns` are the names that it has, in lower case."""

    text: str
    columns: tuple[str, ...]
    root: exp.Expr = field(repr=False, compare=False)

    def kind(self, kinds: Mapping[str, Type]) -> Type:
        """The type of its values, where the columns that it asks have these types, by their names in lower case. Raises
        SchemaError for types that it is not for."""
        return _kind(self, tuple(kinds[name] for name in self.columns))

    def values(self, columns: Mapping[str, pa.Array], count: int, kind: Type) -> pa.Array:
        """Its value for each of `count` rows, whose columns are by their names in lower case. `kind` is that of `kind`.
        Raises FailedRow."""

        def computed(rows: RowValues) -> pa.Array:
            return rows.all(self.evaluated(rows)).cast(kind)

        rows = RowValues(columns, count)
        try:
            return computed(rows)
        except pa.ArrowException as error:
            why = why_not(error)
        raise FailedRow(row_that_fails(computed, rows), why)

    def evaluated(self, rows: RowValues) -> pa.Array | pa.Scalar:
        """Its value for each row, or one for all. Raises errors of Arrow."""
        return truth(self.root, rows) if is_condition(self.root) else value(self.root, rows)


@lru_cache
def _kind(asks: Expression, kinds: tuple[Type, ...]) -> Type:
    """The type of an expression's values, of columns of these types: that of no rows."""
    none = RowValues({name: pa.nulls(0, kind) for name, kind in zip(asks.columns, kinds, strict=True)}, 0)
    try:
        kind = asks.evaluated(none).type
    except pa.ArrowException as error:
        raise SchemaError(f"the expression {asks.text!r} cannot be evaluated: {error}", hint=_HINT) from error
    if pt.is_decimal(kind):
        return _decimal(asks, kind, any(pt.is_decimal(one) for one in kinds))
    if pt.is_integer(kind):
        return pa.int64()
    if pt.is_timestamp(kind):
        return DATETIME
    if pt.is_string(kind) or pt.is_boolean(kind) or pt.is_date(kind):
        return kind
    raise SchemaError(f"the expression {asks.text!r} gives values of type {kind}", hint=_HINT)


def _decimal(asks: Expression, kind: Type, named: bool) -> Type:
    """A whole number is a BIGINT where no DECIMAL has a part in it. `named`: a column is one."""
    named = named or any(cast.args["to"].this is exp.DType.DECIMAL for cast in asks.root.find_all(exp.Cast))
    if kind.scale == 0 and not named:
        return pa.int64()
    if kind.scale > _MOST_SCALE:
        more = f"the expression {asks.text!r} gives numbers with {kind.scale} digits after the point"
        raise SchemaError(f"{more}; the lake has {_MOST_SCALE}", hint="Write ROUND(..., 2) around it.")
    return pa.decimal128(min(_DIGITS, kind.precision), kind.scale)


@lru_cache
def expression(text: str) -> Expression:
    """The expression of a text. Raises ConfigError for what is not in the language, with the place in the text."""
    root = parsed(text, of_values=True, hint=_HINT)
    return Expression(text, columns_of(root), root)


def asked_kind(column: Column) -> Type | None:
    """The type of a column's values as an expression sees them; None for a type that expressions do not have."""
    code = column.type_code
    if column.as_text or column.is_address or column.cast or column.mask:
        return None
    if code == ColumnType.NEWDECIMAL:
        precision, scale = column.meta >> 8, column.meta & 0xFF
        return pa.decimal128(precision, scale) if precision <= _DIGITS else None
    if code in _TEXTS:
        has_charset = code not in (ColumnType.ENUM, ColumnType.JSON)
        return None if has_charset and column.charset == _BINARY else pa.string()
    return _INTEGERS.get((code, column.unsigned)) or _TIMES.get(code)


def computed_column(name: str, text: str, kind: Type) -> Column:
    """The definition of a computed column whose values have this type."""
    code, meta, declared, cast = _declared(kind)
    rule = ColumnRule("", cast=cast, expression=text)
    return Column(name, code, meta, charset=_UTF8MB4, column_type=declared, rule=rule)


def _declared(kind: Type) -> tuple[ColumnType, int, str, Cast | None]:
    """The type of MySQL that has the values: its code, what TABLE_MAP says of it, and its name."""
    if pt.is_boolean(kind):
        return ColumnType.TINY, 0, "tinyint(1)", Cast.TINYINT1
    if pt.is_integer(kind):
        return ColumnType.LONGLONG, 0, "bigint", None
    if pt.is_decimal(kind):
        return ColumnType.NEWDECIMAL, kind.precision << 8 | kind.scale, f"decimal({kind.precision},{kind.scale})", None
    if pt.is_date(kind):
        return ColumnType.DATE, 0, "date", None
    if pt.is_timestamp(kind):
        return ColumnType.DATETIME2, 6, "datetime(6)", None
    return ColumnType.BLOB, 4, "longtext", None
