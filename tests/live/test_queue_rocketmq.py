"""A destination into a real RocketMQ, through its proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.canal.queues.place import HEADER
from orchestration.stack.mysql.server import MySqlServer
from tests.support.queue_service import configure, queue_service
from tests.support.reading import until_read
from tests.support.rocketmq import RocketMQ
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.full]


@pytest.fixture(scope="module")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMQ]:
    broker = RocketMQ(tmp_path_factory.mktemp("rocketmq")).start()
    yield broker
    broker.kill()


def _conf(broker: RocketMQ, mysql: MySqlServer, database: str, folder: Path, topic: str) -> Path:
    rules = f"canal.mq.topic = {topic}\ncanal.mq.partitionsNum = 3\ncanal.mq.partitionHash = {database}\\\\..*:$pk$"
    service = f"sluice.rocketmq.proxy = {broker.proxy}\nrocketmq.tag = shop"
    conf = configure(folder, mysql, database, service, rules)
    text = (conf / "canal.properties").read_text().replace("= kafka", "= rocketMQ")
    (conf / "canal.properties").write_text(text)
    return conf


def _rows(messages: list[Any]) -> dict[str, list[int]]:
    """The values of each key, in the order in which they came; what came again is left out by its place."""
    found: dict[str, list[int]] = {}
    seen = set()
    for message in messages:
        place = message.properties[HEADER], message.message_group
        if place not in seen:
            seen.add(place)
            for row in json.loads(message.body)["data"] or ():
                found.setdefault(row["id"], []).append(int(row["v"]))
    return found


@pytest.mark.in_turn(2)
def test_rows_arrive_in_order_also_when_the_broker_was_killed(
    rocketmq: RocketMQ, mysql8: MySqlServer, tmp_path: Path
) -> None:
    """Nothing is lost and each key's rows keep their order; the error on the page names the proxy meanwhile."""
    rocketmq.create("orders", 3)
    with mysql8.database() as database:
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=database)
        conf = _conf(rocketmq, mysql8, database, tmp_path, "orders")
        with queue_service(conf) as server:
            _write(mysql8, database, 0, 20)
            _all_acked(server, mysql8)
            rocketmq.broker.kill()
            _write(mysql8, database, 20, 40)
            until(lambda: (error := server.destination("shop").status().error) and "RocketMQ at" in error.message)
            rocketmq.broker.start()
            _write(mysql8, database, 40, 60)
            _all_acked(server, mysql8)
            assert server.destination("shop").status().error is None
        found = _rows(rocketmq.messages("orders", 3 * 60))  # each step in three partitions
    assert set(found) == {str(key) for key in range(10)}
    assert all(values == list(range(60)) for values in found.values())


def _write(mysql: MySqlServer, database: str, first: int, last: int) -> None:
    for step in range(first, last):
        rows = ", ".join(f"({key}, {step})" for key in range(10))
        mysql.execute(f"REPLACE INTO t VALUES {rows}" if step == 0 else f"UPDATE t SET v = {step}", database=database)


def _all_acked(server: Any, mysql: MySqlServer) -> None:
    """Waits until all that was written is at the broker."""
    one = server.destination("shop")
    until_read(one.status, mysql, 300)
    until(lambda: (client := one.service().client(1001)).backlog_rows == 0 and not client.claims, 300)


@pytest.mark.in_turn
def test_a_topic_without_order_is_refused(rocketmq: RocketMQ, mysql8: MySqlServer, tmp_path: Path) -> None:
    """A topic that is not FIFO would lose the rows' order: the error says how to make one."""
    rocketmq.create("plain", 1, "NORMAL")
    with mysql8.database() as database:
        conf = _conf(rocketmq, mysql8, database, tmp_path, "plain")
        with queue_service(conf) as server:
            mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=database)
            until(lambda: (error := server.destination("shop").status().error) and "+message.type=FIFO" in error.hint)
