"""Tables reloaded after the source has purged changes that the lake lacks, by the real parts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdc_core import config
from cdc_core.errors import PositionPurged
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied
from tests.support.servers import purge
from tests.support.shop import opened_shop, until_running

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1200)]


def test_no_change_is_missed_after_a_purge(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """Inserts, updates and deletes of the purged part, with a key and without one. What comes before tables are
    reloaded is in them once, and so is what comes after."""
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE log (line INT)",
            "INSERT INTO orders VALUES (1, 0), (2, 0), (3, 0)",
            "INSERT INTO log VALUES (1), (1), (2)",
        )
        assert shop.drain() == []
        shop.connector.by_hand.stop()
        shop.execute(
            "UPDATE orders SET v = 1 WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
            "INSERT INTO orders VALUES (4, 1)",
            "DELETE FROM log WHERE line = 1 LIMIT 1",
            "FLUSH BINARY LOGS",
        )
        purge(mysql8, mysql8.position()[0])
        shop.connector.by_hand.start()
        deadline = time.monotonic() + 120
        while (error := shop.connector.status().error) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert isinstance(error.as_error(), PositionPurged)

        shop.connector.by_hand.reset("anew", client_id=1001, dry_run=False)
        until_running(shop.connector)
        assert "a reset skipped the rows" in shop.lake.check_cursor(shop.connector.client_status())
        shop.execute("UPDATE orders SET v = 2 WHERE id = 3", "INSERT INTO log VALUES (3)")
        assert shop.drain() == []
        instance, _ = config.load_instance(tmp_path / "conf", "shop")
        snapshots = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions)
        for table in ("orders", "log"):
            assert isinstance(snapshots.table(shop.database, table), Copied)
        shop.execute("UPDATE orders SET v = 3 WHERE id = 3", "DELETE FROM log WHERE line = 3")

        assert shop.drain() == []
        assert shop.connector.client_status().stopped == ()
        assert shop.differences("orders", "log") == {"orders": (0, 0, 0), "log": (0, 0, 0)}
