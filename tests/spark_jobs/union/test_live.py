"""A union of three schemas, from a real source through the service and Spark: one long story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from orchestration.commands.verb import access_of
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Copy, Maintain, Order, Reset, Verify
from spark_jobs.apply import batch
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import Dropped, Policies, TablePolicy
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.landing.notes import Notes
from tests.support.registered import Said
from tests.support.shop import Shop, opened_shop, until_running

CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, n INT, what VARCHAR(20))"
Rows = Counter[frozenset[tuple[str, Any]]]


@dataclass
class Trial:
    """`a` and `b` have their tables from their first rows on; `c` had rows before."""

    shop: Shop
    names: list[str]
    folder: Path
    spark: str

    def write(self, name: str, *statements: str) -> None:
        self.shop.mysql.execute(*statements, database=name)

    def run(self) -> list[str]:
        """A run from its start on. Returns the tables that stopped."""
        until_running(self.shop.connector)
        lake = self.shop.lake
        self.shop.lake = replace(lake, fence=Fence(lake.lake, lake.sessions), notes=Notes())
        self.shop.lake.check_cursor(self.shop.connector.client_status())
        return self.shop.drain()

    def command(self, order: Order) -> Said:
        """The verb, which knows the unions from the lake."""
        url, said = self.shop.connector.http_url, Said()
        root = self.shop.lake.lake.root
        order.run(access_of("shop", lake=root, conf=self.folder / "conf", spark=self.spark, service=url), said)
        return said

    @property
    def path(self) -> str:
        return self.shop.lake.lake.path("all", "orders")

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(self.shop.lake.lake.path(name, "orders"))

    def at_source(self) -> Rows:
        found = Rows()
        for name in self.names:
            with self.shop.mysql.root(name) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
                if cursor.execute("SHOW TABLES LIKE 'orders'"):
                    cursor.execute("SELECT * FROM orders")
                    found.update(plain({**row, "of": name}) for row in cursor.fetchall())
        return found

    def in_union(self) -> Rows:
        return Rows(map(plain, DeltaTable(self.path).to_pyarrow_table().to_pylist()))


def plain(row: dict[str, Any]) -> frozenset[tuple[str, Any]]:
    """A row without its NULLs: a shard may lack their columns."""
    return frozenset((name, value) for name, value in row.items() if value is not None)


@pytest.fixture
def trial(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as parts:
        names = [parts.enter_context(mysql8.database(f"shard_{one}")) for one in "abc"]
        mysql8.execute(CREATE, "INSERT INTO orders VALUES (1, 1, 'old'), (2, 2, 'old')", database=names[2])
        regex = ",".join(rf"{name}\\..*" for name in names)
        shop = parts.enter_context(opened_shop(mysql8, spark_remote, tmp_path, canal_instance_filter_regex=regex))
        union = Union("all.orders", rf"({'|'.join(names)})\.orders", ("of",))
        lake = Lake(tmp_path / "lake", complete=True, unions=Unions("shop", (union,)))
        policies = Policies(TablePolicy(Dropped.DROP))
        shop.lake = replace(shop.lake, lake=lake, fence=Fence(lake, shop.lake.sessions), policies=policies)
        yield Trial(shop, names, tmp_path, spark_remote)


@pytest.mark.integration
def test_a_union_is_the_sum_of_its_sources(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, statements shard by shard, a shard that comes late, one that is emptied, one that goes; a killed run, a
    rewound one, a repair, a swap of names; Spark, too, reads the end."""
    a, b, c = trial.names
    for name in (a, b):
        trial.write(name, CREATE, f"INSERT INTO orders VALUES (1, 10, '{name}'), (2, 20, '{name}'), (3, 30, 'x')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source() - Rows({row for row in trial.at_source() if ("of", c) in row})

    begun = trial.shop.mysql.position()
    assert not trial.command(Copy(tables=[f"{c}.orders"])).failed
    assert trial.in_union() == trial.at_source()
    trial.write(a, "UPDATE orders SET n = 11 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    trial.write(c, "UPDATE orders SET what = 'new' WHERE id = 2", "INSERT INTO orders VALUES (4, 4, 'd')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()

    trial.write(a, "ALTER TABLE orders MODIFY n BIGINT, ADD note INT", "UPDATE orders SET n = 1 << 40, note = id")
    trial.write(b, "ALTER TABLE orders RENAME COLUMN what TO that", "INSERT INTO orders VALUES (5, 5, 'e')")
    trial.write(c, "ALTER TABLE orders DROP COLUMN what", "DELETE FROM orders WHERE id = 1")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()

    trial.write(b, "TRUNCATE TABLE orders", "INSERT INTO orders VALUES (6, 6, 'f'), (7, 7, 'g')")

    def dies(*_: Any) -> None:
        raise LakeError("killed", place="lake", hint="-")

    with monkeypatch.context() as patched:
        patched.setattr(batch, "publish", dies)
        with pytest.raises(LakeError, match="killed"):
            trial.run()
    assert trial.in_union() != trial.at_source()
    trial.shop.lake.check_cursor(trial.shop.connector.client_status())
    assert trial.in_union() == trial.at_source()
    assert trial.run() == []

    trial.command(Reset(position=f"{begun[0]}:{begun[1]}", dry_run=False))
    trial.write(a, "INSERT INTO orders VALUES (8, 8, 'h', 8)")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()

    versions = {name: trial.table(name).version() for name in (a, c)}
    trial.table(b).delete("id = 6")
    found = trial.command(Verify())
    assert {*found.failed} == {"orders"}
    assert "1 rows missing" in found.failed["orders"]
    trial.command(Verify(tables=[f"{b}.orders"], repair=True))
    assert trial.in_union() == trial.at_source()
    assert versions == {name: trial.table(name).version() for name in (a, c)}

    assert not trial.command(Maintain()).failed
    assert DeltaTable(trial.path).vacuum(0, dry_run=True, enforce_retention_duration=False) == []
    swapped = f"{a}.orders TO {a}.aside, {b}.orders TO {a}.orders, {a}.aside TO {b}.orders"
    trial.write(a, f"RENAME TABLE {swapped}", "INSERT INTO orders VALUES (10, 10, 'j')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    trial.write(a, "DROP TABLE orders")
    trial.write(c, "INSERT INTO orders VALUES (9, 9)")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    with trial.shop.lake.sessions.take() as spark:
        rows = spark.sql(f"SELECT * FROM delta.`{trial.path}`").toArrow().to_pylist()
    assert Rows(map(plain, rows)) == trial.at_source()
