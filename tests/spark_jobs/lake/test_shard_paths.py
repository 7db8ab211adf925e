"""Where shards are in a lake, and that whoever looks for tables finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from cdc_core.errors import TableStopped
from spark_jobs.lake.layout import Layout, Layouts, Vectors
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions

UNIONS = Unions("eu", (Union("shop.orders", r"shop_(\d+)\.(\w+)", ("shop", "what")),))


def made(lake: Lake, path: str, table: str = "", destination: str = "eu") -> None:
    noted = {DESTINATION: destination, TABLE: table} if table else {}
    schema = Schema([Field("id", PrimitiveType("long"))])
    DeltaTable.create(path, schema, configuration=noted, raise_if_key_not_exists=False)


def test_a_shard_is_in_the_folder_of_its_union() -> None:
    """All other tables, logs and histories are where they were."""
    lake = Lake("/lake", unions=UNIONS)
    assert lake.path("shop_1", "orders") == "/lake/shop/orders/_sluice_shards/eu/shop_1/orders/shop=1/what=orders"
    assert lake.path("shop", "orders") == "/lake/shop/orders"
    assert lake.path("shop", "users") == "/lake/shop/users"
    assert lake.log_path("shop_1", "orders") == "/lake/shop_1/orders__log"
    assert lake.history_path("shop_1", "orders") == "/lake/shop_1/orders__history"
    assert Lake("/lake").path("shop_1", "orders") == "/lake/shop_1/orders"


def test_no_table_is_in_the_folder_of_shards() -> None:
    """A source's name of that form has another folder."""
    lake = Lake("/lake", unions=UNIONS)
    assert lake.path("shop", "_sluice_shards") == "/lake/shop/@005fsluice_shards"


def test_tables_that_are_looked_for_are_found(tmp_path: Path) -> None:
    """Shards among them, and unions not, nor another destination's shards."""
    lake = Lake(tmp_path, unions=UNIONS)
    assert lake.live_tables("eu") == []
    for table in (("shop", "users"), ("shop_1", "orders"), ("shop_2", "orders"), ("shop_2", "items")):
        made(lake, lake.path(*table), ".".join(table))
    made(lake, lake.path("shop", "orders"))
    us = Lake(tmp_path, unions=Unions("us", UNIONS.all))
    made(us, us.path("shop_1", "orders"), "shop_1.orders", "us")
    found = ["shop.users", "shop_1.orders", "shop_2.items", "shop_2.orders"]
    assert sorted(lake.live_tables("eu")) == found
    assert sorted(lake.databases()) == ["shop", "shop_1", "shop_2"]
    assert sorted(lake.tables("shop_2", "eu")) == ["shop_2.items", "shop_2.orders"]
    assert us.live_tables("us") == ["shop_1.orders"]
    assert Lake(tmp_path).folders() == ["shop/orders", "shop/users"]  # of a catalog


def test_a_damaged_union_is_no_table_of_the_source(tmp_path: Path) -> None:
    """A DROP DATABASE at the source would be its end."""
    lake = Lake(tmp_path, unions=UNIONS)
    made(lake, lake.path("shop", "orders"))
    (Path(lake.path("shop", "orders")) / "_delta_log" / f"{0:020}.json").write_text("no JSON")
    assert lake.tables("shop", "eu") == []


def test_a_shard_has_plain_files() -> None:
    """Its union cannot say of a file that it has a deletion vector."""
    lake = Lake("/lake", unions=UNIONS, layouts=Layouts(cluster_by={"shop_2.*": ("id",)}))
    assert lake.layout("shop_1.orders") == Layout(Vectors.NEVER)
    assert lake.layout("shop.users") == Layout()
    with pytest.raises(TableStopped, match="a shard has no table_properties"):
        lake.layout("shop_2.orders")
    assert Lake("/lake", unions=UNIONS).layout("shop_2.orders") == Layout(Vectors.NEVER)
