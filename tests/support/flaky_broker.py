"""A broker in memory that fails at random: what it took before a failure it keeps, as a real one does."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable

from cdc_core.canal.queues.messages import Outgoing
from cdc_core.canal.queues.place import QueuePlace
from cdc_core.config.queue import QueueConfig
from cdc_core.errors import QueueError


class Topics:
    """What all clients of the broker share: the messages of each topic and partition. `patience`: how many messages
    there are between two failures, about."""

    def __init__(self, seed: int, patience: int, most_bytes: int = 1 << 20) -> None:
        self.messages: dict[tuple[str, int], list[tuple[str, Outgoing]]] = {}
        self.failures = 0
        self.chance, self.patience, self.most_bytes = random.Random(seed), patience, most_bytes

    def connect(self, _config: QueueConfig, writer: str) -> FlakyBroker:
        return FlakyBroker(self, writer)


class FlakyBroker:
    def __init__(self, topics: Topics, writer: str) -> None:
        self.most_bytes = topics.most_bytes
        self._topics, self._writer, self._closed = topics, writer, False
        self._left = self._drawn()

    def _drawn(self) -> int:
        return int(self._topics.chance.expovariate(1 / self._topics.patience)) if self._topics.patience else 1 << 60

    def reached(self, topic: str, partition: int) -> QueuePlace | None:
        found = self._topics.messages.get((topic, partition), [])
        return next((one.place for writer, one in reversed(found) if writer == self._writer), None)

    def send(self, messages: Iterable[Outgoing], stopped: threading.Event, tell: Callable[[QueueError], None]) -> bool:  # noqa: ARG002
        for one in messages:
            assert not self._closed
            if not self._left:
                self._left = self._drawn()
                self._topics.failures += 1
                raise QueueError("it fails at random", place=one.topic, hint="Wait.")
            self._left -= 1
            self._topics.messages.setdefault((one.topic, one.partition), []).append((self._writer, one))
        return not stopped.is_set()

    def close(self) -> None:
        self._closed = True
