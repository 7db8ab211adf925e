"""What a queue asks of its broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from cdc_core.canal.queues.messages import Outgoing
from cdc_core.canal.queues.place import QueuePlace
from cdc_core.config.queue import QueueConfig
from cdc_core.errors import QueueError
from cdc_core.packages import required


class Broker(Protocol):
    """Made again after each failure. `most_bytes` of one message."""

    most_bytes: int

    def reached(self, topic: str, partition: int) -> QueuePlace | None: ...

    def send(self, messages: Iterable[Outgoing], stopped: threading.Event, tell: Callable[[QueueError], None]) -> bool:
        """Whether the broker has all of them: False when `stopped` came first. `tell` gets what it waits for."""
        ...

    def close(self) -> None: ...


def connected(config: QueueConfig, writer: str) -> Broker:
    """The broker of the configuration; its client is loaded with it. Raises ConfigError."""
    if config.mode == "kafka":
        required("confluent_kafka", "canal.serverMode=kafka")
        from cdc_core.canal.queues.kafka import Kafka

        return Kafka(config.kafka, writer)
    from cdc_core.canal.queues.rocketmq import RocketMQ

    return RocketMQ(config, writer)
