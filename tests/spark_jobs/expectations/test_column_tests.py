"""Which values of a column pass a test, and which tests a column cannot have."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.expectations.column_tests import AcceptedValues, Bounded, ColumnTest, Length, NotNull, Regex

WHOLE = pa.decimal128(20, 0)
MONEY = pa.decimal128(10, 2)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")

CASES: list[tuple[ColumnTest, pa.DataType, list[Any], list[Any]]] = [
    (NotNull(), pa.string(), ["", "a"], [None]),
    (NotNull(), pa.struct({"srid": pa.int64()}), [{"srid": 1}], [None]),
    (AcceptedValues(("a", "b")), pa.string(), ["a", "b", None], ["A", "a ", ""]),
    (AcceptedValues((1, 2)), pa.int8(), [1, 2, None], [0, 127]),
    (AcceptedValues((1, 2)), WHOLE, [Decimal(1), None], [Decimal(2**64 - 1)]),
    (AcceptedValues((2**64 - 1,)), pa.int64(), [None], [2**63 - 1]),
    (AcceptedValues((True,)), pa.bool_(), [True, None], [False]),
    (AcceptedValues(("2026-11-26",)), pa.date32(), [date(2026, 11, 26)], [date(1582, 10, 10)]),
    (Bounded(0, 10), pa.int32(), [0, 10, None], [-1, 11]),
    (Bounded(0.5, 9.5), pa.int32(), [1, 9], [0, 10]),
    (Bounded(least=2**70), pa.int64(), [None], [2**63 - 1]),
    (Bounded(most=2**70), pa.int64(), [-(2**63), 2**63 - 1], []),
    (Bounded("0.01", "99.99"), MONEY, [Decimal("0.01"), Decimal("99.99")], [Decimal("0.00"), Decimal("100.00")]),
    (Bounded("0.005"), MONEY, [Decimal("0.01")], [Decimal("0.00")]),
    (Bounded(0, 1), pa.float64(), [0.0, -0.0, 1.0, None], [float("nan"), float("inf"), -1e-300]),
    (Bounded("2020-01-01", "2029-12-31"), pa.date32(), [date(2020, 1, 1)], [date(2019, 12, 31), date(9999, 12, 31)]),
    (Bounded("2020-01-01"), LOCAL, [datetime(2020, 1, 1), datetime(9999, 12, 31)], [datetime(1000, 1, 1)]),
    (Bounded("2020-01-01T00:00:00+01:00"), INSTANT, [datetime(2019, 12, 31, 23, tzinfo=UTC)], [EPOCH]),
    (Regex("^[^@]+@[^@]+$"), pa.string(), ["a@b", None], ["a", "a@b@c", ""]),
    (Regex("b"), pa.large_string(), ["abc"], ["ac"]),
    (Length(1, 2), pa.string(), ["a", "ää", None], ["", "äää"]),
    (Length(most=2), pa.binary(), [b"", b"ab", None], ["ä".encode() * 2]),
]  # fmt: skip


@pytest.mark.parametrize(("test", "kind", "good", "bad"), CASES, ids=lambda one: str(one)[:40])
def test_a_value_passes_or_fails(test: ColumnTest, kind: pa.DataType, good: list[Any], bad: list[Any]) -> None:
    """Exactly, whatever the column's type, and NULL passes all but `not_null`."""
    test.check(kind)
    values = pa.chunked_array([pa.array(good, kind), pa.array([], kind), pa.array(bad, kind)])
    failing = test.failing(values)
    assert failing.null_count == 0
    assert failing.to_pylist() == [False] * len(good) + [True] * len(bad)


@pytest.mark.parametrize(
    ("test", "kind", "said"),
    [
        (Bounded(3, 1), pa.int8(), "min 3 is above max 1"),
        (Bounded("2021-01-01", "2020-01-01"), pa.date32(), "is above max"),
        (Bounded("a", "b"), pa.string(), "range is for numbers, dates and times"),
        (Bounded("soon"), pa.date32(), "'soon' is not a date"),
        (Bounded("2020-01-01T00:00:00Z"), LOCAL, "a DATETIME has none"),
        (Bounded("many"), pa.int8(), "'many' is not a number"),
        (Bounded("1e60"), pa.int8(), "more digits"),
        (Bounded("nan"), WHOLE, "more digits"),
        (AcceptedValues((1,)), pa.string(), "1 is not a text"),
        (AcceptedValues((True, "no")), pa.string(), "put texts in quotes"),
        (AcceptedValues(("x",)), pa.int8(), "'x' is not a number"),
        (AcceptedValues((1.5,)), pa.float64(), "use range"),
        (AcceptedValues(("x",)), pa.struct({"a": pa.int8()}), "are not compared with values"),
        (Regex("("), pa.string(), "not a regular expression of RE2"),
        (Regex(r"(?=a)"), pa.string(), "not a regular expression of RE2"),
        (Regex("1"), pa.int8(), "regex is for texts"),
        (Length(1), pa.int8(), "length is for texts and bytes"),
    ],
)
def test_a_test_that_a_column_cannot_have_is_refused(test: ColumnTest, kind: pa.DataType, said: str) -> None:
    """The error says what is wrong: such a test would hold for all rows or for none."""
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        test.check(kind)


@pytest.mark.parametrize("test", [test for test, *_ in CASES], ids=lambda one: str(one)[:40])
def test_a_reason_reads_as_a_sentence(test: ColumnTest) -> None:
    """It follows the column's name, and begins with a verb."""
    assert test.reason.split()[0] in ("is", "does", "has")
