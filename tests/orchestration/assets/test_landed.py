"""Tables that land first, as Dagster sees them: keys, lineage, checks, and what defs.yaml can say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from cdc_core.client.connector import Connector
from orchestration.assets.landed import LandedTables
from orchestration.loading import load_folder
from spark_jobs.landing.modes import Mode, Modes, modes_from, modes_json
from tests.support.canal_double import ORDERS, USERS

ODD = replace(USERS, columns=(replace(USERS.columns[0], name="an id"),), primary_key=("an id",))


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> dg.Definitions:
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS, ODD])
    file = folder / "shop" / "defs.yaml"
    file.parent.mkdir()
    known = {"destination": "shop", "lake": "/lake", **attributes}
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": known}))
    return load_folder(folder)


def drained(definitions: dg.Definitions) -> dg.AssetsDefinition:
    return next(
        one for one in definitions.assets or () if isinstance(one, dg.AssetsDefinition) and one.op.name == "cdc_shop"
    )


@pytest.mark.parametrize(
    "apply", ["land_first", {"mode": "land_first"}, {"mode": "merge", "tables": {"shop.*": "append"}}]
)
def test_the_drain_materializes_the_logs_of_landed_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apply: Any
) -> None:
    """Each from the source's table and the store. A table of which it is known that it cannot be landed is merged."""
    asset = drained(loaded(tmp_path, monkeypatch, apply=apply))
    log, users = (dg.AssetKey(["delta", "shop", "shop", name]) for name in ("orders__log", "users"))
    assert asset.keys == {log, users}
    assert {key.path[0] for key in asset.asset_deps[log]} == {"cdc", "mysql"}
    checks = {key.name for key in asset.check_keys if key.asset_key == log}
    assert checks == {"rows_landed", "takes_changes"}


def test_another_job_merges_what_lands_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lineage is source, store, log, table. A log alone is merged by nobody."""
    definitions = loaded(tmp_path, monkeypatch, apply="land_first")
    log, orders = (dg.AssetKey(["delta", "shop", "shop", name]) for name in ("orders__log", "orders"))
    graph = definitions.resolve_asset_graph()
    assert graph.get(orders).parent_keys == {log}
    assert {one.name for one in definitions.sensors or ()} >= {"cdc_shop_backlog", "merge_shop_backlog"}
    (tmp_path / "other").mkdir()
    alone = loaded(tmp_path / "other", monkeypatch, apply="append")
    assert "merge_shop_backlog" not in {one.name for one in alone.sensors or ()}


def test_merge_is_what_there_is_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A destination without `apply` has the assets that it had."""
    asset = drained(loaded(tmp_path, monkeypatch))
    assert {key.path[-1] for key in asset.keys} == {"orders", "users"}
    assert "merges it" in (asset.op.description or "")


@pytest.mark.parametrize("apply", ["land", {"mode": "append", "tables": {"shop.*": "later"}}])
def test_an_unknown_mode_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apply: Any) -> None:
    """The sensor in the file's place names the key and what it may be."""
    (sensor,) = loaded(tmp_path, monkeypatch, apply=apply).sensors or ()
    assert sensor.name == "broken_shop"
    assert "apply" in (sensor.description or "")
    assert "land_first" in (sensor.description or "")


def test_modes_by_pattern() -> None:
    """The first pattern that fits counts; as JSON they are the same; a definition may decide otherwise."""
    modes = Modes(Mode.LAND_FIRST, {"shop.o*": Mode.APPEND, "shop.orders": Mode.MERGE})
    assert [modes.of(name) for name in ("shop.orders", "shop.users")] == [Mode.APPEND, Mode.LAND_FIRST]
    assert modes_from(modes_json(modes)) == modes
    assert modes_from("{}") == Modes()
    tables = LandedTables(modes, {"shop.orders": ORDERS, "shop.users": ODD, "shop.x": None})
    assert [tables.mode(name) for name in tables.schemas] == [Mode.APPEND, Mode.MERGE, Mode.LAND_FIRST]
    assert [tables.follows(name) for name in tables.schemas] == [False, False, True]
    kept = LandedTables(Modes(Mode.HISTORY), {"shop.orders": ORDERS, "shop.users": replace(USERS, primary_key=())})
    assert [(kept.follows(name), kept.keeps(name)) for name in kept.schemas] == [(True, True), (True, False)]
