"""What Kafka's partitions have, read by a double of its consumer."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cdc_core.canal.queues import kafka
from cdc_core.canal.queues.place import HEADER, QueuePlace


class Slow:
    """A consumer that gives a message each tenth of a second, then the partition's end."""

    def __init__(self, messages: int) -> None:
        self.left = messages

    def poll(self, _: float) -> Any:
        time.sleep(0.1)
        self.left -= 1
        return _Message(self.left)


class _Message:
    def __init__(self, left: int) -> None:
        self._left = left

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._left < 0 else None

    def headers(self) -> list[tuple[str, bytes]]:
        return [(HEADER, QueuePlace(1, 2, 3, 4).header("me"))] if self._left == 5 else []


def test_messages_that_come_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as they come, they are read to the end: a queue that gave up would ask again, for ever."""
    monkeypatch.setattr(kafka, "_SECONDS", 0.3)
    broker = kafka.Kafka({}, "me")
    assert broker._newest(Slow(8)) == QueuePlace(1, 2, 3, 4)
    broker.close()
