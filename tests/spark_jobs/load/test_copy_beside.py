"""A copy while the stream goes on, at a real service, which takes the staged files as they are: without Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cdc_core import config
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load import loader as module
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied, NoSuchTable
from tests.support.plain_lake import rows_of
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
NOWHERE = "sc://127.0.0.1:1"


def loader(shop: Shop, tmp_path: Path) -> Loader:
    instance, _ = config.load_instance(tmp_path / "conf", "shop")
    return Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, Manner(read_on="driver"))


def rows(shop: Shop, table: str) -> list[tuple[Any, ...]]:
    return sorted(rows_of(shop.lake.lake, shop.lake.lake.path(shop.database, table)))


def stopped(shop: Shop) -> str:
    """A table `t` that is stopped, so that a run needs no Spark for it."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    claim = shop.claim(10)
    shop.connector.ack(claim)
    name = f"{shop.database}.t"
    shop.connector.stop_table(name, reason="test", hint="Copy it.", position=claim.end, copy_needed=True)
    return name


def test_others_drain_while_a_table_is_read(mysql8: MySqlServer, tmp_path: Path) -> None:
    """What is written and acked while the rows are read is in the table with its one commit, and its stop is lifted. A
    claim that waits comes to the next run. A table that the source does not have leaves nothing behind."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        stopped(shop)
        shop.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        assert shop.drain() == []

        def meanwhile(read: Read) -> None:
            if not read.chunks:
                return
            shop.execute("UPDATE t SET v = 9 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
            assert shop.drain() == []
            shop.execute("INSERT INTO t VALUES (5, 5)")

        found = loader(shop, tmp_path).copy(shop.database, "t", report=meanwhile)
        assert isinstance(found, Copied)
        assert rows(shop, "t") == [(1, 9), (3, 3), (4, 4)]
        status = shop.connector.client_status()
        assert (status.stopped, status.snapshots, status.claims) == ((), (), ())
        later = shop.claim(10, owner="next")
        assert (later.rows, later.stopped, later.snapshots) == (1, (), ())
        shop.connector.rollback(later, reason="test")
        assert isinstance(loader(shop, tmp_path).copy(shop.database, "nowhere"), NoSuchTable)
        status = shop.connector.client_status()
        assert (status.stopped, status.snapshots) == ((), ())


def test_images_without_columns_are_copied_while_a_claim_is_held(
    mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change log can be kept of them; the other way does without."""
    held: list[str] = []

    monkeypatch.setattr(module._TableLoad, "while_held", lambda load: held.append(load.name))
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        name = stopped(shop)
        shop.execute("INSERT INTO t VALUES (1, 1)")

        def lose_columns(read: Read) -> None:
            if not read.chunks:
                return
            shop.execute("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET v = v + 1")
            deadline = time.monotonic() + 60
            while not shop.connector.client_status().snapshots[0].broken and time.monotonic() < deadline:
                shop.drain()

        loader(shop, tmp_path).copy(shop.database, "t", report=lose_columns)
        assert held == [name]
        assert shop.connector.client_status().snapshots == ()
