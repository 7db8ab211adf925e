"""A backlog from MySQL into a local Kafka as flat messages of one row each. Prints JSON.

`mq_kafka`: messages a second from the first to the last, with broker and service on the same cores; CPU seconds of
both. The peer is the bare producer: messages of the same size that nobody has to make, to the same broker.

    python -m tests.bench.bench_queues [--scale 0.1]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from orchestration.stack.mysql.server import MySqlServer
from tests.bench.bench_merge import cpu
from tests.bench.bench_service import COLUMNS, OPTIONS, RING, VALUES, fill, report, serving
from tests.support.kafka import Kafka

ROWS = 1_000_000
PARTITIONS = 3


def sent(kafka: Kafka, consumer: Any, topic: str) -> int:
    """How many messages the topic has."""
    offsets = [consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=10)[1] for n in range(PARTITIONS)]
    return sum(offsets)


def ours(kafka: Kafka, mysql: MySqlServer, begin: tuple[str, int], rows: int) -> dict[str, Any]:
    settings: dict[str, object] = {
        "canal__serverMode": "kafka",
        "kafka__bootstrap__servers": kafka.servers,
        "canal__mq__topic": "bench",
        "canal__mq__partitionsNum": PARTITIONS,
        "canal__mq__partitionHash": r".*\\..*:$pk$",
    }
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": "bench"})
    broker = psutil.Process(kafka.pid)
    with serving(mysql, begin, **settings) as service:
        assert service.process is not None
        while (first := sent(kafka, consumer, "bench")) < rows // 20:  # warm
            time.sleep(0.02)
        began, used, at_broker = time.perf_counter(), cpu(service.process), cpu(broker)
        memory = 0.0
        while (count := sent(kafka, consumer, "bench")) < rows:
            memory = max(memory, service.process.memory_info().rss / 1e6)
            time.sleep(0.05)
        seconds = time.perf_counter() - began
        told = {
            "rate": (count - first) / seconds,
            "service_cpu_seconds": round(cpu(service.process) - used, 2),
            "broker_cpu_seconds": round(cpu(broker) - at_broker, 2),
            "memory_over_ring_mb": round(memory - RING / 1e6),
        }
    consumer.close()
    return told


def bare(kafka: Kafka, size: int, count: int) -> float:
    """Messages a second of a producer that has them already."""
    producer = Producer({"bootstrap.servers": kafka.servers, "enable.idempotence": True, "linger.ms": 5})
    value, began = b"x" * size, time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce("bare", value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return count / (time.perf_counter() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    rows = int(ROWS * options.parse_args().scale)
    with tempfile.TemporaryDirectory(prefix="bench-queues-") as directory:
        folder = Path(directory)
        mysql = MySqlServer("8.0.31", folder / "mysql", **{**OPTIONS, "binlog_row_event_max_size": 256}).start()
        kafka = Kafka(folder / "kafka").start()
        try:
            for topic in ("bench", "bare"):
                kafka.create(topic, PARTITIONS)
            begin = fill(mysql, [f"CREATE TABLE bench.t {COLUMNS}", *map(_inserts, range(0, rows, 1000))])
            runs = ours(kafka, mysql, begin, rows)
            size = len(kafka.messages("bench")[-1].value())
            config = {"messages": rows, "bytes_of_one": size, "limit": 50_000, **runs}
            report("mq_kafka", config.pop("rate"), "messages/s", config, "the bare producer", bare(kafka, size, rows))
        finally:
            kafka.kill()
            mysql.stop()


def _inserts(low: int) -> str:
    """A thousand rows, each in an event of its own."""
    return (
        f"INSERT INTO bench.t SELECT id, {VALUES}, REPEAT('x', 100) FROM (SELECT {low} + d AS id, d AS n FROM seed.d) b"
    )


if __name__ == "__main__":
    main()
