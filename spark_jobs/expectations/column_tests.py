"""Tests of the value that a row has in one column. Pure, in Arrow.

NULL passes each of them but `NotNull`, as it does a CHECK in SQL. Texts are compared by their characters: neither case
nor blanks at the end are ignored, whatever the column's collation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.expectations.values import (
    Value,
    is_bytes,
    is_number,
    is_text,
    is_time,
    typed,
)
from spark_jobs.lake.sql import literal


class ColumnTest(Protocol):
    """A test of a column's values. `KIND` is its key in a configuration."""

    KIND: ClassVar[str]

    @property
    def reason(self) -> str:
        """What is said of a value that fails, after the column's name."""

    def sql(self, column: str) -> str:
        """Returns the condition of rows that fail in Spark's SQL, for people; `column` is quoted."""

    def check(self, kind: pa.DataType) -> None:
        """Raises ValueError if a column of that type cannot be tested so."""

    def failing(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Returns, for each value, whether it fails; never NULL."""


@dataclass(frozen=True, slots=True)
class NotNull:
    """The column has a value."""

    KIND: ClassVar[str] = "not_null"

    @property
    def reason(self) -> str:
        return "is NULL"

    def sql(self, column: str) -> str:
        return f"{column} IS NULL"

    def check(self, kind: pa.DataType) -> None:
        """Any column can be tested so."""

    def failing(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.is_null(values)


@dataclass(frozen=True, slots=True)
class AcceptedValues:
    """The value is one of `values`."""

    KIND: ClassVar[str] = "accepted_values"

    values: tuple[Value, ...]

    @property
    def reason(self) -> str:
        return f"is not one of {_listed(self.values)}"

    def sql(self, column: str) -> str:
        return f"{column} NOT IN ({', '.join(map(_literal, self.values))})"

    def check(self, kind: pa.DataType) -> None:
        if pa.types.is_floating(kind):
            raise ValueError("a floating-point number is seldom equal to a value; use range")
        typed(self.values, kind)

    def failing(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        accepted = typed(self.values, values.type)
        found = pc.is_in(values.cast(accepted.type), accepted)
        return pc.and_(pc.invert(found), pc.is_valid(values))


@dataclass(frozen=True, slots=True)
class Bounded:
    """The value is at least `least` and at most `most`; None for no bound."""

    KIND: ClassVar[str] = "range"

    least: Value | None = None
    most: Value | None = None

    @property
    def reason(self) -> str:
        return f"is {_outside(self.least, self.most)}"

    def sql(self, column: str) -> str:
        return _beyond(column, self.least, self.most)

    def check(self, kind: pa.DataType) -> None:
        if not (is_number(kind) or is_time(kind)):
            raise ValueError(f"range is for numbers, dates and times, and the column is of type {kind}")
        bounds = typed([one for one in (self.least, self.most) if one is not None], kind).to_pylist()
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            raise ValueError(f"min {self.least} is above max {self.most}, so that no value passes")

    def failing(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        there = passes = pc.is_valid(values)
        for bound, compare in ((self.least, pc.greater_equal), (self.most, pc.less_equal)):
            if bound is not None:
                limit = typed([bound], values.type)
                passes = pc.and_(passes, pc.fill_null(compare(values.cast(limit.type), limit[0]), False))
        return pc.and_(pc.invert(passes), there)


@dataclass(frozen=True, slots=True)
class Regex:
    """The text has a part that matches `pattern`, in RE2's syntax."""

    KIND: ClassVar[str] = "regex"

    pattern: str

    @property
    def reason(self) -> str:
        return f"does not match {self.pattern!r}"

    def sql(self, column: str) -> str:
        return f"NOT {column} RLIKE {_literal(self.pattern)}"

    def check(self, kind: pa.DataType) -> None:
        if not is_text(kind):
            raise ValueError(f"regex is for texts, and the column is of type {kind}")
        check_pattern(self.pattern)

    def failing(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        matches = pc.match_substring_regex(values, self.pattern)
        return pc.fill_null(pc.invert(matches), False)


@dataclass(frozen=True, slots=True)
class Length:
    """The text has at least `least` and at most `most` characters, of bytes so many bytes; None for no bound."""

    KIND: ClassVar[str] = "length"

    least: int | None = None
    most: int | None = None

    @property
    def reason(self) -> str:
        return f"has a length {_outside(self.least, self.most)}"

    def sql(self, column: str) -> str:
        return _beyond(f"length({column})", self.least, self.most)

    def check(self, kind: pa.DataType) -> None:
        if not (is_text(kind) or is_bytes(kind)):
            raise ValueError(f"length is for texts and bytes, and the column is of type {kind}")

    def failing(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        lengths = pc.utf8_length(values) if is_text(values.type) else pc.binary_length(values)
        return Bounded(self.least, self.most).failing(lengths.cast(pa.int64()))


def check_pattern(pattern: str) -> None:
    """Raises ValueError for a pattern that RE2 does not take."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{pattern!r} is not a regular expression of RE2: {error}") from error


def _listed(values: tuple[Value, ...]) -> str:
    shown = ", ".join(repr(one) for one in values[:5])
    return f"{shown}, ..." if len(values) > 5 else shown


def _outside(least: Value | None, most: Value | None) -> str:
    bounds = [] if least is None else [f"below {least}"]
    return " or ".join([*bounds, *([] if most is None else [f"above {most}"])])


def _beyond(value: str, least: Value | None, most: Value | None) -> str:
    bounds = [] if least is None else [f"{value} < {_literal(least)}"]
    return " OR ".join([*bounds, *([] if most is None else [f"{value} > {_literal(most)}"])])


def _literal(value: Value) -> str:
    return literal(value) if isinstance(value, str) else str(value).lower()
