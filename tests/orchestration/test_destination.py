"""`defs.yaml`: templates, defaults, and errors with file, key and remedy that leave other destinations alone."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import dagster as dg
import pytest

from cdc_core.client.connector import Connector
from cdc_core.client.failures import unavailable
from cdc_core.errors import ConfigError, UnknownDestination
from cdc_core.schema.column_rule import Cast
from cdc_core.schema.table import Column, TableSchema
from orchestration.destination import CdcDestination
from orchestration.loading import SHIPPED, load_destination, load_folder, load_settings
from orchestration.resources import CanalResource
from orchestration.stack.dagster import LOADABLE
from spark_jobs.lake.layout import Layouts, Vectors
from spark_jobs.lake.tables import Lake
from tests.support.canal_double import USERS

ZOOKEEPER = "  service: {zookeeper: 'zk:1'}\n"
GOOD = "  destination: shop\n  lake: /lake\n"


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that answers with one table."""
    monkeypatch.setattr(Connector, "tables", lambda _self: [USERS])


def write(folder: Path, name: str, attributes: str) -> Path:
    file = folder / name / "defs.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"type: orchestration.destination.CdcDestination\nattributes:\n{attributes}")
    return file


def component(definitions: dg.Definitions) -> CdcDestination:
    """The component of a destination, as Dagster keeps it with each asset."""
    spec = next(asset for asset in definitions.assets or [] if isinstance(asset, dg.AssetSpec))
    origin = spec.metadata["dagster/component_origin"].instance
    assert isinstance(origin, CdcDestination)
    return origin


def test_values_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`{{ env.NAME }}` works, also where a number is expected."""
    monkeypatch.setenv("MY_LAKE", "/mnt/lake")
    monkeypatch.setenv("MY_BATCH", "1234")
    lines = ("destination: shop", 'lake: "{{ env.MY_LAKE }}"', 'batch_size: "{{ env.MY_BATCH }}"')
    file = write(tmp_path, "a", "".join(f"  {line}\n" for line in lines))

    read = component(load_destination(file))

    assert (read.lake, read.limits.batch_size) == ("/mnt/lake", 1234)


def test_commands_read_what_a_file_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the client that they are for, whatever the service does, and though another file has a mistake."""
    monkeypatch.setattr(Connector, "tables", lambda _self: pytest.fail("the service is asked"))
    monkeypatch.setenv("MY_LAKE", "/mnt/lake")
    write(tmp_path, "a", "  destination: shop\n  lake: /l\n  client_id: 7\n")
    write(tmp_path, "b", "  destination: shop\n  lake: /l\n  cluster_by: 7\n")
    file = write(tmp_path, "c", '  destination: shop\n  lake: "{{ env.MY_LAKE }}"\n  deletion_vectors: never\n')

    for place in (tmp_path, file):
        found = load_settings(place, "shop", 1001)
        assert (found.lake, found.layouts) == ("/mnt/lake", Layouts(Vectors.NEVER))
    with pytest.raises(ConfigError, match="cluster_by"):
        load_settings(tmp_path, "bank", 1001)
    with pytest.raises(ConfigError, match=r"no defs.yaml has client 8 of destination shop"):
        load_settings(file, "shop", 8)
    with pytest.raises(ConfigError, match=r"no defs.yaml has"):
        load_settings(tmp_path / "none.yaml", "shop", 1001)


def test_a_service_may_be_found_by_zookeeper(tmp_path: Path) -> None:
    """Runs and sensors follow it, and people see ZooKeeper instead of an address."""
    definitions = load_destination(write(tmp_path, "a", GOOD + "  service: {zookeeper: 'zk1:2181,zk2:2181/cdc'}\n"))

    canal = (definitions.resources or {})[component(definitions).names.canal]
    assert isinstance(canal, CanalResource)
    assert canal.zk_servers == "zk1:2181,zk2:2181/cdc"
    with canal.connect() as connector:
        assert repr(connector) == "<Connector zk1:2181,zk2:2181/cdc shop client=1001>"
    assert component(definitions).service.place == "ZooKeeper zk1:2181,zk2:2181/cdc"


def test_the_example_says_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the shipped example calls a default is one."""
    monkeypatch.setenv("SLUICE_LAKE", "/lake")
    file = tmp_path / "shop" / "defs.yaml"
    file.parent.mkdir()
    file.write_text((SHIPPED / "example.yaml").read_text())

    example = component(load_destination(file)).model_dump()
    plain = component(load_destination(write(tmp_path, "plain", GOOD))).model_dump()

    chosen = {"tables", "group", "owners", "tags", "conf"}
    example["service"]["flight"] = None
    assert {k: v for k, v in example.items() if k not in chosen} == {k: v for k, v in plain.items() if k not in chosen}


def test_rules_are_read_as_written(tmp_path: Path) -> None:
    """Of all kinds of masks; the resource for runs has them as the service keeps them."""
    lines = """
  rules:
    salt: {env: LAKE_SALT}
    tables:
      shop.users:
        exclude: [password]
        rename: {email: mail}
        mask: {email: sha256, name: {truncate: 1}, phone: {keep_last: 4}, age: {constant: 0}, note: null, city: "null"}
        types: {tinyint1: boolean}
        where: " country = 'DE' "
      "shop.*": {include: [id]}
"""
    loaded = load_destination(write(tmp_path, "a", GOOD + lines))

    rules = component(loaded).rules.rules

    assert list(rules.tables) == ["shop.users", "shop.*"]
    users = rules.tables["shop.users"]
    assert {name: mask.kind.value for name, mask in users.masks} == {
        "email": "sha256", "name": "truncate", "phone": "keep_last", "age": "constant", "note": "null", "city": "null",
    }  # fmt: skip
    assert users.casts == (Cast.TINYINT1,)
    assert users.where == "country = 'DE'"
    canal = (loaded.resources or {})["canal_shop"]
    assert isinstance(canal, CanalResource)
    assert canal.rules == rules.to_json()


def test_a_code_location_notes_what_the_lake_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster keeps the notes with each run: a default of a hidden column is a value."""
    ssn, phone = (Column(name, 15, 80, charset=255, default="geheim") for name in ("ssn", "phone"))
    table = TableSchema("shop", "users", (USERS.columns[0], ssn, phone), (USERS.columns[0].name,))
    monkeypatch.setattr(Connector, "tables", lambda _self: [table])
    lines = "  rules: {tables: {shop.users: {exclude: [ssn], mask: {phone: {truncate: 1}}}}}\n"

    loaded = load_destination(write(tmp_path, "a", GOOD + lines))

    note = str((loaded.metadata or {})["sluice/shop/tables"].value)
    text = zlib.decompress(base64.b64decode(note)).decode()
    assert "geheim" not in text
    assert [column["name"] for column in json.loads(text)[0]["columns"]] == [USERS.columns[0].name, "", "phone"]


def test_an_asset_says_that_its_rule_does_not_fit(tmp_path: Path) -> None:
    """Before its rows come and it stops."""
    loaded = load_destination(write(tmp_path, "a", GOOD + "  rules: {tables: {shop.users: {exclude: [ssn]}}}\n"))

    key = dg.AssetKey(["delta", "shop", "shop", "users"])
    text = loaded.resolve_asset_graph().get(key).description or ""
    assert "**It cannot be in the lake:** its rule names a column that the table does not have: 'ssn'" in text


@pytest.mark.parametrize(
    ("attributes", "line", "message"),
    [
        ("  destination: shop\n", 2, "lake: Field required"),
        (GOOD + "  colour: red\n", 5, "colour: Extra inputs are not permitted"),
        (GOOD + "  service: {htp: x}\n", 5, "service.htp: Extra inputs are not permitted"),
        (GOOD + "  batch_size: many\n", 5, "batch_size: Input should be a valid integer"),
        (GOOD + "  tables: [orders]\n", 5, "tables: 'orders' names no database"),
        (GOOD + "  trigger: {kind: prayer}\n", 5, "trigger.kind: Input should be 'sensor' or 'schedule'"),
        (GOOD + "  group: '{{ envv.X }}'\n", 5, "'envv' not found in scope"),
        (GOOD + "  max_seconds: 0\n", 5, "max_seconds: is 0.0; it must be at least 1"),
        (GOOD + "  owners: [\n", 6, "not YAML"),
        (GOOD + "  owners: [somebody]\n", 0, "somebody"),
        (GOOD + "  tables: []\n", 5, "tables: is empty"),
        (GOOD + "  rules: {tables: {a.b: {exclude: [x], mask: {x: sha256}}}}\n", 5, "leaves out the column 'x' and"),
        (GOOD + "  rules: {tables: {a.b: {mask: {x: sha256}}}}\n", 5, "the mask sha256 of the column 'x' has no salt"),
        (GOOD + "  rules: {tables: {a.b: {where: x ~ 1}}}\n", 5, "'x ~ 1' is not a condition: Invalid expression"),
        (
            GOOD + "  rules: {tables: {a.b: {mask: {x: md5}}}}\n",
            5,
            "rules: 'md5' is not a mask (rules, x); Write sha256",
        ),
        (
            GOOD + "  rules: {tables: {a.b: {mask: {x: {truncate: 1, constant: 2}}}}}\n",
            5,
            "'constant': 2} is not a mask",
        ),
    ],
)
def test_a_malformed_file_is_reported_with_place_and_remedy(
    tmp_path: Path, attributes: str, line: int, message: str
) -> None:
    """The error has file, line, key and remedy."""
    file = write(tmp_path, "shop", attributes)

    with pytest.raises(ConfigError) as caught:
        load_destination(file)

    assert message in caught.value.message
    assert caught.value.place.startswith(f"{file}:{line}" if line else str(file))
    assert "Correct the file" in caught.value.hint


def test_a_malformed_file_leaves_the_others_alone(tmp_path: Path) -> None:
    """In its place is a sensor that fails with the error."""
    write(tmp_path, "bad", "  destination: bad\n")
    write(tmp_path, "good", GOOD)

    loaded = load_folder(tmp_path)

    assert dg.AssetKey(["delta", "shop", "shop", "users"]) in loaded.resolve_all_asset_keys()
    broken = next(sensor for sensor in loaded.sensors or [] if sensor.name == "broken_bad")
    with pytest.raises(ConfigError, match=r"lake: Field required at .*bad/defs\.yaml"):
        broken(dg.build_sensor_context())


def test_the_same_destination_twice_is_refused_once(tmp_path: Path) -> None:
    """The first of them works."""
    write(tmp_path, "a", GOOD)
    write(tmp_path, "b", GOOD)

    loaded = load_folder(tmp_path)

    assert "cdc_shop_backlog" in {sensor.name for sensor in loaded.sensors or []}
    assert "broken_b" in {sensor.name for sensor in loaded.sensors or []}


def test_destinations_are_validated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is validated is what Dagster uses: nothing is resolved twice. Where Dagster refuses it, each destination is
    validated by itself, never with those before it, and only the one that is wrong is left out."""
    seen, real, wrong = list[int](), dg.Definitions.validate_loadable, set[str]()

    def validate(found: dg.Definitions) -> None:
        names = {job.name for job in found.jobs or []}
        seen.append(len(names))
        if wrong & names:
            raise dg.DagsterInvalidDefinitionError("a wrong one")
        real(found)

    monkeypatch.setattr(dg.Definitions, "validate_loadable", validate)
    for name in ("a", "b", "c"):
        write(tmp_path, name, GOOD.replace("shop", name).replace("/lake", f"/lake/{name}"))
    whole = load_folder(tmp_path)
    assert seen == [len(whole.jobs or [])]
    assert whole.get_repository_def() is whole.get_repository_def()

    wrong.add("drain_b")
    rest = load_folder(tmp_path)
    assert seen[1:] == [seen[0], *[seen[0] // 3] * 3]
    sensors = {sensor.name for sensor in rest.sensors or []}
    assert {"broken_b", "cdc_a_backlog", "cdc_c_backlog"} <= sensors
    assert "cdc_b_backlog" not in sensors


def test_discovery_without_a_service_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tables are listed, and the service does not answer."""

    def away(_self: Connector) -> list[TableSchema]:
        raise unavailable("http://127.0.0.1:11112", "connection refused")

    monkeypatch.setattr(Connector, "tables", away)

    with pytest.raises(ConfigError) as caught:
        load_destination(write(tmp_path, "shop", GOOD))

    assert "the tables of shop are unknown" in caught.value.message
    assert caught.value.hint.startswith("Start the service and reload this code location")


def test_a_destination_without_tables_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the service is away. The sensor in its place says why, and then that it can be loaded; a destination
    that the service does not know is a mistake."""
    answers: list[Exception | list[TableSchema]] = [[], unavailable("http://127.0.0.1:11112", "refused"), [], [USERS]]

    def tables(_self: Connector) -> list[TableSchema]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Connector, "tables", tables)
    write(tmp_path, "shop", GOOD)
    (sensor,) = load_folder(tmp_path).sensors or []

    assert sensor.name == "waiting_shop"
    assert "captures no table of shop yet" in (sensor.description or "")
    said = [getattr(sensor(dg.build_sensor_context()), "skip_message", "") for _ in range(3)]
    assert ["are unknown" in said[0], "captures no table" in said[1], said[2]] == [True, True, LOADABLE]

    answers.append(UnknownDestination("no destination shop", place="x", hint="y"))
    assert [one.name for one in load_folder(tmp_path).sensors or []] == ["broken_shop"]


def test_a_file_that_names_no_service_means_the_one_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its Spark. One that names them is not changed."""
    monkeypatch.setenv("SLUICE_SERVICE", "http://127.0.0.1:1234")
    monkeypatch.setenv("SLUICE_FLIGHT", "grpc://127.0.0.1:99")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:77")
    found = {}
    for name, more in (("a", ""), ("b", "  service: {http: http://b:1}\n  spark: sc://b:2\n"), ("c", ZOOKEEPER)):
        resources = load_destination(write(tmp_path, name, GOOD + "  tables: [shop.users]\n" + more)).resources or {}
        canal, lake = resources["canal_shop"], resources["lake_shop"]
        found[name] = (canal.http_url, canal.flight_url, canal.zk_servers, lake.remote)
    assert found == {
        "a": ("http://127.0.0.1:1234", "grpc://127.0.0.1:99", "", "sc://127.0.0.1:77"),
        "b": ("http://b:1", None, "", "sc://b:2"),
        "c": ("http://127.0.0.1:11112", None, "zk:1", "sc://127.0.0.1:77"),
    }


def test_a_service_is_trusted_by_its_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority of its certificate, and the hosts from ZooKeeper that may have the token."""
    monkeypatch.setenv("SLUICE_CA", "/ca/of/all.pem")
    found = {}
    for name, more in (("a", ""), ("b", "{zookeeper: zk:1, ca: /ca/own.pem, hosts: ['10.1.*']}")):
        service = f"  service: {more}\n" if more else ""
        resources = load_destination(write(tmp_path, name, GOOD + "  tables: [shop.users]\n" + service)).resources or {}
        canal = resources["canal_shop"]
        found[name] = (canal.ca, canal.hosts)
    assert found == {"a": ("/ca/of/all.pem", []), "b": ("/ca/own.pem", ["10.1.*"])}


def test_names_that_dagster_refuses_are_adapted(tmp_path: Path) -> None:
    """Destinations of Canal may have dots and dashes; asset keys keep them."""
    loaded = load_destination(write(tmp_path, "a", "  destination: eu-shop.1\n  lake: /lake\n"))

    assert dg.AssetKey(["cdc", "eu-shop.1", "store"]) in loaded.resolve_all_asset_keys()
    assert "drain_eu_shop_1" in {job.name for job in loaded.resolve_all_job_defs()}


def test_a_table_that_no_lake_can_have_does_not_keep_the_others_from_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column's type has no mapping. Its asset says so; the table stops by itself when its rows come."""
    odd = TableSchema("shop", "odd", (Column("id", 3, 0, column_type="int"), Column("x", 77, 0)), ("id",))
    monkeypatch.setattr(Connector, "tables", lambda _self: [USERS, odd])
    loaded = load_destination(write(tmp_path, "shop", GOOD))
    keys = {key.path[-1]: key for asset in loaded.assets or [] for key in getattr(asset, "keys", ())}
    (delta,) = (asset for asset in loaded.assets or [] if isinstance(asset, dg.AssetsDefinition))
    assert "dagster/column_schema" in delta.metadata_by_key[keys[USERS.table]]
    assert "dagster/column_schema" not in delta.metadata_by_key[keys["odd"]]
    assert "It cannot be in the lake" in delta.descriptions_by_key[keys["odd"]]


def test_two_destinations_on_one_lake_may_not_share_a_table(tmp_path: Path) -> None:
    """The second one is refused with both names, and the first one works."""
    write(tmp_path, "a", GOOD)
    write(tmp_path, "b", GOOD.replace("shop", "store"))

    loaded = load_folder(tmp_path)

    assert "cdc_shop_backlog" in {sensor.name for sensor in loaded.sensors or []}
    broken = next(sensor for sensor in loaded.sensors or [] if sensor.name == "broken_b")
    with pytest.raises(ConfigError, match=r"delta/shop/\S+ and delta/store/\S+ would share a folder of the lake"):
        broken(dg.build_sensor_context())


@pytest.mark.parametrize("ignores", [True, False])
def test_names_that_differ_in_case_need_a_store_that_tells_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignores: bool
) -> None:
    """Where the lake's store ignores case they would share a folder."""
    both = [TableSchema("shop", name, (Column("id", 3, 0, column_type="int"),), ("id",)) for name in ("Odd", "odd")]
    monkeypatch.setattr(Connector, "tables", lambda _self: both)
    monkeypatch.setattr(Lake, "ignores_case", lambda _self: ignores)
    write(tmp_path, "a", GOOD)
    names = {sensor.name for sensor in load_folder(tmp_path).sensors or []}
    assert ("broken_a" in names, "cdc_shop_backlog" in names) == (ignores, not ignores)
