"""Statements to the source about a table that the lake sees by rules: in the source's names, without what is hidden."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from cdc_core.errors import TableStopped
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast, Mask, MaskKind, Salt
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.chunk import Chunk, at, where
from spark_jobs.snapshot.chunks import last_key, plan_chunks
from spark_jobs.snapshot.literals import literal
from spark_jobs.snapshot.resultset.question import question
from spark_jobs.snapshot.source import Source
from spark_jobs.snapshot.source_rows import has_as_they_are
from spark_jobs.verify.keys import conditions
from spark_jobs.verify.row_hash import source_hash
from spark_jobs.verify.row_text import source_text

HASH = Mask(MaskKind.SHA256, salt=Salt("SALT"))
PEOPLE = TableSchema(
    "shop",
    "people",
    (
        Column("id", 3, 0, nullable=False),
        Column("password", 15, 80, charset=255),
        Column("kind", 247, 1, charset=255, labels=("a", "b")),
        Column("email", 15, 80, charset=255),
    ),
    ("id",),
)
RULES = Rules(
    {
        "shop.people": TableRule(
            exclude=("password",), rename=(("id", "number"), ("kind", "sort")), masks=(("email", HASH),)
        )
    }
)
SOURCE = Source("localhost", 3306, "u", "p", rules=RULES.filled({"SALT": "pepper"}.get))
SEEN = SOURCE.seen(PEOPLE, "fail")


def test_a_select_has_the_shown_columns_alone() -> None:
    """Under their names at the source."""
    assert question(SEEN) == "SELECT `id`, CAST(`kind` AS UNSIGNED), `email` FROM `shop`.`people`"


def test_keys_are_those_of_the_source() -> None:
    """They have another name in the lake."""
    assert SEEN.primary_key == ("number",)
    assert where(SEEN, Chunk(0, ("1",), ("9",))) == "`id` > 1 AND `id` <= 9"
    assert at(SEEN, ("1",)) == "`id` = 1"
    assert list(conditions(SEEN, [b"1", b"2"])) == ["(`id` = 1) OR (`id` = 2)"]


def test_checksums_are_of_the_sources_columns() -> None:
    """Neither a hidden column nor a name of the lake is in the statement."""
    renamed = SOURCE.rules.tables["shop.people"]
    seen = TableRule(renamed.include, renamed.exclude, renamed.rename).view(PEOPLE)

    for text in (source_text(seen, ["number", "sort"]), source_hash(seen)):
        assert "`id`" in text
        assert "`kind`" in text
        assert "password" not in text
        assert "number" not in text


def test_a_masked_value_has_no_literal() -> None:
    """The lake does not have the source's value."""
    masked = next(column for column in SEEN.shown if column.name == "email")
    assert literal(masked, "abc") is None
    assert literal(SEEN.columns[0], 7) == "7"


def test_no_statement_has_the_salt() -> None:
    """Nor has any text; but who reads for the lake on another machine gets it."""
    assert "pepper" not in question(SEEN) + repr(SOURCE) + repr(SEEN)
    again = pickle.loads(pickle.dumps(SEEN))
    assert again == SEEN
    assert again.columns[3].mask.salt.secret == b"pepper"


def test_dates_are_compared_as_the_lake_has_them() -> None:
    """A hash of a date is that of its text; the lake does not say so."""
    days = (Column("id", 3, 0), Column("plain", 10, 0), Column("masked", 10, 0))
    rules = Rules({"*": TableRule(masks=(("masked", HASH),))})
    source = Source("localhost", 3306, "u", "p", rules=rules, zero_dates="string")

    seen = source.compared(TableSchema("shop", "days", days, ("id",)))

    assert [column.as_text for column in seen.columns] == [False, False, True]


def test_a_rule_that_does_not_fit_stops_the_table() -> None:
    """With the table's name."""
    source = Source("localhost", 3306, "u", "p", rules=Rules({"shop.people": TableRule(exclude=("ssn",))}))
    with pytest.raises(TableStopped, match="'ssn'") as caught:
        source.seen(PEOPLE, "fail")
    assert caught.value.place == "shop.people"


def test_a_masked_key_bounds_no_chunks() -> None:
    """Bounds are values of the source, and staged rows and errors have them. The server is not even asked."""
    rules = Rules({"shop.people": TableRule(masks=(("id", HASH),))})
    seen = replace(SOURCE, rules=rules.filled({"SALT": "pepper"}.get)).seen(PEOPLE, "fail")
    nobody: Any = object()

    assert [*plan_chunks(nobody, seen, 10)] == [Chunk(0)]
    assert last_key(nobody, seen) is None


def test_a_definition_that_no_longer_fits_is_another_one() -> None:
    """Whoever compares definitions of many tables goes on with the others."""
    altered = replace(PEOPLE, columns=(PEOPLE.columns[0], *PEOPLE.columns[2:]))

    assert SOURCE.view(altered, "fail").version != SEEN.version
    assert SOURCE.view(PEOPLE, "fail") == SEEN
    with pytest.raises(TableStopped, match="does not have: 'password'"):
        SOURCE.seen(altered, "fail")


@pytest.mark.parametrize(
    ("rule", "there"),
    [
        (TableRule(), True),
        (TableRule(casts=(Cast.BIGINT_UNSIGNED,)), True),
        (TableRule(casts=(Cast.TINYINT1,)), False),
        (TableRule(rename=(("parent", "of"),)), False),
        (TableRule(masks=(("parent", HASH),)), False),
        (TableRule(exclude=("parent",)), False),
    ],
)
def test_rows_are_found_by_columns_with_the_sources_values(rule: TableRule, there: bool) -> None:
    """Of another type too, if it has the same values: so a foreign key of BIGINT UNSIGNED is followed as bigint."""
    columns = (
        Column("id", 3, 0), Column("parent", 8, 0, unsigned=True, column_type="bigint unsigned"),
        Column("flag", 1, 0, column_type="tinyint(1)"),
    )  # fmt: skip
    seen = rule.view(TableSchema("shop", "child", columns, ("id",)))
    assert has_as_they_are(seen, ("parent", "flag")) == there


def test_a_comparison_says_itself_what_zero_dates_do() -> None:
    """But dates that a rule makes texts are texts."""
    dated = TableSchema("shop", "dated", (Column("id", 3, 0), Column("day", 10, 0)), ("id",))
    for zero_dates, as_text in (("fail", False), ("null", False), ("string", True)):
        rules = Rules({"shop.dated": TableRule(zero_dates=zero_dates)})
        compared = replace(SOURCE, rules=rules, zero_dates="string").compared(dated)
        assert compared.columns[1].as_text == as_text
        assert compared.columns[1].zero_dates("null") == "null"
        assert not compared.columns[1].changes_values
