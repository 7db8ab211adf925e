"""RocketMQ as a queue's broker, through its proxy (the gRPC protocol of RocketMQ 5).

The messages of a partition are one message group: RocketMQ keeps their order in topics of type FIFO, and only there. A
broker of RocketMQ cannot be asked what it has, so that after a failure messages may come twice; each has its place as a
property. Source: RocketMQ 5, "Ordered Message".
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cdc_core.canal.queues.messages import Outgoing
from cdc_core.canal.queues.place import HEADER, QueuePlace
from cdc_core.config.queue import QueueConfig
from cdc_core.errors import QueueError
from cdc_core.packages import required

_AT_A_TIME = 2000  # messages that wait to be sent
_REQUEST_SECONDS = 10
_FIFO = "Make the topic of type FIFO: mqadmin updateTopic -t TOPIC -c CLUSTER -a +message.type=FIFO"


class RocketMQ:
    """`writer` names this queue in its messages' properties. Not for several threads."""

    def __init__(self, config: QueueConfig, writer: str) -> None:
        self.most_bytes = config.most_bytes
        self._config, self._writer = config, writer
        self._client = _loaded()
        self._pool = ThreadPoolExecutor(config.send_threads, thread_name_prefix="rocketmq")
        self._producers: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<RocketMQ {self._config.endpoints}>"

    def reached(self, topic: str, partition: int) -> QueuePlace | None:  # noqa: ARG002 - it cannot be asked
        return None

    def send(self, messages: Iterable[Outgoing], stopped: threading.Event, tell: Callable[[QueueError], None]) -> bool:  # noqa: ARG002
        """Whether the broker has all of them: False when `stopped` came first. Raises QueueError."""
        coming = iter(messages)
        while some := list(itertools.islice(coming, _AT_A_TIME)):
            groups: dict[tuple[str, int], list[Outgoing]] = {}
            for message in some:
                groups.setdefault((message.topic, message.partition), []).append(message)
            producers = {topic: self._producer(topic) for topic, _ in groups}
            sending = [self._pool.submit(self._send, producers[key[0]], group) for key, group in groups.items()]
            errors = [error for one in sending if (error := one.exception()) is not None]
            if errors:
                raise errors[0]
            if stopped.is_set():
                return False
        return True

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for producer in self._producers.values():
            producer.shutdown()

    def _producer(self, topic: str) -> Any:
        """A producer asks for its topics' routes when it starts."""
        made = self._producers.get(topic)
        if made is None:
            config, client = self._config, self._client
            secrets = client.Credentials(config.access_key.get_secret_value(), config.secret_key.get_secret_value())
            settings = client.ClientConfiguration(
                config.endpoints, secrets, namespace=config.namespace, request_timeout=_REQUEST_SECONDS
            )
            made = client.Producer(settings, (topic,))
            try:
                made.startup()
            except Exception as error:
                raise self._refused(topic, error) from error
            self._producers[topic] = made
        return made

    def _send(self, producer: Any, group: list[Outgoing]) -> None:
        for one in group:
            message = self._client.Message()
            message.topic, message.body = one.topic, one.value
            message.message_group = str(one.partition)
            if self._config.tag:
                message.tag = self._config.tag
            message.add_property(HEADER, one.place.header(self._writer).decode())
            if len(one.value) > self.most_bytes:
                raise _too_large(one, self.most_bytes)
            try:
                producer.send(message)
            except Exception as error:
                raise self._refused(f"{one.topic}:{one.partition}", error) from error

    def _refused(self, place: str, error: Exception) -> QueueError:
        details = getattr(error, "details", None)  # of gRPC's errors
        text = str(details() if callable(details) else error) or type(error).__name__
        hint = "Check the proxies and brokers; sending is retried automatically, and nothing is lost."
        if "accept message type" in text or "message type" in text.lower():
            hint = _FIFO
        elif "route" in text:
            hint = f"{hint} {_FIFO}, if there is none."
        return QueueError(f"RocketMQ at {self._config.endpoints}: {text[:500]}", place=place, hint=hint)


def _too_large(message: Outgoing, most: int) -> QueueError:
    return QueueError(
        f"a message of {len(message.value)} bytes is larger than RocketMQ takes ({most})",
        place=f"{message.topic}:{message.partition}",
        hint="Raise maxMessageSize at the brokers and sluice.rocketmq.max.message.bytes, or leave the column out with "
        "canal.instance.filter.black.field. Nothing is lost: it is sent then.",
    )


def _loaded() -> Any:
    """RocketMQ's client, without the log file that it writes in the home directory."""
    client = required("rocketmq", "canal.serverMode=rocketMQ")
    logger = logging.getLogger("rocketmq-python-client")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(logging.NullHandler())
    return client
