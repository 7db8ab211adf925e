"""`translation` in defs.yaml: keys and attributes of a user's own, and everybody who asks for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from cdc_core.client.connector import Connector
from orchestration.assets.drain_asset import delta_asset
from orchestration.demo.files import write_mart
from orchestration.destination import landed_tables
from orchestration.loading import load_destination, load_folder
from orchestration.names import Names
from orchestration.sensors.conditions import of_checks
from orchestration.settings import Settings
from orchestration.translation import Translation
from tests.support.canal_double import ORDERS, USERS, MemoryCanal, MemoryLake

OWN = {
    "key": "lake/{{ database }}/{{ table }}",
    "group_name": "{{ kind }}s",
    "owners": ["team:shop"],
    "tags": {"tier": "gold"},
    "description": "The {{ table }} of {{ destination }}. {{ spec.description }}",
    "kinds": ["delta"],
    "metadata": {"slack": "#{{ table }}"},
}


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, translation: Any, **attributes: Any) -> dg.Definitions:
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS, USERS])
    file = folder / "shop" / "defs.yaml"
    file.parent.mkdir()
    known = {"destination": "shop", "lake": "/lake", "translation": translation, **attributes}
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": known}))
    return load_folder(folder)


def test_a_table_has_the_key_and_attributes_of_its_translation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags and metadata are added to Sluice's, other attributes are in their place; sources and store are as ever."""
    graph = loaded(tmp_path, monkeypatch, OWN, tags={"team": "data"}).resolve_asset_graph()
    node = graph.get(dg.AssetKey(["lake", "shop", "orders"]))

    assert (node.group_name, list(node.owners)) == ("tables", ["team:shop"])
    assert {"tier": "gold", "team": "data", "cdc/destination": "shop"}.items() <= node.tags.items()
    assert [tag for tag in node.tags if tag.startswith("dagster/kind/")] == ["dagster/kind/delta"]
    assert str(node.description).startswith("The orders of shop. What people bought")
    assert (node.metadata["slack"], node.metadata["path"].value) == ("#orders", "/lake/shop/orders")
    assert {key.path[0] for key in node.parent_keys} == {"mysql", "cdc"}
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {
        *("mysql/shop/shop/orders", "mysql/shop/shop/users", "cdc/shop/store"),
        *("lake/shop/orders", "lake/shop/users"),
    }


def test_a_key_of_two_destinations_keeps_none_but_the_second_from_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sensor is in its place."""
    loaded(tmp_path, monkeypatch, OWN)
    other = tmp_path / "store" / "defs.yaml"
    other.parent.mkdir()
    text = (tmp_path / "shop" / "defs.yaml").read_text()
    other.write_text(text.replace("destination: shop", "destination: store").replace("/lake", "/lake2"))
    found = load_folder(tmp_path)

    assert dg.AssetKey(["lake", "shop", "orders"]) in found.resolve_asset_graph().get_all_asset_keys()
    assert [one.name for one in found.sensors or () if "store" in one.name] == ["broken_store"]


def test_logs_histories_unions_and_checks_have_translated_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as what others depend on; no key of before is left."""
    more: dict[str, Any] = {
        "apply": {"mode": "history", "tables": {"shop.users": "merge"}},
        "audit": "0 3 * * *",
        "into": {"all.people": {"tables": r"(sh)op\.users", "columns": ["shard"]}},
        "expectations": {"shop.users": [{"not_null": ["id"]}]},
    }
    graph = loaded(tmp_path, monkeypatch, {"key_prefix": "mine"}, **more).resolve_asset_graph()

    keys = {key.to_user_string() for key in graph.get_all_asset_keys() if key.path[0] == "mine"}
    assert keys == {
        f"mine/delta/shop/{name}"
        for name in ("shop/orders", "shop/orders__log", "shop/orders__history", "shop/users", "all/people")
    }
    assert {key.asset_key.path[0] for key in graph.asset_check_keys} == {"mine", "cdc"}
    used = {parent.to_user_string() for node in graph.asset_nodes for parent in node.parent_keys}
    assert not {key for key in used if key.startswith("delta/")}
    assert {"mine/delta/shop/shop/orders__log", "mine/delta/shop/shop/users"} <= used


@pytest.mark.parametrize(
    ("translation", "said"),
    [
        ({"key": "one"}, "shop.orders and shop.users would be one asset, one"),
        ({"key": "lake/{{ tabel }}"}, "shop.orders would be 'lake/', with a part that is empty"),
        (
            {"partitions_def": {"type": "static", "partition_keys": ["a"]}},
            "shop.orders would have partitions",
        ),
        ({"keys": "one"}, "translation"),
        ({"owners": ["nobody"]}, "nobody"),
    ],
)
def test_a_translation_that_cannot_be_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, translation: dict[str, Any], said: str
) -> None:
    """The sensor in the file's place names the key and the tables."""
    (sensor,) = loaded(tmp_path, monkeypatch, translation).sensors or ()
    assert sensor.name == "broken_shop"
    assert said in str(sensor.description)
    assert "translation" in str(sensor.description)


def test_a_function_of_a_project_translates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Dagster's own components: a template variable returns the asset."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS])
    (tmp_path / "template_vars.py").write_text(
        "import dagster as dg\n\n"
        "@dg.template_var\n"
        "def renamed():\n"
        "    return lambda spec: spec.replace_attributes(key=dg.AssetKey(['own', spec.key.path[-1]]))\n"
    )
    (tmp_path / "defs.yaml").write_text(
        "type: orchestration.destination.CdcDestination\n"
        "template_vars_module: .template_vars\n"
        "attributes: {destination: shop, lake: /lake, translation: '{{ renamed(spec) }}'}\n"
    )

    keys = load_destination(tmp_path / "defs.yaml").resolve_asset_graph().get_all_asset_keys()

    assert dg.AssetKey(["own", "orders"]) in keys


def test_a_table_has_the_freshness_policy_of_its_translation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template variable of the project makes it, as for Dagster's own components."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS])
    (tmp_path / "template_vars.py").write_text(
        "from datetime import timedelta\n\nimport dagster as dg\n\n"
        "@dg.template_var\n"
        "def hourly():\n"
        "    return lambda: dg.FreshnessPolicy.time_window(timedelta(hours=2), timedelta(hours=1))\n"
    )
    (tmp_path / "defs.yaml").write_text(
        "type: orchestration.destination.CdcDestination\n"
        "template_vars_module: .template_vars\n"
        "attributes: {destination: shop, lake: /lake, translation: {freshness_policy: '{{ hourly() }}'}}\n"
    )

    defs = load_destination(tmp_path / "defs.yaml")

    specs = {one.key.to_user_string(): one.freshness_policy for one in defs.resolve_all_asset_specs()}
    assert specs["delta/shop/shop/orders"] == dg.FreshnessPolicy.time_window(timedelta(hours=2), timedelta(hours=1))
    assert specs["mysql/shop/shop/orders"] is None


def test_odd_names_stay_apart_in_translated_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables are parts of keys: a slash in a name makes no further part."""
    odd = [replace(ORDERS, table=name) for name in ("a/b", "a.b", "größe")]
    monkeypatch.setattr(Connector, "tables", lambda _self: odd)
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    known = {"destination": "shop", "lake": "/lake", "translation": {"key": "lake/{{ database }}/{{ table }}"}}
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": known}))

    keys = load_folder(tmp_path).resolve_asset_graph().get_all_asset_keys()

    assert sorted(len(key.path) for key in keys if key.path[0] == "lake") == [3, 3, 3]


@pytest.mark.parametrize("table", ["shop.orders", "shop_35db.orders", "`a.b`.c d", "a-005f.o__log"])
def test_a_table_is_known_by_its_translated_key(table: str) -> None:
    """A remedy is a command with the name at the source; keys that nobody asked for are read as ever."""
    names = Names("shop", Translation(lambda spec, one: spec.replace_attributes(key=dg.AssetKey([one.table, "x"]))))
    assert names.subject(names.delta(table)) == table
    assert names.subject(names.log(table)) == f"{table}__log"
    assert names.subject(names.store) == "store"


def test_a_red_check_of_a_translated_table_is_told_with_its_commands() -> None:
    """The alert has the table's name and its page in Dagster."""
    instance, names = dg.DagsterInstance.ephemeral(), Names("shop", Translation(lambda spec, _: prefixed(spec)))
    key = dg.AssetCheckKey(names.delta("shop.orders"), "amounts")
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=key.asset_key,
            check_name=key.name,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description="2 rows wait",
            metadata={"quarantined": 2},
        )
    )

    (told,) = of_checks(instance, names, [key])

    assert (told.subject, told.page) == ("shop.orders amounts", "assets/mine/delta/shop/shop/orders?view=checks")
    assert "`sluice requeue shop shop.orders`" in told.remedy


def test_a_drain_reports_to_translated_assets() -> None:
    """Materializations and checks of a run have the keys of the graph."""
    settings = Settings(destination="shop", lake="/lake", translation=Translation(lambda spec, _: prefixed(spec)))
    asset = delta_asset(settings, landed_tables(settings, [ORDERS, USERS]))
    resources = {"canal_shop": MemoryCanal(batches=1), "lake_shop": MemoryLake()}

    result = dg.materialize([asset], resources=resources, instance=dg.DagsterInstance.ephemeral())

    made = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}
    assert (
        made
        == {"mine/delta/shop/shop/orders", "mine/delta/shop/shop/users"}
        == {one.asset_key.to_user_string() for one in result.get_asset_check_evaluations()}
    )


def test_a_mart_depends_on_translated_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the translation where its destination declares it."""
    write_mart(tmp_path, tmp_path / "lake", "sc://127.0.0.1:1")
    graph = loaded(tmp_path, monkeypatch, {"key_prefix": "mine"}).resolve_asset_graph()

    parents = graph.get(dg.AssetKey(["mart", "mart", "daily_sales"])).parent_keys

    assert {key.path[:3] == ["mine", "delta", "shop"] for key in parents} == {True}


def prefixed(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.replace_attributes(key=spec.key.with_prefix("mine"))
