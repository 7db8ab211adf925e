"""Tables whose files a union cannot name, from a real source through the service and Spark: they are copied, or stop
with the remedy, and never are in the union half."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Copy, Verify
from spark_jobs.check.united import united
from spark_jobs.lake.features import MAPPING
from spark_jobs.lake.layout import Layouts, Vectors
from spark_jobs.lake.tables import Lake
from spark_jobs.write.order import Engine
from tests.support.small_lake import source_of
from tests.support.union_trial import CREATE, Rows, UnionTrial, opened_union

pytestmark = pytest.mark.integration


@pytest.fixture
def trial(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[UnionTrial]:
    """Tables of their own, with deletion vectors, a renamed column and partitions, become shards."""
    with opened_union(mysql8, spark_remote, tmp_path) as trial:
        a, b, c = trial.names
        layouts = Layouts(vectors_by={f"{a}.*": Vectors.ALWAYS}, partition_by={f"{c}.*": ("n",)})
        whole = trial.shop.lake.lake
        alone = Lake(whole.root, complete=True, layouts=layouts)
        trial.shop.lake = replace(trial.shop.lake, lake=alone, engine=Engine.SQL)
        trial.write(c, "DROP TABLE orders")
        for name in trial.names:
            trial.write(name, CREATE, "INSERT INTO orders VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
        assert trial.run() == []
        trial.write(a, "DELETE FROM orders WHERE id = 2", f"ALTER TABLE {b}.orders RENAME COLUMN what TO that")
        trial.write(b, "UPDATE orders SET that = 'd' WHERE id = 1")
        assert trial.run() == []
        with trial.shop.lake.sessions.take() as spark:  # a small table's MERGE leaves no vectors
            spark.sql(f"DELETE FROM delta.`{alone.path(a, 'orders')}` WHERE id = 3").collect()
        there = {name: DeltaTable(alone.path(name, "orders")) for name in trial.names}
        assert there[a].deletion_vectors().read_all().num_rows
        assert there[b].metadata().configuration[MAPPING] == "name"
        assert there[c].metadata().partition_columns == ["n"]
        for name in trial.names:
            shutil.copytree(alone.path(name, "orders"), whole.path(name, "orders"))
            shutil.rmtree(alone.path(name, "orders"))
        lake = Lake(whole.root, complete=True, unions=whole.unions, layouts=Layouts())
        trial.shop.lake = replace(trial.shop.lake, lake=lake)
        yield trial


@pytest.mark.in_turn
def test_a_run_copies_shards_that_do_not_fit(trial: UnionTrial) -> None:
    """Also those without a row in its batches. They go on as shards."""
    a, b, c = trial.names
    trial.shop.lake = replace(trial.shop.lake, source=source_of(trial.shop))
    trial.write(a, "INSERT INTO orders VALUES (9, 9, 'x')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    trial.write(a, "DELETE FROM orders WHERE id = 1", f"INSERT INTO {c}.orders VALUES (9, 9, 'x')")
    trial.write(b, "ALTER TABLE orders RENAME COLUMN that TO what", "INSERT INTO orders VALUES (9, 9, 'x')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    assert not trial.command(Verify()).failed
    assert list(united(trial.shop.lake.lake, "shop")) == []


@pytest.mark.in_turn
def test_a_run_that_cannot_copy_stops_them(trial: UnionTrial) -> None:
    """Each names its remedy, which helps; the union has none of their rows till then."""
    a, b, c = trial.names
    trial.write(a, "INSERT INTO orders VALUES (9, 9, 'x')")
    assert sorted(trial.run()) == [f"{name}.orders" for name in trial.names]
    stops = {one.table: one for one in trial.shop.connector.client_status().stopped}
    for name, why in ((a, "deletion vectors"), (b, "other names in its files"), (c, "files are partitioned")):
        assert why in stops[f"{name}.orders"].reason
        assert f"sluice copy shop {name}.orders" in stops[f"{name}.orders"].hint
    assert not trial.shop.lake.lake.has("all", "orders")
    assert len(list(united(trial.shop.lake.lake, "shop"))) == 3
    assert not trial.command(Copy(tables=[f"{a}.orders", f"{b}.orders", f"{c}.orders"])).failed
    assert trial.in_union() == trial.at_source()
    trial.write(a, "UPDATE orders SET n = 1", f"UPDATE {b}.orders SET n = 2", f"DELETE FROM {c}.orders LIMIT 1")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()


def test_a_column_that_no_plain_file_has_stops_its_shard(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path
) -> None:
    """With the remedy: a copy would not help, and none is made. The others go on."""
    with opened_union(mysql8, spark_remote, tmp_path) as trial:
        a, b, _ = trial.names
        trial.shop.lake = replace(trial.shop.lake, source=source_of(trial.shop))
        trial.write(a, CREATE, "INSERT INTO orders VALUES (1, 10, 'a')")
        trial.write(b, "CREATE TABLE orders (id INT PRIMARY KEY, `n m` INT)", "INSERT INTO orders VALUES (1, 10)")
        assert trial.run() == [f"{b}.orders"]
        (stop,) = trial.shop.connector.client_status().stopped
        assert "cannot have a column of the name 'n m'" in stop.reason
        assert "`rename` of `rules`" in stop.hint
        assert trial.in_union() == trial.at_source(a) != Rows()
