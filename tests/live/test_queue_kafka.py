"""A destination into a real Kafka: what arrives, in which order, and what is left of failures."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.canal.protocol import declared
from cdc_core.contract.status import Status
from cdc_core.errors import SessionError
from orchestration.stack.mysql.server import MySqlServer
from tests.support.kafka import Kafka
from tests.support.marks import tiers
from tests.support.queue_service import configure, flat, queue_process, queue_service, rows
from tests.support.servers import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    broker = Kafka(tmp_path_factory.mktemp("kafka")).start()
    yield broker
    broker.kill()


@pytest.fixture
def database(mysql8: MySqlServer) -> Iterator[str]:
    with mysql8.database() as name:
        yield name


def _service(kafka: Kafka, more: str = "") -> str:
    return f"kafka.bootstrap.servers = {kafka.servers}\nkafka.retries = 0\n{more}"


def _count(kafka: Kafka, topic: str, partitions: int = 1) -> int:
    return sum(len(rows(kafka.messages(topic, number))) for number in range(partitions))


@pytest.mark.in_turn(2)
@pytest.mark.full
def test_every_change_arrives_once_and_in_order(
    kafka: Kafka, mysql8: MySqlServer, database: str, tmp_path: Path
) -> None:
    """Rows, statements and updates as flat messages; after a restart it goes on after what was sent."""
    kafka.create("plain")
    conf = configure(tmp_path, mysql8, database, _service(kafka), "canal.mq.topic = plain")
    mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", database=database)
    with queue_service(conf):
        mysql8.execute(
            "INSERT INTO t VALUES (1, 'a'), (2, NULL)", "UPDATE t SET v = 'b' WHERE id = 1", database=database
        )
        until(lambda: len(kafka.messages("plain")) >= 3)
    mysql8.execute("DELETE FROM t WHERE id = 2", database=database)
    with queue_service(conf):
        until(lambda: len(kafka.messages("plain")) >= 4)
        mysql8.execute("INSERT INTO t VALUES (3, 'c')", database=database)
        until(lambda: len(kafka.messages("plain")) >= 5)
    found = flat(kafka.messages("plain"))
    assert [(one["type"], one["isDdl"], one["data"], one["old"]) for one in found] == [
        ("CREATE", True, None, None),
        ("INSERT", False, [{"id": "1", "v": "a"}, {"id": "2", "v": None}], None),
        ("UPDATE", False, [{"id": "1", "v": "b"}], [{"v": "a"}]),
        ("DELETE", False, [{"id": "2", "v": None}], None),
        ("INSERT", False, [{"id": "3", "v": "c"}], None),
    ]
    assert {one["table"] for one in found} == {"t"}
    assert {tuple(one["pkNames"] or ()) for one in found} == {(), ("id",)}


@pytest.mark.full
def test_topics_and_partitions_by_rule(kafka: Kafka, mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """A topic for each table, made by the broker; a key's rows in one partition, in order."""
    conf = configure(
        tmp_path,
        mysql8,
        database,
        _service(kafka),
        f"canal.mq.topic = rest\ncanal.mq.dynamicTopic = {database}\\\\.a.*, others:{database}\\\\.b\n"
        f"canal.mq.partitionsNum = 3\ncanal.mq.partitionHash = {database}\\\\..*:$pk$",
    )
    topic = f"{database}_account"
    for name in (topic, "others"):
        kafka.create(name, 3)
    with queue_service(conf):
        mysql8.execute(
            "CREATE TABLE account (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (id INT PRIMARY KEY)", database=database
        )
        for step in range(30):
            mysql8.execute(
                "INSERT INTO account VALUES " + ", ".join(f"({key}, {step})" for key in range(20)) + " AS new "
                "ON DUPLICATE KEY UPDATE v = new.v",
                f"INSERT INTO b VALUES ({step})",
                database=database,
            )
        until(lambda: _count(kafka, topic, 3) >= 600 and _count(kafka, "others", 3) >= 30)
    placed: dict[str, int] = {}
    for partition in range(3):
        seen: dict[str, list[int]] = {}
        for _, row in rows(kafka.messages(topic, partition)):
            seen.setdefault(row["id"], []).append(int(row["v"]))
        assert all(values == list(range(30)) for values in seen.values())
        placed |= dict.fromkeys(seen, partition)
    assert len(placed) == 20
    assert set(placed.values()) == {0, 1, 2}
    assert sorted(int(row["id"]) for number in range(3) for _, row in rows(kafka.messages("others", number))) == list(
        range(30)
    )


def test_protobuf_is_what_canals_deserializer_reads(
    kafka: Kafka, mysql8: MySqlServer, database: str, tmp_path: Path
) -> None:
    """`flatMessage = false`: packets of entries, with the bounds of transactions, in order."""
    kafka.create("packets")
    settings = _service(kafka, "canal.mq.flatMessage = false")
    conf = configure(tmp_path, mysql8, database, settings, "canal.mq.topic = packets")
    mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)

    def kinds() -> list[int]:
        packets = [declared.Packet.FromString(message.value()) for message in kafka.messages("packets")]
        entries = [raw for one in packets for raw in declared.Messages.FromString(one.body).messages]
        return [declared.Entry.FromString(raw).entryType for raw in entries]

    with queue_service(conf):
        for number in range(3):
            mysql8.execute(f"INSERT INTO t VALUES ({number})", database=database)
        until(lambda: len(kinds()) >= 10)
    assert kinds() == [2, 1, 2, 3, 1, 2, 3, 1, 2, 3]


def _error(status: Status) -> str:
    return f"{status.error.message} {status.error.hint}" if status.error else ""


def test_what_the_broker_refuses_waits_for_its_remedy(
    kafka: Kafka, mysql8: MySqlServer, database: str, tmp_path: Path
) -> None:
    """A message that is too large, a partition that is not there: the error says what to do, and nothing is lost."""
    kafka.create("small", 1, max_message_bytes="20000")
    conf = configure(tmp_path, mysql8, database, _service(kafka), "canal.mq.topic = small")
    mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)", database=database)
    with queue_service(conf) as server:
        mysql8.execute(
            "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, REPEAT('x', 100000))", database=database
        )
        mysql8.execute("INSERT INTO t VALUES (3, 'c')", database=database)
        until(lambda: "larger than Kafka takes" in _error(server.destination("shop").status()))
        assert "max.message.bytes" in _error(server.destination("shop").status())
        _alter(kafka, "small", "2000000")
        until(lambda: _count(kafka, "small") >= 3)
        until(lambda: not _error(server.destination("shop").status()))
    assert [row["id"] for _, row in rows(kafka.messages("small"))] == ["1", "2", "3"]


def _alter(kafka: Kafka, topic: str, most: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("max.message.bytes", most, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = kafka.admin()
    next(iter(admin.incremental_alter_configs([resource]).values())).result(60)


def test_partitions_that_a_topic_lacks(kafka: Kafka, mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """It waits until the topic has as many partitions as the configuration says, and sends each row once."""
    from confluent_kafka.admin import NewPartitions

    kafka.create("narrow", 1)
    rules = f"canal.mq.topic = narrow\ncanal.mq.partitionsNum = 4\ncanal.mq.partitionHash = {database}\\\\..*:$pk$"
    conf = configure(tmp_path, mysql8, database, _service(kafka), rules)
    mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    with queue_service(conf) as server:
        mysql8.execute("INSERT INTO t VALUES " + ", ".join(f"({key})" for key in range(50)), database=database)
        until(lambda: "no such topic or partition" in _error(server.destination("shop").status()))
        admin = kafka.admin()
        next(iter(admin.create_partitions([NewPartitions("narrow", 4)]).values())).result(60)
        until(lambda: _count(kafka, "narrow", 4) >= 50, 400)
        until(lambda: not _error(server.destination("shop").status()))
    found = [int(row["id"]) for number in range(4) for _, row in rows(kafka.messages("narrow", number))]
    assert sorted(found) == list(range(50))


def test_nobody_else_takes_the_queues_batches(kafka: Kafka, mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """Client 1001 is the queue's: a claim of Dagster as the same client is refused, one as another is not."""
    kafka.create("own")
    conf = configure(tmp_path, mysql8, database, _service(kafka), "canal.mq.topic = own\nsluice.clients = 1001, 1002")
    mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    with queue_service(conf) as server:
        until(lambda: len(kafka.messages("own")) >= 1)
        service = server.destination("shop").service()
        with pytest.raises(SessionError, match="message queue's"):
            service.claim(1001, 100, 0.0, "dagster", 60.0)
        assert service.claim(1002, 100, 10.0, "dagster", 60.0) is not None


def _writing(mysql: MySqlServer, database: str, stop: threading.Event, written: list[int]) -> None:
    with mysql.root(database) as link, link.cursor() as cursor:
        while not stop.wait(0.01):
            first = len(written)
            cursor.execute("INSERT INTO t VALUES " + ", ".join(f"({first + k}, 0)" for k in range(20)))
            written += range(first, first + 20)


def _checked(kafka: Kafka, topic: str, written: list[int]) -> None:
    """Every row once; in each partition in the order in which it was written."""
    found = []
    for partition in range(3):
        ids = [int(row["id"]) for _, row in rows(kafka.messages(topic, partition))]
        assert ids == sorted(ids), "out of order, or twice"
        found += ids
    assert sorted(found) == written


@pytest.mark.in_turn(2)
@pytest.mark.fault
@pytest.mark.full
@pytest.mark.parametrize("seed", tiers([1], turns=[2]))
def test_killed_brokers_and_services(seed: int, mysql8: MySqlServer, database: str, tmp_path: Path) -> None:
    """Under steady writes the broker and the service are killed at random. Nothing is lost, nothing comes twice, and
    each partition has its rows in order: a new service asks the broker what it has."""
    chance = random.Random(seed)
    broker = Kafka(tmp_path / "kafka").start()
    broker.create("t", 3)
    rules = f"canal.mq.topic = t\ncanal.mq.partitionsNum = 3\ncanal.mq.partitionHash = {database}\\\\..*:$pk$"
    conf = configure(tmp_path, mysql8, database, _service(broker), rules)
    service = queue_process(conf, tmp_path, (free_port(), free_port()))
    mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=database)
    stop, written = threading.Event(), list[int]()
    writer = threading.Thread(target=_writing, args=(mysql8, database, stop, written))
    writer.start()
    try:
        service.start()
        for _ in range(8):
            stop.wait(chance.uniform(0.3, 3.0))
            killed: Any = chance.choice([broker, service, service])
            killed.kill()
            stop.wait(chance.uniform(0.0, 2.0))
            if killed is service:
                (tmp_path / "service.log").unlink()
            killed.start()
        stop.set()
        writer.join()
        until(lambda: _count(broker, "t", 3) >= len(written), 240)
    finally:
        stop.set()
        writer.join()
        service.stop()
    _checked(broker, "t", written)
    broker.kill()
