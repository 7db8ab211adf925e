"""Expectations of tables as values: their JSON form, their patterns, and what a table cannot meet."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.expectations.column_tests import AcceptedValues, Bounded, Length, NotNull, Regex
from spark_jobs.expectations.expectation import (
    Expectation,
    Expectations,
    Freshness,
    References,
    Severity,
    Sql,
    Unique,
    Volume,
    check_names,
    check_severity,
    misfit,
    named,
)

EVERY = (
    Expectation("a", NotNull(), ("id",), Severity.BLOCK),
    Expectation("b", AcceptedValues((1, "x", True)), ("n",)),
    Expectation("c", Bounded(0, "9.5"), ("n",), Severity.QUARANTINE),
    Expectation("d", Regex("^a"), ("what",)),
    Expectation("e", Length(1, None), ("what",)),
    Expectation("f", Unique(), ("what", "n")),
    Expectation("g", References("shop.customers"), ("n",)),
    Expectation("h", Volume(1, 10, 2.5), severity=Severity.BLOCK),
    Expectation("i", Freshness(900.0)),
    Expectation("j", Sql("SELECT * FROM changes", 5.0)),
)
SCHEMA = pa.schema({"id": pa.int64(), "what": pa.string(), "n": pa.int32(), "rate": pa.float64()})


def test_expectations_come_back_from_their_json() -> None:
    """Every kind, with what it says of itself: a run reads them from its configuration."""
    known = Expectations({"shop.orders": EVERY, "shop.*": EVERY[:1]}, 7)
    assert Expectations.from_json(known.to_json()) == known
    assert known.of_parts.most_quarantined == 7
    assert not Expectations.from_json("{}")


def test_the_first_pattern_that_fits_counts() -> None:
    """As for every other rule of tables."""
    known = Expectations({"shop.o*": EVERY[:1], "shop.*": EVERY[1:2]})
    assert known.of("shop.orders") == EVERY[:1]
    assert known.of("shop.users") == EVERY[1:2]
    assert known.of("crm.users") == ()
    assert not known.names("shop.orders")
    assert Expectations({"shop.orders": EVERY}).names("shop.orders")
    assert Expectations({"shop.orders": EVERY}).referenced == {"shop.customers"}


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.test.KIND)
def test_an_expectation_says_what_it_is(one: Expectation) -> None:
    """For people: a sentence, and a reason without a value."""
    assert one.text.endswith((".", one.test.query if isinstance(one.test, Sql) else "."))
    assert one.reason


@pytest.mark.parametrize(
    ("one", "key", "said"),
    [
        (Expectation("x", NotNull(), ("gone",)), ("id",), "no column gone; it has id, what, n, rate"),
        (Expectation("x", Bounded(3, 1), ("n",)), ("id",), "min 3 is above max 1"),
        (Expectation("x", Unique(), ("rate",)), ("id",), "not for floating-point numbers"),
        (Expectation("x", References("shop.c"), ("rate",)), ("id",), "not for floating-point numbers"),
        (Expectation("x", Unique(), ("what",)), (), "without a primary key"),
        (Expectation("x", Unique(), ("what", "id")), ("id",), "it always holds"),
        (Expectation("x", NotNull(), ("n",), Severity.QUARANTINE), (), "has no primary key"),
        (Expectation("x", NotNull(), ("n",), Severity.QUARANTINE), ("rate",), "floating-point number in its primary"),
    ],
)
def test_what_a_table_cannot_meet_is_said(one: Expectation, key: tuple[str, ...], said: str) -> None:
    """With what would be right, when its definition is known."""
    assert said in misfit(one, SCHEMA, key)


def test_a_pattern_is_for_the_tables_that_have_its_columns() -> None:
    """Only a table that is named in full must have them."""
    listed = [Expectation("x", NotNull(), ("gone",)), Expectation("y", NotNull(), ("n",))]
    assert named(listed, SCHEMA, whole=False) == tuple(listed[1:])
    assert named(listed, SCHEMA, whole=True) == tuple(listed)


def test_what_contradicts_itself_is_refused() -> None:
    """Two checks of one name, a name of a built-in check, and severities that a kind cannot have."""
    with pytest.raises(ValueError, match="two checks 'a'"):
        check_names("shop.orders", [EVERY[0], EVERY[0]])
    with pytest.raises(ValueError, match="two checks 'a'"):
        check_names("shop.orders", EVERY, taken=["a"])
    with pytest.raises(ValueError, match="not a check's name"):
        check_names("shop.orders", [Expectation("a b", NotNull(), ("n",))])
    with pytest.raises(ValueError, match="can only warn"):
        check_severity(Expectation("x", Freshness(1.0), severity=Severity.BLOCK))
    with pytest.raises(ValueError, match="use block"):
        check_severity(Expectation("x", Volume(1), severity=Severity.QUARANTINE))
