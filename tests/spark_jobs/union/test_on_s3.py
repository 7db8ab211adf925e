"""A union in an S3 server: its log names the shards' files as delta-rs finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.schema.names import split_name
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.union.publish import publish

pytestmark = pytest.mark.integration
ORDERS = Union("all.orders", r"shop_(.+)\.orders", ("shop",), "region")
SHOPS = ("1", "a b+c", "é%41=&#")


@pytest.fixture
def lake(object_store: str, tmp_path: Path) -> Lake:
    """It has a union of shards whose names have signs that paths escape; one has a column more."""
    lake = Lake(f"{object_store}/{tmp_path.name}", unions=Unions("eu", (ORDERS,)))
    for number, shop in enumerate(SHOPS):
        write(lake, f"shop_{shop}.orders", {"id": [number, 10 + number]} | ({"v": ["x", None]} if number else {}))
    assert publish(lake, ORDERS).added == len(SHOPS)
    return lake


def write(lake: Lake, table: str, rows: dict[str, Any]) -> None:
    path, found = lake.path(*split_name(table)), pa.table(rows)
    if not DeltaTable.is_deltatable(path):
        noted = {DESTINATION: "eu", TABLE: table}
        DeltaTable.create(path, found.schema, configuration=noted, raise_if_key_not_exists=False)
    write_deltalake(path, found, mode="append", schema_mode="merge")


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    found = DeltaTable(lake.path("all", "orders")).to_pyarrow_table(columns=["id", "v", "region", "shop"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=str)


def expected(*more: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    pairs = [(number, shop, one) for number, shop in enumerate(SHOPS) for one in (0, 1)]
    found = [(10 * one + n, None if one or not n else "x", "eu", shop) for n, shop, one in pairs]
    return sorted([*found, *more], key=str)


def test_delta_rs_finds_a_unions_files(lake: Lake) -> None:
    """And each publish takes a shard's new and old files, whatever signs its name has; the same again does nothing."""
    assert rows(lake) == expected()
    for shop in SHOPS:
        write(lake, f"shop_{shop}.orders", {"id": [77], "v": ["new"]})
    assert publish(lake, ORDERS).added == len(SHOPS)
    assert rows(lake) == expected(*((77, "new", "eu", shop) for shop in SHOPS))
    for shop in SHOPS:
        lake.open(lake.path(f"shop_{shop}", "orders")).delete("id = 77")
    done = publish(lake, ORDERS)
    assert (done.added, done.removed, rows(lake)) == (0, len(SHOPS), expected())
    again = publish(lake, ORDERS)
    assert (again.version, again.changed) == (done.version, False)
