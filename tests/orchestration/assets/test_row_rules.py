"""What defs.yaml can say about deleted rows, and about columns besides the source's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from cdc_core.client.connector import Connector
from orchestration.loading import load_folder
from orchestration.resources import LakeResource
from spark_jobs.lake.own_columns import COMMIT_TIME, DELETED, LAST_OP, Own
from tests.support.canal_double import ORDERS, USERS

_SOFT = Own.made((), soft=True)


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> dg.Definitions:
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS, replace(USERS, primary_key=())])
    file = folder / "shop" / "defs.yaml"
    file.parent.mkdir()
    known = {"destination": "shop", "lake": str(folder / "lake"), **attributes}
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": known}))
    return load_folder(folder)


@pytest.mark.parametrize(
    ("attributes", "orders", "users"),
    [
        ({}, Own(), Own()),
        ({"deletes": "soft"}, _SOFT, _SOFT),
        ({"deletes": {"mode": "soft", "tables": {"shop.u*": "hard"}}}, _SOFT, Own()),
        ({"columns": ["op", "commit_time"]}, Own(False, (COMMIT_TIME, LAST_OP)), Own(False, (COMMIT_TIME, LAST_OP))),
        (
            {"deletes": {"tables": {"shop.orders": "soft"}}, "columns": {"names": ["op"], "tables": {"shop.o*": []}}},
            _SOFT,
            Own(False, (LAST_OP,)),
        ),
    ],
)
def test_runs_know_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attributes: dict[str, Any], orders: Own, users: Own
) -> None:
    """For the destination, or by table; without a word nothing is added."""
    lake = (loaded(tmp_path, monkeypatch, **attributes).resources or {})["lake_shop"]
    assert isinstance(lake, LakeResource)
    rules = lake.lake.rules
    assert rules is not None
    assert (rules.of("shop.orders"), rules.of("shop.users")) == (orders, users)


@pytest.mark.parametrize("attributes", [{"deletes": "gentle"}, {"columns": ["deleted"]}, {"deletes": {"rule": "soft"}}])
def test_unknown_rules_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attributes: dict[str, Any]) -> None:
    """The sensor in the file's place names the key."""
    (sensor,) = loaded(tmp_path, monkeypatch, **attributes).sensors or ()
    assert sensor.name == "broken_shop"
    assert next(iter(attributes)) in (sensor.description or "")


def test_a_table_without_a_key_is_reported_before_its_rows_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops alone when they come; its asset says so already."""
    specs = {key.path[-1]: spec for key, spec in _specs(loaded(tmp_path, monkeypatch, deletes="soft")).items()}
    assert "need a primary key" in (specs["users"].description or "")
    assert "need a primary key" not in (specs["orders"].description or "")
    assert DELETED == "_sluice_deleted"


def _specs(definitions: dg.Definitions) -> dict[dg.AssetKey, dg.AssetSpec]:
    return {spec.key: spec for spec in definitions.resolve_all_asset_specs() if spec.key.path[0] == "delta"}
