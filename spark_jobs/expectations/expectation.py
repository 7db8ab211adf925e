"""Expectations of tables: what must be true of a batch, and what happens to rows that fail. Values of the
configuration, with their JSON form."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import pyarrow as pa

from cdc_core.schema.names import split_name
from spark_jobs.expectations.column_tests import AcceptedValues, Bounded, ColumnTest, Length, NotNull, Regex
from spark_jobs.expectations.values import plain_type
from spark_jobs.lake.sql import quote

_NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
_WILD = "*?["
MOST_QUARANTINED = 20_000  # rows of a table: a release that breaks more of them is not for a quarantine


class Severity(StrEnum):
    """What becomes of a batch that does not meet an expectation."""

    WARN = "warn"  # it is applied, and the check says so
    QUARANTINE = "quarantine"  # rows that fail wait in a table of their own, the others are applied
    BLOCK = "block"  # the table stays as it was, and stops


@dataclass(frozen=True, slots=True)
class Unique:
    """No other row of the table has the same values in the columns; NULL is equal to nothing."""

    KIND: ClassVar[str] = "unique"


@dataclass(frozen=True, slots=True)
class References:
    """`table` has a row whose primary key is the columns' values, if none of these is NULL."""

    KIND: ClassVar[str] = "references"

    table: str


@dataclass(frozen=True, slots=True)
class Volume:
    """The rows of the table that a batch changes: at least `least`, at most `most`, and at most `times` as many as the
    median of its last batches; None for no bound."""

    KIND: ClassVar[str] = "volume"

    least: int | None = None
    most: int | None = None
    times: float | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """The rows of a batch were committed at the source at most so many seconds before."""

    KIND: ClassVar[str] = "freshness"

    seconds: float


@dataclass(frozen=True, slots=True)
class Sql:
    """A query of Spark's that returns the rows that fail, over `changes` (the batch's rows) or `table` (as it would
    be); it may take so many seconds."""

    KIND: ClassVar[str] = "sql"

    query: str
    seconds: float = 60.0


Test = ColumnTest | Unique | References | Volume | Freshness | Sql
OF_COLUMN = (NotNull, AcceptedValues, Bounded, Regex, Length)
OF_BATCH = (Volume, Freshness)  # about no row: nothing can be put into quarantine
OF_CLAIMS = (References, *OF_BATCH)  # what they ask of a batch, a part of a change log cannot say
_TESTS: Mapping[str, type] = {one.KIND: one for one in (*OF_COLUMN, Unique, References, Volume, Freshness, Sql)}


@dataclass(frozen=True, slots=True)
class Expectation:
    """`test` is expected of the `columns`, as the lake names them: one for a test of a column, none for a test of a
    batch or of SQL. `name` is that of its check."""

    name: str
    test: Test
    columns: tuple[str, ...] = ()
    severity: Severity = Severity.WARN

    @property
    def text(self) -> str:
        """Returns what is expected, for people."""
        named = ", ".join(self.columns)
        match self.test:
            case Unique():
                return f"No two rows have the same {named}."
            case References(table):
                return f"{named} is a key of {table}."
            case Volume():
                return f"A batch changes as many rows as usual ({_facts(self.test)})."
            case Freshness(seconds):
                return f"Rows come at most {seconds:g} s after their commit."
            case Sql(query):
                return f"Returns no row: {query}"
        return f"No row of which {self.reason}."

    @property
    def reason(self) -> str:
        """Returns why a row fails, without a value of it."""
        named = ", ".join(self.columns)
        match self.test:
            case Unique():
                return f"another row has the same {named}"
            case References(table):
                return f"{named} is not a key of {table}"
            case Sql():
                return f"the query {self.name} returns it"
            case Volume() | Freshness():
                return self.text
        return f"{named} {self.test.reason}"

    def sql(self, table: str) -> str:
        """Returns a query of Spark's for the rows of `database.table` that fail, for people; "" if there is none."""
        name, columns = ".".join(map(quote, split_name(table))), list(map(quote, self.columns))
        match self.test:
            case Sql(query):
                return query
            case Unique():
                listed = ", ".join(columns)
                return f"SELECT {listed}, count(*) FROM {name} GROUP BY {listed} HAVING count(*) > 1"  # noqa: S608
            case References() | Volume() | Freshness():
                return ""
        return f"SELECT * FROM {name} WHERE {self.test.sql(columns[0])}"  # noqa: S608

    def to_dict(self) -> dict[str, Any]:
        facts = {"name": self.name, "kind": self.test.KIND, "columns": list(self.columns), "severity": self.severity}
        return facts | {"test": {one.name: getattr(self.test, one.name) for one in fields(_TESTS[self.test.KIND])}}

    @classmethod
    def from_dict(cls, node: Mapping[str, Any]) -> Expectation:
        facts = {name: tuple(one) if isinstance(one, list) else one for name, one in node["test"].items()}
        return cls(node["name"], _TESTS[node["kind"]](**facts), tuple(node["columns"]), Severity(node["severity"]))


@dataclass(frozen=True, slots=True)
class Expectations:
    """`tables` maps patterns (`shop.*`, as in a shell) to expectations; the first that fits a table counts.
    `most_quarantined`: how many rows may wait in the quarantine of one table."""

    tables: Mapping[str, tuple[Expectation, ...]] = field(default_factory=dict)
    most_quarantined: int = MOST_QUARANTINED

    def __bool__(self) -> bool:
        return bool(self.tables)

    def of(self, table: str) -> tuple[Expectation, ...]:
        """Returns what is expected of `database.table`."""
        return self._found(table)[1]

    @property
    def referenced(self) -> frozenset[str]:
        """Returns the tables whose keys others reference."""
        every = (one.test for listed in self.tables.values() for one in listed)
        return frozenset(test.table for test in every if isinstance(test, References))

    @property
    def of_parts(self) -> Expectations:
        """Returns those by which parts of change logs are evaluated."""
        found = {
            pattern: [one for one in listed if not isinstance(one.test, OF_CLAIMS)]
            for pattern, listed in self.tables.items()
        }
        return Expectations({pattern: tuple(listed) for pattern, listed in found.items()}, self.most_quarantined)

    def names(self, table: str) -> bool:
        """Whether `database.table` is named in full, so that it must have all columns of its expectations."""
        return not any(letter in self._found(table)[0] for letter in _WILD)

    def _found(self, table: str) -> tuple[str, tuple[Expectation, ...]]:
        return next((one for one in self.tables.items() if fnmatchcase(table, one[0])), ("", ()))

    def to_json(self) -> str:
        tables = {pattern: [one.to_dict() for one in listed] for pattern, listed in self.tables.items()}
        return json.dumps({"tables": tables, "most_quarantined": self.most_quarantined})

    @classmethod
    def from_json(cls, text: str) -> Expectations:
        node = json.loads(text)
        tables = {name: tuple(map(Expectation.from_dict, listed)) for name, listed in node.get("tables", {}).items()}
        return cls(tables, node.get("most_quarantined", MOST_QUARANTINED))


NO_EXPECTATIONS = Expectations()


def check_names(pattern: str, listed: Sequence[Expectation], taken: Collection[str] = ()) -> None:
    """Raises ValueError for a name that is used twice, that a check of Sluice has (`taken`), or that is no name."""
    seen = set(taken)
    for one in listed:
        if not _NAME.fullmatch(one.name):
            raise ValueError(f"{pattern}: {one.name!r} is not a check's name; use letters, digits and underscores")
        if one.name in seen:
            raise ValueError(f"{pattern}: there are two checks {one.name!r}; give one of them another `name`")
        seen.add(one.name)


def check_severity(expectation: Expectation) -> None:
    """Raises ValueError for a severity that its test cannot have."""
    test, severity = expectation.test, expectation.severity
    if isinstance(test, Freshness) and severity is not Severity.WARN:
        raise ValueError(f"{expectation.name}: rows that come late are not wrong, so freshness can only warn")
    if isinstance(test, OF_BATCH) and severity is Severity.QUARANTINE:
        raise ValueError(f"{expectation.name}: volume is about no row that could be put into quarantine; use block")


def named(listed: Sequence[Expectation], schema: pa.Schema, *, whole: bool) -> tuple[Expectation, ...]:
    """Returns those of a pattern's expectations that a table with these columns, as the lake sees it, must meet: with
    `whole` all, else those whose columns it has."""
    return tuple(one for one in listed if whole or set(one.columns) <= set(schema.names))


def misfit(one: Expectation, schema: pa.Schema, key: Sequence[str]) -> str:
    """Returns why nothing of the kind can be expected of a table with these columns and this primary key, or ""."""
    missing = [name for name in one.columns if name not in schema.names]
    if missing:
        return f"the table has no column {missing[0]}; it has {', '.join(schema.names)}"
    kinds = [plain_type(schema.field(name).type) for name in one.columns]
    if isinstance(one.test, OF_COLUMN):
        try:
            one.test.check(kinds[0])
        except ValueError as error:
            return str(error)
    if isinstance(one.test, Unique | References) and any(map(_is_inexact, kinds)):
        return f"{one.test.KIND} is not for floating-point numbers, nor for columns with parts"
    if isinstance(one.test, Unique) and not key:
        return "rows of a table without a primary key cannot be distinguished"
    if isinstance(one.test, Unique) and set(key) <= set(one.columns):
        return "the primary key is among these columns, so it always holds"
    if one.severity is not Severity.QUARANTINE:
        return ""
    if not key:
        return "the table has no primary key, by which a later change finds a row in quarantine; use warn or block"
    if any(_is_inexact(schema.field(name).type) for name in key):
        return "the table has a floating-point number in its primary key, so it has no quarantine; use warn or block"
    return ""


def _is_inexact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _facts(test: Volume) -> str:
    said = {"at least": test.least, "at most": test.most, "at most, in times of the median,": test.times}
    return ", ".join(f"{name} {value:g}" for name, value in said.items() if value is not None)
