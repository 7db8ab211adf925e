"""A union of three schemas, from a real source through the service and Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
from deltalake import DeltaTable

from orchestration.commands.verb import access_of
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Order
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import Dropped, Policies, TablePolicy
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.landing.notes import Notes
from spark_jobs.session import Sessions
from tests.support.registered import Said
from tests.support.shop import Shop, opened_shop, until_running

CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, n INT, what VARCHAR(20))"
Rows = Counter[frozenset[tuple[str, Any]]]


@dataclass
class UnionTrial:
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
        said.reason = "a bad release"
        root = self.shop.lake.lake.root
        order.run(access_of("shop", lake=root, conf=self.folder / "conf", spark=self.spark, service=url), said)
        return said

    @property
    def path(self) -> str:
        return self.shop.lake.lake.path("all", "orders")

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(self.shop.lake.lake.path(name, "orders"))

    def at_source(self, *only: str) -> Rows:
        found = Rows()
        for name in only or self.names:
            with self.shop.mysql.root(name) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
                if cursor.execute("SHOW TABLES LIKE 'orders'"):
                    cursor.execute("SELECT * FROM orders")
                    found.update(plain({**row, "of": name}) for row in cursor.fetchall())
        return found

    def in_union(self, *only: str) -> Rows:
        rows = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        return Rows(plain(row) for row in rows if not only or row["of"] in only)


def plain(row: dict[str, Any]) -> frozenset[tuple[str, Any]]:
    """A row without its NULLs: a shard may lack their columns."""
    return frozenset((name, value) for name, value in row.items() if value is not None)


@contextmanager
def opened_union(mysql: MySqlServer, spark_remote: str, tmp_path: Path, root: str = "") -> Iterator[UnionTrial]:
    """Its lake is at `root`, without one in the folder."""
    with ExitStack() as parts:
        names = [parts.enter_context(mysql.database(f"shard_{one}")) for one in "abc"]
        mysql.execute(CREATE, "INSERT INTO orders VALUES (1, 1, 'old'), (2, 2, 'old')", database=names[2])
        regex = ",".join(rf"{name}\\..*" for name in names)
        shop = parts.enter_context(opened_shop(mysql, spark_remote, tmp_path, canal_instance_filter_regex=regex))
        union = Union("all.orders", rf"({'|'.join(names)})\.orders", ("of",))
        lake = Lake(root or tmp_path / "lake", complete=True, unions=Unions("shop", (union,)))
        policies = Policies(TablePolicy(Dropped.DROP))
        sessions = parts.enter_context(Sessions(spark_remote, "", lake.root))
        shop.lake = replace(shop.lake, lake=lake, sessions=sessions, fence=Fence(lake, sessions), policies=policies)
        yield UnionTrial(shop, names, tmp_path, spark_remote)
