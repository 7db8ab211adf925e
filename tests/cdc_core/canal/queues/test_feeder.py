"""A destination into a broker that fails again and again: nothing lost, nothing twice, in order."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cdc_core.canal.queues import feeder as module
from cdc_core.canal.queues.feeder import Feeder
from cdc_core.config import load_service
from cdc_core.doors.traffic import Traffic
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.flaky_broker import Topics
from tests.support.queue_service import configure
from tests.support.waiting import until

pytestmark = pytest.mark.integration
RULES = (
    "sluice.block.bytes = 8192\ncanal.mq.topic = t\ncanal.mq.partitionsNum = 3\ncanal.mq.partitionHash = .*\\\\..*:$pk$"
)


@contextmanager
def _fed(conf: Path, topics: Topics) -> Iterator[CanalServer]:
    config, _ = load_service(conf)
    server = CanalServer(config, conf)
    server.load()
    server.start()
    feeder = Feeder(server.destination("shop"), Traffic(), topics.connect)
    feeder.start()
    try:
        yield server
    finally:
        feeder.stop()
        server.stop()


def _rows(topics: Topics, partition: int) -> list[tuple[str, int]]:
    found = [json.loads(one.value) for _, one in topics.messages.get(("t", partition), [])]
    return [(one["type"], int(row["id"])) for one in found for row in one["data"] or ()]


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_a_broker_that_fails_at_random(
    seed: int, compressed: bool, mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large transactions come in several claims, whose events share one offset when they are compressed; between two
    failures the broker takes some messages, and the service starts again now and then."""
    monkeypatch.setattr(module, "_PAUSES", (0.001, 0.002))
    monkeypatch.setattr(module, "_LEAST_BYTES", 50_000)
    topics, chance = Topics(seed, patience=20, most_bytes=100_000), random.Random(seed)
    written = 0
    with mysql8.database() as database, mysql8.root(database) as link, link.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v CHAR(40))")
        conf = configure(tmp_path, mysql8, database, "", RULES)
        cursor.execute(f"SET SESSION binlog_transaction_compression = {'ON' if compressed else 'OFF'}")
        cursor.execute("SET SESSION cte_max_recursion_depth = 100000")
        for _ in range(3):
            with _fed(conf, topics):
                for _ in range(4):
                    count = chance.choice([1, 30, 50_000])
                    cursor.execute(
                        f"INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
                        f"WHERE i < {count - 1}) SELECT {written} + i, MD5(i) FROM n"
                    )
                    link.commit()
                    written += count
                time.sleep(chance.uniform(0.0, 1.0))
        with _fed(conf, topics):
            until(lambda: sum(len(_rows(topics, partition)) for partition in range(3)) >= written)
    found = []
    for partition in range(3):
        ids = [key for _, key in _rows(topics, partition)]
        assert ids == sorted(set(ids)), "out of order, or twice"
        found += ids
    assert sorted(found) == list(range(written))
    assert topics.failures


def test_another_server_takes_the_queue_over(
    mysql8: MySqlServer, zookeeper: ZooKeeper, zk_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers of one cluster, of which the one that feeds ends again and again, and the broker fails in between:
    the other goes on after what was sent."""
    monkeypatch.setattr(module, "_PAUSES", (0.01, 0.02))
    topics, chance, written = Topics(3, patience=40), random.Random(3), 0
    with mysql8.database() as database, mysql8.root(database) as link:
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        common = f"canal.zkServers = {zookeeper.hosts}{zk_root}\nsluice.zk.session.seconds = 2\n"
        confs = [
            configure(tmp_path / name, mysql8, database, f"{common}canal.port = {port}", RULES)
            for name, port in (("a", 11111), ("b", 11112))
        ]

        for turn in range(4):
            with ExitStack() as leader, ExitStack() as standby:
                running = leader.enter_context(_fed(confs[turn % 2], topics))
                until(lambda: running.destination("shop").status().state == "running")  # noqa: B023
                standby.enter_context(_fed(confs[(turn + 1) % 2], topics))
                written += _written(link, written, chance.randrange(20, 60))
                leader.close()
                written += _written(link, written, chance.randrange(20, 60))
                until(lambda: sum(len(_rows(topics, partition)) for partition in range(3)) >= written)  # noqa: B023
    found = [[key for _, key in _rows(topics, partition)] for partition in range(3)]
    assert all(ids == sorted(set(ids)) for ids in found), "out of order, or twice"
    assert sorted(key for ids in found for key in ids) == list(range(written))


def _written(link: Any, first: int, transactions: int) -> int:
    """How many rows were written: seven in each transaction."""
    with link.cursor() as cursor:
        for low in range(first, first + 7 * transactions, 7):
            cursor.execute("INSERT INTO t VALUES " + ", ".join(f"({low + k})" for k in range(7)))
            link.commit()
    return 7 * transactions


def test_changed_rules_send_again_rather_than_lose(
    mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other partitions the ends of the old ones say nothing: what was not acked comes again as a whole."""
    monkeypatch.setattr(module, "_PAUSES", (0.001, 0.002))
    topics = Topics(1, patience=40, most_bytes=2_000)
    with mysql8.database() as database:
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
        conf = configure(tmp_path, mysql8, database, "", RULES)
        mysql8.execute("INSERT INTO t VALUES " + ", ".join(f"({key})" for key in range(500)), database=database)
        with _fed(conf, topics):
            until(lambda: topics.failures or sum(len(_rows(topics, p)) for p in range(3)) >= 500)
        place = conf / "shop" / "instance.properties"
        place.write_text(place.read_text().replace("partitionsNum = 3", "partitionsNum = 2"))
        topics.patience = 0
        with _fed(conf, topics) as server:
            until(lambda: _idle(server))
    found = {key for partition in range(3) for _, key in _rows(topics, partition)}
    assert found == set(range(500))


def _idle(server: CanalServer) -> bool:
    status = server.destination("shop").status()
    if status.state != "running" or status.position is None:
        return False
    client = server.destination("shop").service().client(1001)
    return client.put > 0 and not client.claims and client.backlog_rows == 0
