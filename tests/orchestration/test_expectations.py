"""What defs.yaml can say of expectations, and what it is refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from cdc_core.errors import ConfigError
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema
from orchestration.assets.audit import VERIFIED
from orchestration.assets.checks import check_specs
from orchestration.expectations import expected_of, misfits_of
from orchestration.loading import load_destination
from orchestration.names import BUILT_IN, MERGED
from orchestration.settings import Settings
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
)
from spark_jobs.landing.modes import MERGE_ALL, Mode, Modes

COLUMNS = (Column("id", ColumnType.LONGLONG, 0), Column("n", ColumnType.LONG, 0), Column("rate", ColumnType.DOUBLE, 8))
ORDERS, BAG = TableSchema("shop", "orders", COLUMNS, ("id",)), TableSchema("shop", "bag", COLUMNS)


def settings(*listed: dict[str, Any], table: str = "shop.orders", **keys: Any) -> Settings:
    return Settings(destination="shop", lake="/lake", expectations={table: list(listed)}, **keys)


def test_each_kind_is_a_check() -> None:
    """What is said of several columns is a check for each; names are of the kind and the columns."""
    found = settings(
        {"not_null": ["a", "b"], "severity": "block"},
        {"accepted_values": {"status": ["new", "paid"]}, "severity": "quarantine"},
        {"range": {"amount": {"min": 0, "max": 9.5}, "day": {"min": "2020-01-01"}}},
        {"regex": {"email": "@"}},
        {"length": {"zip": {"min": 5, "max": 5}}},
        {"unique": ["country", "number"]},
        {"references": {"columns": "customer_id", "table": "shop.customers"}},
        {"volume": {"max": 1000, "times": 10}},
        {"freshness": "15m"},
        {"sql": "SELECT * FROM changes", "name": "mine", "timeout_seconds": 5},
    ).expected.of("shop.orders")
    assert found == (
        Expectation("not_null_a", NotNull(), ("a",), Severity.BLOCK),
        Expectation("not_null_b", NotNull(), ("b",), Severity.BLOCK),
        Expectation("accepted_values_status", AcceptedValues(("new", "paid")), ("status",), Severity.QUARANTINE),
        Expectation("range_amount", Bounded(0, 9.5), ("amount",)),
        Expectation("range_day", Bounded("2020-01-01"), ("day",)),
        Expectation("regex_email", Regex("@"), ("email",)),
        Expectation("length_zip", Length(5, 5), ("zip",)),
        Expectation("unique_country_number", Unique(), ("country", "number")),
        Expectation("references_shop_customers", References("shop.customers"), ("customer_id",)),
        Expectation("volume", Volume(None, 1000, 10)),
        Expectation("freshness", Freshness(900.0)),
        Expectation("mine", Sql("SELECT * FROM changes", 5)),
    )


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([{}], "names no kind; an expectation is exactly one of not_null"),
        ([{"not_null": "a", "unique": "b"}], "names not_null and unique"),
        ([{"not_null": []}], "not_null names no column"),
        ([{"nonull": "a"}], "Extra inputs are not permitted"),
        ([{"not_null": "a", "severity": "fatal"}], "Input should be 'warn', 'quarantine' or 'block'"),
        ([{"accepted_values": {"a": []}}], "accepted_values is empty"),
        ([{"range": {"a": {"min": 3, "max": 1}}}], "min 3 is above max 1"),
        ([{"range": {"a": {}}}], "neither min nor max"),
        ([{"range": {"a": {"min": float("nan")}}}], "must be finite"),
        ([{"length": {"a": {"min": -1}}}], "not below 0"),
        ([{"length": {"a": {"min": 6, "max": 5}}}], "min 6 is above max 5"),
        ([{"regex": {"a": "("}}], "not a regular expression of RE2"),
        ([{"references": {"columns": "a", "table": "customers"}}], "names no database and table"),
        ([{"volume": {"times": 1}}], "must be above 1"),
        ([{"volume": {}}], "neither min nor max"),
        ([{"volume": {"max": 1}, "severity": "quarantine"}], "use block"),
        ([{"freshness": "soon"}], "not a time for freshness"),
        ([{"freshness": "asap"}], "not a time for freshness"),
        ([{"freshness": "15m", "severity": "block"}], "can only warn"),
        ([{"sql": " "}], "the query is empty"),
        ([{"sql": "SELECT 1", "timeout_seconds": 0}], "must be above 0"),
        ([{"not_null": ["a", "b"], "name": "x"}], "the name of 2 checks"),
        ([{"not_null": "a", "name": "no name"}], "not a check's name"),
        ([{"not_null": "a"}, {"not_null": "a"}], "two checks 'not_null_a'"),
        ([{"not_null": "a", "name": "key_unique"}], "two checks 'key_unique'"),
        ([], "nothing is expected"),
    ],
)
def test_what_means_nothing_is_refused(listed: list[dict[str, Any]], said: str) -> None:
    """With the check and what is wrong with it."""
    with pytest.raises(ValidationError) as caught:
        settings(*listed)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("apply", "one", "said"),
    [
        ("append", {"not_null": "a"}, "a change log alone"),
        ("land_first", {"volume": {"max": 1}}, "of the batches of `apply: merge`"),
        ("history", {"freshness": "15m"}, "of the batches of `apply: merge`"),
        (
            {"mode": "merge", "tables": {"shop.customers": "land_first"}},
            {"references": {"columns": "a", "table": "shop.customers"}},
            "shop.customers lands first",
        ),
    ],
)
def test_a_table_that_lands_first_has_no_batches(apply: Any, one: dict[str, Any], said: str) -> None:
    """What is about a batch, or about the rows of another table in it, is refused there."""
    with pytest.raises(ValidationError) as caught:
        settings(one, apply=apply)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "one", "said"),
    [
        (ORDERS, {"not_null": "gone"}, "the table has no column gone; it has id, n, rate"),
        (ORDERS, {"regex": {"n": "a"}}, "regex is for texts, and the column is of type int32"),
        (ORDERS, {"range": {"n": {"min": "many"}}}, "'many' is not a number"),
        (ORDERS, {"accepted_values": {"n": ["1"]}, "severity": "quarantine"}, ""),
        (ORDERS, {"unique": "rate"}, "not for floating-point numbers"),
        (ORDERS, {"unique": "id"}, "it always holds"),
        (BAG, {"not_null": "n", "severity": "quarantine"}, "has no primary key"),
        (BAG, {"not_null": "n", "severity": "block"}, ""),
    ],
)
def test_what_a_table_cannot_meet_concerns_it_alone(schema: TableSchema, one: dict[str, Any], said: str) -> None:
    """It is a check all the same, which fails with the table's next rows, and is said when the file is read: a column
    may be dropped at the source at any time."""
    expected = settings(one, table=schema.name).expected
    listed = expected_of(expected, MERGE_ALL, schema.name, schema)
    assert listed == expected.of(schema.name) == expected_of(expected, MERGE_ALL, schema.name, None)
    found = list(misfits_of(listed, schema.name, schema))
    assert len(found) == bool(said)
    assert all(said in text and f"cannot be expected of {schema.name}: " in text for text in found)
    assert not list(misfits_of(listed, schema.name, None))


def test_a_pattern_is_for_tables_of_its_kind() -> None:
    """A table that is captured later may lack a column, or be a change log alone: it has no such check."""
    modes = Modes(tables={"shop.bag": Mode.APPEND})
    expected = settings({"not_null": ["n", "gone"]}, table="shop.*").expected
    assert [one.name for one in expected_of(expected, modes, "shop.orders", ORDERS)] == ["not_null_n"]
    assert not expected_of(expected, modes, "shop.bag", BAG)


def test_every_check_of_sluices_has_a_name_that_is_taken() -> None:
    """A check of a person's own would have its events."""
    known = settings({"not_null": "a"}, schema_change="warn")
    names = {spec.name for spec in check_specs(known, ["shop.a"], ["shop.b"])}
    assert {*names, MERGED, VERIFIED} == {*BUILT_IN}


def test_a_wrong_key_is_reported_with_its_place(tmp_path: Path) -> None:
    """Not with the names of types that pydantic has."""
    attributes = {
        "destination": "shop",
        "lake": "/lake",
        "tables": ["shop.a"],
        "service": {"http": "http://127.0.0.1:1"},
    }
    place = tmp_path / "shop" / "defs.yaml"
    place.parent.mkdir()
    for one, said in (
        ({"nonull": "a"}, "expectations.shop.a.0.nonull: Extra"),
        ({"volume": {}}, "expectations: volume:"),
    ):
        named = {**attributes, "expectations": {"shop.a": [one]}}
        place.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": named}))
        with pytest.raises(ConfigError) as caught:
            load_destination(place)
        assert caught.value.message.startswith(said)
        assert caught.value.place.startswith(str(place))


def test_a_run_gets_what_is_expected() -> None:
    """As text, in its resource."""
    known = settings({"not_null": "a"}).expected
    assert Expectations.from_json(known.to_json()) == known


def test_a_table_that_no_lake_can_have_is_left_to_its_stop() -> None:
    """Its columns are of types that are not known, and the other tables of the file go on."""
    odd = TableSchema("shop", "orders", (*COLUMNS, Column("odd", 77, 0)), ("id",))
    expected = settings({"not_null": "gone"}).expected
    assert expected_of(expected, MERGE_ALL, "shop.orders", odd) == expected.of("shop.orders")


def test_the_bound_of_a_quarantine_is_a_key() -> None:
    """Runs get it with what is expected; no bound below one row makes sense."""
    found = settings({"not_null": "a"}, quarantine_rows=7).expected
    assert Expectations.from_json(found.to_json()).most_quarantined == 7
    assert settings({"not_null": "a"}).expected.most_quarantined == 20_000
    with pytest.raises(ValidationError, match="is 0; it must be at least 1"):
        settings({"not_null": "a"}, quarantine_rows=0)
