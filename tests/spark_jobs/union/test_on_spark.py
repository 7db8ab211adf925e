"""Unions and Spark: its readers, its statements on shards, and its upkeep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.schema.ddl import EffectKind
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.policies import Dropped, TablePolicy
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.session import Sessions
from spark_jobs.union.publish import publish
from tests.support.ddl_claims import effect, statement
from tests.support.ddl_text import altered, created
from tests.support.lake_trial import LakeTrial
from tests.support.spark_feed import Change, Table, feed

pytestmark = pytest.mark.integration

ORDERS = Union("all.orders", r"shop\.orders_(\d+)", ("shop",))
CREATE = "CREATE TABLE orders_{} (id BIGINT PRIMARY KEY, n INT, what VARCHAR(20))"
FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32(), "what": pa.string()})


@pytest.fixture
def trial(sessions: Sessions, tmp_path: Path) -> Iterator[LakeTrial]:
    """A union of two shards with two rows each, up to position 200."""
    with feed() as service:
        trial = LakeTrial(service, sessions, tmp_path)
        trial.lake = Lake(tmp_path, complete=True, unions=Unions("d", (ORDERS,)))
        server = TableSchema("shop", "", (), (), "", "utf8mb4_0900_ai_ci")
        creates = [statement(100 + shop, *altered(server, CREATE.format(shop))) for shop in (1, 2)]
        for shop in (1, 2):
            rows = [Change(200, None, (number, 10 * number, "a")) for number in (1, 2)]
            service.put(Table(f"orders_{shop}", FIELDS, key=("id",)), rows)
        assert not trial.apply(0, 200, *creates).refused
        service.changes.clear()
        service.tables.clear()
        yield trial


def path(trial: LakeTrial) -> str:
    return trial.lake.path("all", "orders")


def by_spark(trial: LakeTrial) -> list[dict[str, Any]]:
    """The union's rows, as Spark reads them."""
    with trial.sessions.take() as spark:
        found = spark.sql(f"SELECT * FROM delta.`{path(trial)}` ORDER BY shop, id").toArrow().to_pylist()
    assert found == sorted(
        DeltaTable(path(trial)).to_pyarrow_table().to_pylist(), key=lambda row: (row["shop"], row["id"])
    )
    return found


def follow(trial: LakeTrial, text: str, shop: int = 1) -> None:
    ddl = statement(300, *altered(created(CREATE.format(shop)), text), text=text)
    assert not trial.apply(200, 400, ddl).refused


def test_spark_reads_a_union(trial: LakeTrial) -> None:
    """And finds the files of a shard by its column."""
    assert [(row["shop"], row["id"], row["n"]) for row in by_spark(trial)] == [
        ("1", 1, 10), ("1", 2, 20), ("2", 1, 10), ("2", 2, 20),
    ]  # fmt: skip
    with trial.sessions.take() as spark:
        files = spark.sql(f"SELECT * FROM delta.`{path(trial)}` WHERE shop = '2'").inputFiles()
    assert files
    assert all("/orders_2/" in one for one in files)


def test_a_statement_of_spark_writes_a_shard(trial: LakeTrial) -> None:
    """Many rows: its union follows in the same batch."""
    rows = [Change(300, None, (number, 1, "many")) for number in range(100, 25_100)]
    trial.service.put(Table("orders_1", FIELDS, key=("id",)), rows)
    assert not trial.apply(200, 400).refused
    assert len(by_spark(trial)) == 25_004


@pytest.mark.in_turn
def test_spark_reads_narrow_files_of_a_wide_column(trial: LakeTrial) -> None:
    """The widest shape wins until all have it."""
    follow(trial, "ALTER TABLE orders_1 MODIFY n BIGINT, ADD COLUMN note INT")
    types = {field.name: field.type.type for field in DeltaTable(path(trial)).schema().fields}
    assert types == {"id": "long", "n": "long", "what": "string", "note": "integer", "shop": "string"}
    assert [row["n"] for row in by_spark(trial)] == [10, 20, 10, 20]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("ALTER TABLE orders_1 RENAME COLUMN what TO that", {"1": [None, None], "2": ["a", "a"]}),
        ("ALTER TABLE orders_1 DROP COLUMN what", {"1": [None, None], "2": ["a", "a"]}),
    ],
)
def test_a_column_that_goes_stays_for_the_others(trial: LakeTrial, text: str, kept: dict[str, list[Any]]) -> None:
    """The shard is written anew, with plain names in its files."""
    follow(trial, text)
    for shop, values in kept.items():
        assert [row["what"] for row in by_spark(trial) if row["shop"] == shop] == values
    if "RENAME" in text:
        assert [row["that"] for row in by_spark(trial)] == ["a", "a", None, None]


@pytest.mark.parametrize(
    ("kind", "policy"), [(EffectKind.TRUNCATE, None), (EffectKind.DROP, TablePolicy(Dropped.DROP))]
)
def test_an_emptied_shard_takes_its_rows_alone(trial: LakeTrial, kind: EffectKind, policy: TablePolicy | None) -> None:
    """Its union has the others'."""
    assert not trial.apply(200, 400, statement(300, effect(kind, "orders_1")), policy=policy).refused
    assert [(row["shop"], row["id"]) for row in by_spark(trial)] == [("2", 1), ("2", 2)]


@pytest.mark.in_turn
def test_upkeep_of_a_union_harms_no_shard(trial: LakeTrial) -> None:
    """VACUUM leaves their folder alone, and what OPTIMIZE writes is taken out again."""
    before = by_spark(trial)
    quick = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    }
    with trial.sessions.take() as spark:
        spark.sql(f"OPTIMIZE delta.`{path(trial)}`").collect()
        for key, value in quick.items():
            spark.conf.set(key, value)
        spark.sql(f"VACUUM delta.`{path(trial)}` RETAIN 0 HOURS").collect()
        for key in quick:
            spark.conf.unset(key)
    publish(trial.lake, ORDERS)
    assert by_spark(trial) == before
    assert trial.rows("orders_1") == {(1, 10, "a"): 1, (2, 20, "a"): 1}
