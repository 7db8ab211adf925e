"""What defs.yaml can say about tables of the source that are one table of the lake, and what it is refused for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from pydantic import ValidationError

from cdc_core.client.connector import Connector
from cdc_core.errors import ConfigError
from orchestration.assets.lineage import delta_spec, union_assets
from orchestration.loading import check_paths, check_unions, load_destination
from orchestration.resources import LakeResource
from orchestration.settings import Settings
from spark_jobs.lake.unions import NO_UNIONS, Union, Unions, unions_json
from tests.support.canal_double import ORDERS


def settings(**keys: Any) -> Settings:
    return Settings(destination="eu", lake="/lake", **keys)


def test_a_union_has_a_pattern_and_columns() -> None:
    """Without the key there are none."""
    into = {"shop.orders": {"tables": r"shop_(\d+)\.orders", "columns": ["shop"], "destination": "region"}}
    assert settings(into=into).unions == Unions(
        "eu", (Union("shop.orders", r"shop_(\d+)\.orders", ("shop",), "region"),)
    )
    assert not settings().unions
    assert settings().unions.all == NO_UNIONS.all


@pytest.mark.parametrize(
    ("into", "said"),
    [
        ({"shop.orders": {"columns": ["shop"]}}, "tables"),
        ({"shop.orders": {"tables": r"shop_(\d+)\.orders", "column": ["shop"]}}, "column"),
        ({"shop.orders": {"tables": r"shop_(\d+\.orders", "columns": ["shop"]}}, "not a regular expression"),
        ({"shop.orders": {"tables": r"shop_(\d+)\.orders"}}, "has 1 groups"),
        ({"orders": {"tables": r"shop_(\d+)\.orders", "columns": ["shop"]}}, "write it as database.table"),
        ({"shop.orders": {"tables": r"shop_\d+\.orders"}}, "no column says whose a row is"),
    ],
)
def test_what_no_union_can_be_is_refused(into: Any, said: str) -> None:
    """When the file is read."""
    with pytest.raises(ValidationError, match=said):
        settings(into=into)


def test_listed_tables_must_be_told_apart() -> None:
    """A table without a value for a column is refused too, as far as `tables` are listed."""
    into = {"shop.orders": {"tables": r"shop_(\d*)\.orders", "columns": ["shop"]}}
    settings(into=into, tables=["shop_1.orders", "shop_2.orders"])
    with pytest.raises(ValidationError, match="column shop has no value"):
        settings(into=into, tables=["shop_.orders"])
    blurred = {"shop.orders": {"tables": r"(shop)_\d+\.orders", "columns": ["shop"]}}
    with pytest.raises(ValidationError, match="would both have shop = shop"):
        settings(into=blurred, tables=["shop_1.orders", "shop_2.orders"])


def test_a_table_of_two_unions_keeps_no_other_from_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have come to the source long after the file was written. It has no asset, and a warning says why."""
    tables = [replace(ORDERS, database=name) for name in ("shop_1", "shop_2", "shop_12")]
    monkeypatch.setattr(Connector, "tables", lambda _self: tables)
    patterns = {"shop.orders": r"shop_(\d)\.orders", "old.orders": r"shop_(1\d|2)\.orders"}
    into = {name: {"tables": pattern, "columns": ["shop"]} for name, pattern in patterns.items()}
    known = {"destination": "shop", "lake": "/lake", "into": into}
    file = tmp_path / "defs.yaml"
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": known}))

    with caplog.at_level("WARNING", "dagster"):
        keys = {key.path[-2] for key in load_destination(file).resolve_asset_graph().get_all_asset_keys()}

    assert {"shop_1", "shop_12", "shop", "old"} <= keys
    assert "shop_2" not in keys
    assert "shop_2.orders has no asset: it goes into old.orders and into shop.orders" in caplog.text


def assets(into: dict[str, Any], destination: str = "eu") -> list[dg.AssetSpec]:
    given = Settings(destination=destination, lake="/lake", into=into)
    return union_assets(given, ["shop_1.orders", "shop_2.orders", "shop_1.users"])


def test_a_union_is_an_asset_of_its_shards() -> None:
    """A pattern that no table fits makes none."""
    into = {
        "shop.orders": {"tables": r"shop_(\d+)\.orders", "columns": ["shop"]},
        "shop.none": {"tables": r"shop_(\d+)\.none", "columns": ["shop"]},
    }
    (spec,) = assets(into)
    assert spec.key.path == ["delta", "eu", "shop", "orders"]
    shards = [["delta", "eu", f"shop_{number}", "orders"] for number in (1, 2)]
    assert sorted(one.asset_key.path for one in spec.deps) == shards
    assert spec.metadata["path"].value == "/lake/shop/orders"


def test_destinations_may_share_the_folder_of_a_union() -> None:
    """A table of another destination may not be there."""
    into = {"shop.orders": {"tables": r"shop_(\d+)\.orders", "columns": ["shop"], "destination": "region"}}
    known = check_paths(dg.Definitions(assets=assets(into)), "eu.yaml", {})
    check_paths(dg.Definitions(assets=assets(into, "us")), "us.yaml", known)
    table = delta_spec(Settings(destination="us", lake="/lake"), "shop.orders", None)
    with pytest.raises(ConfigError, match="would share a folder of the lake: /lake/shop/orders"):
        check_paths(dg.Definitions(assets=[table]), "us.yaml", known)


def lake(destination: str, union: Union, root: str = "/lake") -> dg.Definitions:
    text = unions_json(Unions(destination, (union,)))
    return dg.Definitions(resources={f"lake_{destination}": LakeResource(root=root, remote="sc://x", unions=text)})


def test_destinations_share_a_union_that_tells_them_apart() -> None:
    """By a column for them, and with the same columns; lakes have unions of their own."""
    both = Union("shop.orders", r"shop_(\d+)\.orders", ("shop",), "region")
    known = check_unions(lake("eu", both), "eu.yaml", {})
    assert check_unions(lake("us", both), "us.yaml", known) == known
    blind = Union("shop.orders", r"shop_(\d+)\.orders", ("shop",))
    known = check_unions(lake("eu", blind), "eu.yaml", {})
    assert check_unions(lake("us", blind, "/other"), "us.yaml", known)
    with pytest.raises(ConfigError, match="none of its columns says which destination") as error:
        check_unions(lake("us", blind), "us.yaml", known)
    assert error.value.place == "us.yaml"
    with pytest.raises(ConfigError, match=r"\('shop',\) and \('region', 'shop'\) are its columns"):
        check_unions(lake("us", both), "us.yaml", known)
