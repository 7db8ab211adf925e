"""A destination in Dagster: keys, kinds, groups, owners, lineage, checks, jobs and sensors."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import dagster as dg
import httpx
import pytest
import yaml
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.definitions.repository_definition import RepositoryLoadData
from dagster._core.test_utils import instance_for_test

from cdc_core.client.connector import Connector
from cdc_core.client.failures import unavailable
from cdc_core.schema.table import TableSchema
from orchestration import destination
from orchestration.definitions import defs
from orchestration.loading import SHIPPED, load_folder
from tests.support.canal_double import ORDERS, USERS
from tests.support.odd_names import ODD_NAMES

PLACES = ("position", "timestamp", "gtid", "batch", "materialized_by", "earliest", "latest", "anew")
BY_HAND = {
    "ddl_shop": {"tables": True, "decision": True},
    "pause_shop": {"table": True},
    "copy_shop": {"tables": True, "read_on": False},
    "resume_shop": {"table": True},
    "reset_shop": dict.fromkeys({*PLACES, "skip", "all_clients", "moved", "epoch", "identity", "dry_run"}, False),
    "rollback_shop": {"batch_id": False},
}
LIMITS = ("rows_per_chunk", "connections", "rows_per_second", "replica", "read_on", "cancel")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    """A destination whose service answers with two tables."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS, USERS])
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    attributes = {"destination": "shop", "lake": "/lake", "owners": ["team:data"], "tags": {"tier": "gold"}}
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": attributes}))
    return load_folder(tmp_path)


def test_the_shipped_folder_loads_with_no_destination() -> None:
    """workspace.yaml loads as it is shipped; the example waits to be copied."""
    assert (SHIPPED / "example.yaml").exists()
    assert list(load_folder(SHIPPED).resolve_all_asset_keys()) == []


def test_the_folder_is_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLUICE_DEFS wins over the shipped folder."""
    monkeypatch.setenv("SLUICE_DEFS", str(tmp_path))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "defs.yaml").write_text("nothing: here")

    assert [sensor.name for sensor in defs().sensors or []] == [
        "broken_broken",
        "sluice_old_runs",
        "sluice_failed_runs",
        "sluice_canceled_runs",
    ]


def test_tables_of_any_name_have_assets_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster makes other names of an asset's key, with fewer characters; no two tables become the same there."""
    names = [*ODD_NAMES, "a__b", "a_002db"]
    tables = [replace(ORDERS, database=database, table=name) for database in ("shop", "my.shop") for name in names]
    monkeypatch.setattr(Connector, "tables", lambda _self: tables)
    file = tmp_path / "odd" / "defs.yaml"
    file.parent.mkdir()
    attributes = {"destination": "shop", "lake": "/lake"}
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": attributes}))

    keys = load_folder(tmp_path).resolve_asset_graph().get_all_asset_keys()

    assert len([key for key in keys if key.path[0] == "delta"]) == len(tables)
    assert dg.AssetKey(["delta", "shop", "my-002eshop", "gr-00f6-00dfe"]) in keys


def test_the_graph_of_a_destination(shop: dg.Definitions) -> None:
    """Source tables, store, Delta tables: the lineage with kinds and executable parts."""
    graph = shop.resolve_asset_graph()
    nodes = {
        node.key.to_user_string(): (
            sorted(kind.removeprefix("dagster/kind/") for kind in node.tags if kind.startswith("dagster/kind/")),
            sorted(parent.to_user_string() for parent in node.parent_keys),
            node.is_executable,
        )
        for node in graph.asset_nodes
    }

    source = ["mysql/shop/shop/orders", "mysql/shop/shop/users"]
    assert nodes == {
        "mysql/shop/shop/orders": (["mysql"], [], False),
        "mysql/shop/shop/users": (["mysql"], [], False),
        "cdc/shop/store": (["canal"], source, False),
        "delta/shop/shop/orders": (["delta", "spark"], ["cdc/shop/store", source[0]], True),
        "delta/shop/shop/users": (["delta", "spark"], ["cdc/shop/store", source[1]], True),
    }
    assert {node.group_name for node in graph.asset_nodes} == {"shop"}
    assert {tuple(node.owners) for node in graph.asset_nodes} == {("team:data",)}
    assert {node.tags["tier"] for node in graph.asset_nodes} == {"gold"}


def test_many_tables_are_in_groups_by_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources and tables of the lake; the store is in the destination's, and so is a database of the same name."""
    tables = [
        replace(ORDERS, database=database, table=f"t{number}") for database in ("shop", "my.hr", "crm")
        for number in range(170)
    ]  # fmt: skip
    monkeypatch.setattr(Connector, "tables", lambda _self: tables)
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    attributes = {"destination": "shop", "lake": "/lake"}
    file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": attributes}))

    groups = [node.group_name for node in load_folder(tmp_path).resolve_asset_graph().asset_nodes]

    assert {name: groups.count(name) for name in groups} == {"shop": 341, "shop_my_hr": 340, "shop_crm": 340}


def test_a_delta_table_shows_columns_and_path(shop: dg.Definitions) -> None:
    """The column schema is in Delta's types, with key and comments."""
    metadata = shop.resolve_asset_graph().get(dg.AssetKey(["delta", "shop", "shop", "orders"])).metadata
    schema = metadata["dagster/column_schema"]

    assert [(c.name, c.type, c.description, c.constraints.other, c.constraints.nullable) for c in schema.columns] == [
        ("id", "bigint", None, ["primary key"], False),
        ("note", "string", "free text", [], True),
    ]
    assert metadata["path"] == dg.MetadataValue.path("/lake/shop/orders")
    assert metadata["dagster/table_name"] == "shop.orders"
    assert metadata["dagster/uri"] == "file:///lake/shop/orders"
    source = dg.AssetKey(["mysql", "shop", "shop", "orders"])
    assert metadata["dagster/column_lineage"].deps_by_column == {
        name: [dg.TableColumnDep(source, name)] for name in ("id", "note")
    }


def test_jobs_sensors_checks_and_pool(shop: dg.Definitions) -> None:
    """Everything of a destination has its name; the jobs share a pool."""
    assert sorted(job.name for job in shop.resolve_all_job_defs() if not job.name.startswith("__")) == [
        "copy_shop",
        "ddl_shop",
        "drain_shop",
        "maintain_shop",
        "pause_shop",
        "redo_shop",
        "replay_shop",
        "reset_shop",
        "restore_shop",
        "resume_shop",
        "rollback_shop",
        "snapshot_shop",
        "undo_shop",
        "verify_shop",
    ]
    assert sorted(sensor.name for sensor in shop.sensors or []) == [
        "cdc_shop_backlog",
    ]
    checks = sorted(key.to_user_string() for key in shop.resolve_asset_graph().asset_check_keys)
    assert checks == sorted(
        [
            f"delta/shop/shop/{table}:{check}"
            for table in ("orders", "users")
            for check in ("key_unique", "position_monotone", "rows_add_up", "takes_changes")
        ]
        + ["cdc/shop/store:lag_seconds"]
    )
    drain, *others = (shop.resolve_job_def(name) for name in ("drain_shop", *BY_HAND))
    assert {node.definition.pool for job in (drain, *others) for node in job.graph.nodes} == {"cdc_shop"}  # type: ignore[attr-defined]
    assert drain.executor_def is dg.in_process_executor


def test_a_snapshot_is_taken_while_the_drain_runs(shop: dg.Definitions) -> None:
    """In a pool of its own; without tables it takes all."""
    (node,) = shop.resolve_job_def("snapshot_shop").graph.nodes
    fields = node.definition.config_schema.config_type.fields  # type: ignore[attr-defined]
    required = {key: field.is_required for key, field in fields.items()}
    assert required == {"reason": True, "tables": False} | dict.fromkeys(LIMITS, False)
    assert node.definition.pool == "snapshot_shop"


def test_rows_are_repaired_while_the_drain_runs(shop: dg.Definitions) -> None:
    """In a pool of its own; without tables it compares all."""
    (node,) = shop.resolve_job_def("verify_shop").graph.nodes
    fields = node.definition.config_schema.config_type.fields  # type: ignore[attr-defined]
    required = {key: field.is_required for key, field in fields.items()}
    assert required == {"reason": True, "tables": False, "repair": False, "timeout_seconds": False}
    assert all(field.description for field in fields.values())
    assert node.definition.pool == "verify_shop"


def test_an_audit_has_a_schedule_where_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs the check `verified` of every table, and nothing else. A cron that is none is refused."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS, USERS])
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    head = "type: orchestration.destination.CdcDestination\nattributes: {destination: shop, lake: /lake, audit: "
    file.write_text(f"{head}'0 3 * * *'}}\n")
    loaded = load_folder(tmp_path)
    (schedule,) = loaded.schedules or []
    assert (schedule.name, schedule.cron_schedule) == ("audit_shop_schedule", "0 3 * * *")  # type: ignore[union-attr]
    layer = loaded.resolve_job_def("audit_shop").asset_layer
    assert {key.name for key in layer.asset_graph.asset_check_keys} == {"verified"}
    assert layer.selected_asset_keys == set()
    assert int(loaded.resolve_job_def("audit_shop").tags["dagster/max_runtime"]) > 3600
    drained = loaded.resolve_job_def("drain_shop").asset_layer.selected_asset_keys
    assert drained == set(), "a run has events of what changes, and plans none"
    file.write_text(f"{head}'at night'}}\n")
    assert [sensor.name for sensor in load_folder(tmp_path).sensors or []] == ["broken_shop"]


def test_tables_are_maintained_by_the_clock_where_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is there without a schedule too; its pool is its own. A cron that is none is refused."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS, USERS])
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    head = "type: orchestration.destination.CdcDestination\nattributes: {destination: shop, lake: /lake"
    file.write_text(f"{head}}}\n")
    loaded = load_folder(tmp_path)
    (node,) = loaded.resolve_job_def("maintain_shop").graph.nodes
    assert (node.definition.pool, list(loaded.schedules or [])) == ("maintain_shop", [])  # type: ignore[attr-defined]
    file.write_text(f"{head}, maintain: '0 4 * * *'}}\n")
    loaded = load_folder(tmp_path)
    (schedule,) = loaded.schedules or []
    assert (schedule.name, schedule.cron_schedule) == ("maintain_shop_schedule", "0 4 * * *")  # type: ignore[union-attr]
    with instance_for_test() as instance, dg.build_schedule_context(instance) as context:
        given = schedule.evaluate_tick(context).run_requests[0].run_config  # type: ignore[union-attr,index]
    assert dg.validate_run_config(loaded.resolve_job_def("maintain_shop"), given)
    file.write_text(f"{head}, maintain: 'at night'}}\n")
    assert [sensor.name for sensor in load_folder(tmp_path).sensors or []] == ["broken_shop"]


@pytest.mark.parametrize("name", BY_HAND)
def test_each_job_by_hand_asks_for_a_reason(shop: dg.Definitions, name: str) -> None:
    """The launchpad shows every field with its description; what a job cannot do without is required."""
    job = shop.resolve_job_def(name)
    (node,) = job.graph.nodes
    fields = node.definition.config_schema.config_type.fields  # type: ignore[attr-defined]

    assert {key: field.is_required for key, field in fields.items()} == {"reason": True, **BY_HAND[name]}
    assert all(field.description for field in fields.values())
    assert job.description


@pytest.mark.parametrize("name", ["maintain_shop", "verify_shop", "snapshot_shop", *BY_HAND])
def test_the_launchpad_shows_a_form(shop: dg.Definitions, name: str) -> None:
    """Every field of the job and nothing of the resources; what a user must give is empty."""
    job = shop.resolve_job_def(name)
    (node,) = job.graph.nodes
    fields = node.definition.config_schema.config_type.fields  # type: ignore[attr-defined]

    config = job.run_config["ops"][f"{name}_op"]["config"]  # type: ignore[index]

    assert list(job.run_config or ()) == ["ops"]
    assert config.keys() == fields.keys()
    assert {key for key, field in fields.items() if field.is_required} <= {key for key in config if not config[key]}


@pytest.mark.parametrize("name", ["verify_shop", "snapshot_shop", *BY_HAND])
def test_the_runs_of_each_job_are_known_by_their_destination(shop: dg.Definitions, name: str) -> None:
    """So the sensor finds those whose process is gone."""
    assert shop.resolve_job_def(name).tags["cdc/job_of"] == "shop"


@pytest.mark.parametrize("name", ["ddl_shop", "copy_shop", "verify_shop", "resume_shop", "snapshot_shop"])
def test_a_job_that_may_copy_is_not_ended_after_an_hour(shop: dg.Definitions, name: str) -> None:
    """A large table takes longer than Dagster gives other runs."""
    assert int(shop.resolve_job_def(name).tags["dagster/max_runtime"]) > 3600


def test_no_secret_is_in_the_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is read when a resource is made; the file names its variable."""
    monkeypatch.setenv("SLUICE_TOKEN", "open-sesame")
    monkeypatch.setattr(Connector, "tables", lambda self: [USERS] if self._token == "open-sesame" else [])
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    file.write_text("type: orchestration.destination.CdcDestination\nattributes: {destination: shop, lake: /lake}\n")

    loaded = load_folder(tmp_path)

    resources = (loaded.resources or {})["canal_shop"]
    assert "open-sesame" not in repr(loaded) + repr(resources)
    assert dg.AssetKey(["delta", "shop", "shop", "users"]) in loaded.resolve_all_asset_keys()


def test_a_schedule_instead_of_the_sensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backlog sensor stays, to roll back dead claims."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [USERS])
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    trigger = "{kind: schedule, cron: '0 * * * *'}"
    head = "type: orchestration.destination.CdcDestination\nattributes:\n"
    file.write_text(f"{head}  destination: shop\n  lake: /lake\n  trigger: {trigger}\n")

    loaded = load_folder(tmp_path)

    assert [(s.name, s.cron_schedule) for s in loaded.schedules or []] == [("cdc_shop_schedule", "0 * * * *")]  # type: ignore[union-attr]
    assert "cdc_shop_backlog" in {sensor.name for sensor in loaded.sensors or []}


def test_listed_tables_need_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only their columns are unknown then."""

    def away(_self: Connector) -> list[TableSchema]:
        raise unavailable("http://127.0.0.1:11112", "refused")

    monkeypatch.setattr(Connector, "tables", away)
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    head = "type: orchestration.destination.CdcDestination\nattributes:\n"
    file.write_text(f"{head}  destination: shop\n  lake: /lake\n  tables: [shop.users]\n")

    node = load_folder(tmp_path).resolve_asset_graph().get(dg.AssetKey(["delta", "shop", "shop", "users"]))

    assert "dagster/column_schema" not in node.metadata


def test_an_expectation_that_a_table_cannot_meet_concerns_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A column may be dropped at the source at any time: the code location loads, with the check, and says so."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS, USERS])
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    head = "type: orchestration.destination.CdcDestination\nattributes:\n  destination: shop\n  lake: /lake\n"
    file.write_text(f"{head}  expectations: {{shop.orders: [{{not_null: [id, gone], severity: block}}]}}\n")

    graph = load_folder(tmp_path).resolve_asset_graph()

    keys = {name: dg.AssetKey(["delta", "shop", "shop", name]) for name in ("orders", "users")}
    found = {key.name for key in graph.get_check_keys_for_assets({keys["orders"]})}
    assert {"not_null_id", "not_null_gone"} <= found
    assert keys["users"] in graph.get_all_asset_keys()
    assert "not_null_gone cannot be expected of shop.orders: the table has no column gone" in caplog.text
    assert "its next rows stop it" in caplog.text


def test_a_runs_process_loads_what_the_code_location_knew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables found at the service are kept: a run needs no service to load, and sees the same tables."""
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    file.write_text("type: orchestration.destination.CdcDestination\nattributes: {destination: shop, lake: /lake}\n")
    monkeypatch.setattr(Connector, "tables", lambda _self: [USERS])
    kept = load_folder(tmp_path).metadata

    def away(_self: Connector) -> list[TableSchema]:
        raise unavailable("http://127.0.0.1:11112", "refused")

    monkeypatch.setattr(Connector, "tables", away)
    known = RepositoryLoadData(cacheable_asset_data={}, reconstruction_metadata=kept)
    with DefinitionsLoadContext.scoped(DefinitionsLoadContext(DefinitionsLoadType.RECONSTRUCTION, known)):
        loaded = load_folder(tmp_path)

    assert dg.AssetKey(["delta", "shop", "shop", "users"]) in loaded.resolve_all_asset_keys()


def test_the_process_of_a_run_makes_no_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job alone, so that it starts as soon with 500 tables. Of assets that a person selects, it makes all."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS])
    _many(tmp_path, ["shop"])
    for job, made in (("drain_shop", False), ("pause_shop", False), ("audit_shop", True), ("__ASSET_JOB", True)):
        monkeypatch.setattr(destination, "job_of_process", lambda job=job: job)
        loaded = load_folder(tmp_path)
        assert bool(loaded.resolve_all_asset_keys()) == made, job
        assert made or loaded.resolve_job_def(job).name == job


def _many(folder: Path, names: list[str]) -> Path:
    for name in names:
        file = folder / name / "defs.yaml"
        file.parent.mkdir(parents=True)
        attributes = {"destination": name, "lake": f"/lake/{name}", "tables": ["shop.orders"], "audit": "0 3 * * *"}
        file.write_text(yaml.safe_dump({"type": "orchestration.destination.CdcDestination", "attributes": attributes}))
    return folder


def test_a_job_describes_the_resources_of_its_own_destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what Dagster knows of a code location would grow with the square of its destinations."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS])

    loaded = load_folder(_many(tmp_path, ["a", "a_b", "b"]))

    for job in loaded.resolve_all_job_defs():
        if not job.name.startswith("__"):
            ours = {key for key in job.resource_defs if key.startswith(("canal_", "lake_"))}
            destination = next(name for name in ("a_b", "a", "b") if job.name.endswith(f"_{name}"))
            assert ours <= {f"canal_{destination}", f"lake_{destination}"}, job.name


def test_a_service_that_is_away_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred destinations of it do not wait two hundred times."""
    asked = []

    def away(connector: Connector) -> list[TableSchema]:
        asked.append(connector.destination)
        raise unavailable("http://127.0.0.1:11112", "refused") from httpx.ConnectError("refused")

    monkeypatch.setattr(Connector, "tables", away)

    load_folder(_many(tmp_path, ["a", "b", "c"]))
    assert len(asked) == 1
    load_folder(tmp_path)
    assert len(asked) == 2


def test_a_source_that_hangs_keeps_its_own_destination_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its service answers for the others."""
    asked = []

    def hangs(connector: Connector) -> list[TableSchema]:
        asked.append(connector.destination)
        if connector.destination == "a":
            raise unavailable("http://127.0.0.1:11112", "timed out") from httpx.ReadTimeout("timed out")
        return [ORDERS]

    monkeypatch.setattr(Connector, "tables", hangs)
    monkeypatch.setattr(Connector, "is_up", lambda *_: True)

    load_folder(_many(tmp_path, ["a", "b", "c"]))
    assert asked == ["a", "b", "c"]


def test_the_notes_of_tables_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run's plan holds those of all destinations."""
    many = [replace(ORDERS, table=f"orders{number}") for number in range(100)]
    monkeypatch.setattr(Connector, "tables", lambda _self: many)

    loaded = load_folder(_many(tmp_path, ["a"]))

    plain = json.dumps([one.to_dict() for one in many])
    assert len(str(loaded.metadata["sluice/a/tables"].value)) < len(plain) / 10


@pytest.mark.parametrize(
    ("job", "changed", "loaded"),
    [
        ("drain_a_b", "", ["a_b"]),
        ("audit_b", "a", ["b"]),
        ("audit_b", "b", ["a", "a_b", "b"]),
        ("__ASSET_JOB", "", ["a", "a_b", "b"]),
    ],
)
def test_the_process_of_a_run_loads_its_own_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, changed: str, loaded: list[str]
) -> None:
    """A job that is of no one destination loads all; so does a file that was changed since, and a process of which
    Dagster says nothing."""
    monkeypatch.setenv("SLUICE_DEFS", str(_many(tmp_path, ["a", "a_b", "b"])))
    monkeypatch.setattr(Connector, "tables", lambda _self: [ORDERS])
    with DefinitionsLoadContext.scoped(DefinitionsLoadContext(DefinitionsLoadType.INITIALIZATION)):
        defs()  # a code server loads twice, and hands to runs what the second time has noted
        data = ReconstructableRepository.for_module("orchestration.definitions", "defs").get_definition()
    context = DefinitionsLoadContext(DefinitionsLoadType.RECONSTRUCTION, data.repository_load_data)
    arguments = ["/bin/dagster", "api", "execute_run", json.dumps({"pipeline_origin": {"pipeline_name": job}})]
    monkeypatch.setattr(sys, "argv", arguments)
    if changed:
        file = tmp_path / changed / "defs.yaml"
        file.write_text(file.read_text() + "# changed")

    with DefinitionsLoadContext.scoped(context):
        found = defs()

    assert sorted(name.removeprefix("canal_") for name in found.resources or {} if "canal_" in name) == loaded
    assert "drain_a_b" in {one.name for one in defs().jobs or ()}
