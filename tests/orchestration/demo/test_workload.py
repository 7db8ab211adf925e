"""The demo's workload on a real server."""

from __future__ import annotations

import random
import time

import pytest

from orchestration.demo import shop
from orchestration.demo.workload import Workload, add_history, open_shop
from orchestration.stack.mysql.server import MySqlServer


@pytest.mark.in_turn
@pytest.mark.integration
def test_the_workload_changes_every_table_and_counts_its_rows(mysql8: MySqlServer) -> None:
    """Each table has rows, each kind of change happened, and `rows` is what the binlog got."""
    mysql8.execute(f"DROP DATABASE IF EXISTS {shop.DATABASE}")
    with mysql8.root() as connection:
        open_shop(connection, random.Random(1))
        add_history(connection)
        workload = Workload(mysql8.root, rate=1e9, rng=random.Random(2))
        with connection.cursor() as cursor:
            cursor.execute("SELECT (SELECT COUNT(*) FROM orders) + (SELECT COUNT(*) FROM order_items)")
            assert cursor.fetchone()[0] == 4 * shop.ORDERS
            for _ in range(300):
                workload.step(cursor)
            counts = {}
            for table in shop.TABLES:
                cursor.execute(f"SELECT COUNT(*) FROM {table}")
                counts[table] = cursor.fetchone()[0]
    mysql8.execute(f"DROP DATABASE {shop.DATABASE}")

    assert all(counts.values())
    assert workload.transactions == 300
    assert workload.rows > 1500


@pytest.mark.integration
def test_the_workload_keeps_its_rate_and_shows_its_failure(mysql8: MySqlServer) -> None:
    """A vanished database ends the thread, and `stop` says so."""
    mysql8.execute(f"DROP DATABASE IF EXISTS {shop.DATABASE}")
    workload = Workload(mysql8.root, rate=100)
    workload.start()

    with pytest.raises(Exception, match=shop.DATABASE):
        workload.stop()


@pytest.mark.integration
def test_the_samples_cover_all_rows_at_about_the_rate(mysql8: MySqlServer) -> None:
    """Every committed row is in a sample, positions rise, and there are not many more rows than the time allows."""
    mysql8.execute(f"DROP DATABASE IF EXISTS {shop.DATABASE}")
    with mysql8.root() as connection:
        open_shop(connection, random.Random(1))
    workload = Workload(mysql8.root, rate=400)
    took = 0.0
    for upto in (200, 400):  # it goes on where it stopped
        began = time.monotonic()
        workload.start()
        while workload.rows < upto:
            assert time.monotonic() < began + 60
            time.sleep(0.02)
        workload.stop()
        took += time.monotonic() - began
    mysql8.execute(f"DROP DATABASE {shop.DATABASE}")
    versions = [sample.version for sample in workload.samples]

    assert sum(sample.rows for sample in workload.samples) == workload.rows
    assert versions == sorted(set(versions))
    assert workload.rows < 400 * took + 400
