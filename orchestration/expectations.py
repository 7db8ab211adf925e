"""What a `defs.yaml` can say of what must be true of a batch's rows: docs/expectations.md."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Self

import dagster as dg
import pyarrow as pa
from pydantic import model_validator

from cdc_core.errors import ConfigError, SchemaError
from cdc_core.rows.columns.batch import arrow_type
from cdc_core.schema.names import split_name
from cdc_core.schema.table import TableSchema
from orchestration.freshness import parse_freshness
from spark_jobs.expectations.column_tests import (
    AcceptedValues,
    Bounded,
    ColumnTest,
    Length,
    NotNull,
    Regex,
    check_pattern,
)
from spark_jobs.expectations.expectation import (
    OF_CLAIMS,
    Expectation,
    Expectations,
    Freshness,
    References,
    Severity,
    Sql,
    Test,
    Unique,
    Volume,
    check_names,
    check_severity,
    misfit,
    named,
)
from spark_jobs.expectations.values import Value
from spark_jobs.landing.modes import Mode, Modes

_KINDS = (
    "not_null", "accepted_values", "range", "regex", "length", "unique", "references", "volume", "freshness", "sql",
)  # fmt: skip
_ODD = re.compile(r"[^A-Za-z0-9_]+")


class Bounds(dg.Model, dg.Resolvable):
    """The least and the greatest value; without one there is no such bound."""

    min: str | int | float | None = None
    max: str | int | float | None = None


class Lengths(dg.Model, dg.Resolvable):
    """The least and the greatest length, in characters, or in bytes of a binary column."""

    min: int | None = None
    max: int | None = None


class Reference(dg.Model, dg.Resolvable):
    """`columns`, or one column, have a key of `table`."""

    columns: str | list[str]
    table: str


class Rows(dg.Model, dg.Resolvable):
    """How many rows of the table a batch changes: at least `min`, at most `max`, and at most `times` as many as the
    median of its last batches."""

    min: int | None = None
    max: int | None = None
    times: float | None = None


class Expected(dg.Model, dg.Resolvable):
    """One thing that is expected of a table: exactly one of the kinds. What is said of several columns becomes a check
    for each. `name`: of the check; without it, the kind and the columns."""

    not_null: str | list[str] | None = None
    accepted_values: dict[str, list[str | int | float | bool]] | None = None
    range: dict[str, Bounds] | None = None
    regex: dict[str, str] | None = None
    length: dict[str, Lengths] | None = None
    unique: str | list[str] | None = None
    references: Reference | None = None
    volume: Rows | None = None
    freshness: str | None = None
    sql: str | None = None
    severity: Severity = Severity.WARN
    name: str = ""
    timeout_seconds: float = 60.0

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            said = f"names {' and '.join(kinds)}" if kinds else "names no kind"
            raise ValueError(f"{said}; an expectation is exactly one of {', '.join(_KINDS)}")
        found = self.expectations
        if not found:
            raise ValueError(f"{kinds[0]} names no column")
        if self.name and len(found) > 1:
            raise ValueError(f"{self.name} is the name of {len(found)} checks; write one expectation for each column")
        for one in found:
            check_severity(one)
            _check_test(one.name, one.test)
        return self

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Returns the same as values. Raises ValueError for values that are none."""
        return tuple(
            Expectation(self.name or _name(test, columns), test, columns, self.severity)
            for columns, test in self._tests()
        )

    def _tests(self) -> Iterator[tuple[tuple[str, ...], Test]]:
        for column in _listed(self.not_null):
            yield (column,), NotNull()
        for column, test in self._of_columns():
            yield (column,), test
        if self.unique is not None:
            yield _listed(self.unique), Unique()
        if self.references is not None:
            yield _listed(self.references.columns), References(self.references.table)
        if self.volume is not None:
            yield (), Volume(self.volume.min, self.volume.max, self.volume.times)
        if self.freshness is not None:
            yield (), Freshness(_seconds(self.freshness))
        if self.sql is not None:
            yield (), Sql(self.sql, self.timeout_seconds)

    def _of_columns(self) -> Iterator[tuple[str, ColumnTest]]:
        for column, values in (self.accepted_values or {}).items():
            yield column, AcceptedValues(tuple(values))
        for column, bounds in (self.range or {}).items():
            yield column, Bounded(bounds.min, bounds.max)
        for column, pattern in (self.regex or {}).items():
            yield column, Regex(pattern)
        for column, lengths in (self.length or {}).items():
            yield column, Length(lengths.min, lengths.max)


def expectations_of(tables: Mapping[str, Sequence[Expected]], most_quarantined: int) -> Expectations:
    """Returns what is expected of tables, by patterns. `most_quarantined`: how many rows of a table may wait."""
    found = {pattern: tuple(one for some in listed for one in some.expectations) for pattern, listed in tables.items()}
    return Expectations(found, most_quarantined)


def check_expectations(expected: Expectations, modes: Modes, taken: Collection[str]) -> None:
    """Raises ValueError for patterns without an expectation, for names of checks that are used twice or that Sluice has
    (`taken`), and for what tables that land first cannot say."""
    for pattern, listed in expected.tables.items():
        if not listed:
            raise ValueError(f"{pattern}: nothing is expected; leave the pattern out")
        check_names(pattern, listed, taken)
        for one in listed:
            if why := unfit_mode(one, pattern, modes):
                raise ValueError(f"{pattern}: {one.name}: {why}")


def unfit_mode(one: Expectation, table: str, modes: Modes) -> str:
    """Returns why the way in which changes come to a table says nothing of what is expected, or ""."""
    if modes.of(table) is Mode.APPEND:
        return "the table is a change log alone (apply: append), which has all changes"
    if isinstance(one.test, OF_CLAIMS) and modes.of(table).lands:
        return f"{one.test.KIND} is of the batches of `apply: merge`, and the table is merged from its change log"
    if isinstance(one.test, References) and modes.of(one.test.table).lands:
        return f"{one.test.table} lands first, so it does not have the rows of the same batch"
    return ""


def expected_of(
    expected: Expectations, modes: Modes, table: str, schema: TableSchema | None
) -> tuple[Expectation, ...]:
    """Returns what is expected of a captured table, by a pattern only what fits its columns and the way in which its
    changes come. `schema` is its definition as the lake sees it, None if only the name is known."""
    listed, whole = expected.of(table), expected.names(table)
    fields = _lake_fields(schema) if listed and schema is not None and not schema.defect else None
    if fields is not None:
        listed = named(listed, fields, whole=whole)
    return tuple(one for one in listed if whole or not unfit_mode(one, table, modes))


def misfits_of(listed: Sequence[Expectation], table: str, schema: TableSchema | None) -> Iterator[str]:
    """Yields what a table cannot meet: its next rows stop it, or are a warning. The others go on."""
    fields = _lake_fields(schema) if schema is not None and not schema.defect else None
    if schema is None or fields is None:
        return
    for one in listed:
        if why := misfit(one, fields, schema.primary_key):
            then = "its next rows only warn" if one.severity is Severity.WARN else "its next rows stop it"
            yield f"{one.name} cannot be expected of {table}: {why}; {then}"


def _lake_fields(schema: TableSchema) -> pa.Schema | None:
    """Returns the columns of a table in the lake; None if it cannot have the table, which then stops by itself."""
    try:
        return pa.schema([(column.name, arrow_type(column)) for column in schema.shown])
    except SchemaError:
        return None


def _check_test(name: str, test: Test) -> None:
    """Raises ValueError for a test that says nothing or contradicts itself, whatever its column."""
    match test:
        case AcceptedValues(values) if not values:
            raise ValueError(f"{name}: accepted_values is empty, so that no value passes")
        case Bounded(least, most) | Length(least, most):
            _check_bounds(name, least, most)
            if isinstance(test, Length) and any(one is not None and one < 0 for one in (test.least, test.most)):
                raise ValueError(f"{name}: a length is not below 0")
        case Regex(pattern):
            check_pattern(pattern)
        case References(table):
            split_name(table)
        case Volume(least, most, times):
            _check_bounds(name, least, most, times)
            if times is not None and times <= 1:
                raise ValueError(f"{name}: times is {times:g}; it must be above 1")
        case Sql(query, seconds):
            if not query.strip():
                raise ValueError(f"{name}: the query is empty")
            if seconds <= 0:
                raise ValueError(f"{name}: timeout_seconds is {seconds:g}; it must be above 0")
        case _:
            pass


def _check_bounds(name: str, least: Value | None, most: Value | None, more: float | None = None) -> None:
    if least is None and most is None and more is None:
        raise ValueError(f"{name}: it has neither min nor max")
    if any(isinstance(one, float) and not math.isfinite(one) for one in (least, most, more)):
        raise ValueError(f"{name}: min and max must be finite")
    if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
        raise ValueError(f"{name}: min {least} is above max {most}, so that no value passes")


def _name(test: Test, columns: Sequence[str]) -> str:
    about = test.table if isinstance(test, References) else "_".join(columns)
    return _ODD.sub("_", f"{test.KIND}_{about}" if about else test.KIND)


def _listed(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)


def _seconds(text: str) -> float:
    """Returns the seconds of a time such as 15m. Raises ValueError."""
    try:
        seconds = parse_freshness(text).seconds
    except ConfigError:
        seconds = 0.0
    if not seconds:
        raise ValueError(f"{text!r} is not a time for freshness; write 30s, 15m or 1h")
    return seconds
