"""spark_jobs.lake.unions: which tables are shards, of what, and what is refused."""

from __future__ import annotations

import pytest

from cdc_core.errors import ConfigError, TableStopped
from spark_jobs.lake.unions import NO_UNIONS, Union, Unions, idle, unions_from, unions_json

ORDERS = Union("shop.orders", r"shop_(\d+)\.orders", ("shop",), "region")
EVENTS = Union("app.events", r"app_([a-z]+)\.events_(\d{4})", ("app", "year"))
UNIONS = Unions("eu", (ORDERS, EVENTS))


def test_groups_and_the_destination_are_columns() -> None:
    """In the order of the groups, after the destination."""
    shard = UNIONS.of("shop_12.orders")
    assert shard is not None
    assert (shard.table, shard.union, shard.values) == ("shop_12.orders", ORDERS, {"region": "eu", "shop": "12"})
    other = UNIONS.of("app_web.events_2026")
    assert other is not None
    assert other.values == {"app": "web", "year": "2026"}
    assert ORDERS.partitions == ("region", "shop")


def test_a_pattern_fits_whole_names() -> None:
    """So a log, a history, or a table with a longer name is none; neither is the union itself."""
    for table in ("shop_1.orders__log", "shop_1.orders__history", "my_shop_1.orders", "shop_x.orders", "shop.orders"):
        assert UNIONS.of(table) is None, table


def test_one_destination_may_be_all_that_tells_rows_apart() -> None:
    """The same table of several servers."""
    union = Union("shop.orders", r"store\.orders", (), "region")
    union.check()
    shard = Unions("us", (union,)).of("store.orders")
    assert shard is not None
    assert shard.values == {"region": "us"}


def test_a_table_of_two_unions_stops() -> None:
    """It does not go into both, nor into either."""
    both = Unions("eu", (ORDERS, Union("all.tables", r"shop_(.*)\.(.*)", ("shop", "kind"))))
    both.check()
    with pytest.raises(TableStopped, match=r"goes into shop\.orders and into all\.tables"):
        both.of("shop_1.orders")


@pytest.mark.parametrize("pattern", [r"shop_(\d*)\.orders", r"shop_(\d)?\.orders"])
def test_a_group_without_a_value_stops_its_table(pattern: str) -> None:
    """Delta reads an empty value of a partition as NULL."""
    found = Unions("eu", (Union("shop.orders", pattern, ("shop",)),))
    with pytest.raises(TableStopped, match="column shop has no value"):
        found.of("shop_.orders")
    assert found.of("shop_1.orders") is not None


@pytest.mark.parametrize(
    ("union", "said"),
    [
        (Union("orders", r"a_(\d)\.b", ("a",)), "orders"),
        (Union("s.t", r"a_(\d\.b", ("a",)), "not a regular expression"),
        (Union("s.t", r"a_(\d)\.b"), "has 1 groups, and columns names 0"),
        (Union("s.t", r"a_(\d)\.b", ("a", "b")), "has 1 groups, and columns names 2"),
        (Union("s.t", r"a_\d\.b"), "no column says whose a row is"),
        (Union("s.t", r"(\w)\.t", ("a",)), "fits the table itself"),
        (Union("s.t", r"a_(\d)\.b", ("A",), "a"), "named twice"),
        (Union("s.t", r"a_(\d)\.b", ("_sluice_a",)), "not a valid name for a column"),
        (Union("s.t", r"a_(\d)\.b", ("a b",)), "not a valid name for a column"),
        (Union("s.t", r"a_(\d)\.b", ("",)), "not a valid name for a column"),
    ],
)
def test_a_union_that_no_lake_can_have_is_refused(union: Union, said: str) -> None:
    """With the union's name and a remedy."""
    with pytest.raises(ConfigError, match=said) as error:
        Unions("eu", (union,)).check()
    assert union.table in error.value.place
    assert error.value.hint


def test_unions_are_not_shards_of_each_other() -> None:
    """Nor do two have one name, also where a store ignores case."""
    with pytest.raises(ConfigError, match="has shards of its own"):
        Unions("eu", (ORDERS, Union("a.b", r"(\w+)\.orders", ("x",)))).check()
    with pytest.raises(ConfigError, match="named twice"):
        Unions("eu", (ORDERS, Union("Shop.Orders", r"b_(\d)\.orders", ("x",)))).check()


def test_known_tables_can_be_told_apart() -> None:
    """By the columns of their union; and none has the union's name."""
    UNIONS.check_tables(["shop_1.orders", "shop_2.orders", "shop_1.items", "app_a.events_2025", "app_a.events_2026"])
    blurred = Unions("eu", (Union("shop.orders", r"(shop)_\d+\.orders", ("shop",)),))
    with pytest.raises(ConfigError, match=r"shop_1\.orders and shop_2\.orders would both have shop = shop"):
        blurred.check_tables(["shop_2.orders", "shop_1.orders"])
    with pytest.raises(ConfigError, match=r"the source has a table Shop\.orders"):
        UNIONS.check_tables(["Shop.orders"])


def test_unions_without_a_shard_are_named() -> None:
    """A pattern may be misspelled."""
    assert idle(UNIONS, ["shop_1.orders"]) == ["app.events"]


def test_unions_are_a_text_of_a_configuration() -> None:
    """And the same again."""
    assert unions_from(unions_json(UNIONS)) == UNIONS
    assert unions_from(unions_json(NO_UNIONS)) == NO_UNIONS
    assert unions_from("{}") == NO_UNIONS


def test_a_folder_that_no_file_system_has_stops_its_table() -> None:
    """With the remedy, before anything is written: a long name of a column beside a long value."""
    union = Union("a.b", r"(.*)\.t", ("c" * 60,))
    with pytest.raises(TableStopped, match="more than 255 bytes") as caught:
        Unions("eu", (union,)).of(f"{'é' * 64}.t")
    assert "shorter name" in caught.value.hint
    assert Unions("eu", (union,)).of(f"{'e' * 64}.t") is not None
