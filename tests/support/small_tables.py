"""Small tables of before the capture, loaded many at a time from a real server without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc_core import config
from cdc_core.schema.names import split_name
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.load.several import SoFar
from spark_jobs.snapshot.limits import Limits
from tests.support.plain_lake import PlainLake
from tests.support.shop import Shop, opened_shop

TABLES, ROWS = 8, 40
NO_SPARK = "sc://127.0.0.1:1"


@contextmanager
def opened_small(mysql: MySqlServer, folder: Path) -> Iterator[Shop]:
    """A shop with small tables `t0` to `t7` of before the capture."""
    with mysql.database("before") as database:
        rows = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
        for number in range(TABLES):
            mysql.execute(
                f"CREATE TABLE t{number} (a INT PRIMARY KEY, v VARCHAR(20))",
                f"INSERT INTO t{number} VALUES {rows}",
                database=database,
            )
        with opened_shop(mysql, NO_SPARK, folder, canal_instance_filter_regex=rf"{database}\\..*") as shop:
            shop.database = database
            yield shop


def loader_of(shop: Shop, folder: Path, connections: int = 2) -> Loader:
    instance, _ = config.load_instance(folder / "conf", "shop")
    manner = Manner(30, Limits(connections=connections), read_on="driver")
    return Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, manner)


def named(shop: Shop) -> list[str]:
    return [f"{shop.database}.t{number}" for number in range(TABLES)]


def loaded(loader: Loader, names: list[str], told: Callable[[SoFar], None] = lambda _: None) -> dict[str, Any]:
    """What became of each table, by its own name: an error in the place of an outcome."""
    found: dict[str, Any] = {}
    for loading in loader.tables(names, report=told):
        try:
            found[split_name(loading.name)[1]] = loading.outcome()
        except Exception as error:
            found[split_name(loading.name)[1]] = error
    return found


def check_all(shop: Shop, *but: str) -> None:
    """All tables but those are as at the source, and nothing of their snapshots is left."""
    there = [f"t{number}" for number in range(TABLES) if f"t{number}" not in but]
    check(shop, *there)
    client, left = shop.connector.client_status(), {f"{shop.database}.{name}" for name in but}
    assert {one.table for one in (*client.snapshots, *client.stopped)} <= left


def check(shop: Shop, *there: str) -> None:
    """These are as at the source, when all that was written meanwhile is drained."""
    shop.read()
    PlainLake(shop.connector, shop.lake.lake).drain(1000)
    assert shop.differences(*there) == dict.fromkeys(there, (0, 0, 0))
