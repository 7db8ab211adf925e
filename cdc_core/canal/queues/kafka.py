"""Kafka as a queue's broker: an idempotent producer, and the question what a partition has already.

A producer whose send failed in any way is thrown away; with `enable.gapless.guarantee` none sends what comes after a
message that failed. Source: librdkafka, CONFIGURATION.md; Kafka, "Producer Configs".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from cdc_core.canal.queues.messages import Outgoing
from cdc_core.canal.queues.place import HEADER, QueuePlace
from cdc_core.errors import ConfigError, QueueError

log = structlog.get_logger(__name__)
_SECONDS = 10.0  # for one question
_LOOK_SECONDS = 0.2  # between two looks whether to stop
_BACK = (1, 1000)  # how many of a partition's last messages are looked at for one of this writer
_MOST_BYTES = 1_000_000  # Kafka's own bound on a message
_TOO_LARGE = "Message size too large"  # as a fatal error has it
# Kafka's names of properties that librdkafka calls otherwise, or has no use for.
_RENAMED = {"max.request.size": "message.max.bytes"}
_NOT_NEEDED = frozenset(
    [
        "retries",
        "key.serializer",
        "value.serializer",
        "max.in.flight.requests.per.connection",
        "enable.idempotence",
        "acks",
        "buffer.memory",
        "max.block.ms",
        "transactional.id",
        "partitioner.class",
    ]
)
_TEXT_STORES = (
    "Convert the store to PEM files: kafka.ssl.ca.location, kafka.ssl.certificate.location, kafka.ssl.key.location."
)


def settings(properties: dict[str, str]) -> dict[str, Any]:
    """Kafka's properties as librdkafka takes them. Raises ConfigError for what it cannot do."""
    found: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:9092", "linger.ms": 5}
    for name, value in properties.items():
        if name.startswith("ssl.") and ("truststore" in name or "keystore" in name):
            raise ConfigError(
                f"kafka.{name} is a Java key store, which is not supported", place=f"kafka.{name}", hint=_TEXT_STORES
            )
        if name == "sasl.jaas.config":
            found |= _jaas(value)
        elif name not in _NOT_NEEDED:
            found[_RENAMED.get(name, name)] = value
    memory = _number(properties, "buffer.memory", 32 << 20)
    return found | {
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "message.timeout.ms": _number(properties, "delivery.timeout.ms", 0),  # 0: for as long as the broker is down
        "queue.buffering.max.kbytes": max(memory >> 10, 1024),
        "message.max.bytes": _number(found, "message.max.bytes", _MOST_BYTES),
        "log_level": 3,
    }


def _number(values: dict[str, Any], name: str, default: int) -> int:
    try:
        return int(values.get(name, default))
    except ValueError:
        raise ConfigError(
            f"{values[name]!r} is not a number", place=f"kafka.{name}", hint=f"Correct kafka.{name}."
        ) from None


def _jaas(text: str) -> dict[str, str]:
    """User and password of Java's login module."""
    words = dict(part.split("=", 1) for part in text.rstrip(";").split() if "=" in part)
    names = {"username": "sasl.username", "password": "sasl.password"}
    return {names[key]: value.strip("\"'") for key, value in words.items() if key in names}


class Kafka:
    """`writer` names this queue in its messages' headers. Not for several threads."""

    def __init__(self, properties: dict[str, str], writer: str) -> None:
        self._settings, self.writer = settings(properties), writer
        self.most_bytes = int(self._settings["message.max.bytes"])
        self._failed: tuple[KafkaError, str, int | None] | None = None
        self._trouble = ""
        self._producer: Any = _made(Producer, {**self._settings, "error_cb": self._told, "logger": _Quiet()})

    def __repr__(self) -> str:
        return f"<Kafka {self._settings['bootstrap.servers']}>"

    def _told(self, error: KafkaError) -> None:
        """Of the client itself: a broker that is down, most of all. It is tried again by itself."""
        self._trouble = error.str()
        if error.fatal():
            self._failed = self._failed or (error, "", None)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._trouble = ""
        elif self._failed is None:
            self._failed = error, message.topic(), message.partition()

    def reached(self, topic: str, partition: int) -> QueuePlace | None:
        """The place of the last message that this writer sent into a partition; None where there is none. Raises
        QueueError while the broker cannot say."""
        common = {
            key: value for key, value in self._settings.items() if key in _COMMON or key.startswith(("sasl", "ssl"))
        }
        consumer = _made(
            Consumer,
            {
                **common,
                "group.id": "sluice",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "logger": _Quiet(),
            },
        )
        try:
            return self._last(consumer, topic, partition)
        except KafkaException as error:
            failure = error.args[0]
            if failure.code() in (
                KafkaError.UNKNOWN_TOPIC_OR_PART,
                KafkaError._UNKNOWN_PARTITION,
                KafkaError._UNKNOWN_TOPIC,
            ):
                return None  # it may come into being with the first message
            raise self._error(failure, topic, partition) from error
        finally:
            consumer.close()

    def _last(self, consumer: Any, topic: str, partition: int) -> QueuePlace | None:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
        for back in _BACK if high > low else ():
            consumer.assign([TopicPartition(topic, partition, max(low, high - back))])
            if (found := self._newest(consumer)) is not None:
                return found
        return None

    def _newest(self, consumer: Any) -> QueuePlace | None:
        """The last place of this writer between where the consumer stands and the partition's end. The time is for each
        message: many may be large."""
        found, deadline = None, time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(_LOOK_SECONDS)
            if message is None:
                continue
            if message.error() is None:
                found, deadline = self._place(message) or found, time.monotonic() + _SECONDS
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(message.error())
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _place(self, message: Any) -> QueuePlace | None:
        for name, value in message.headers() or ():
            if name == HEADER:
                return QueuePlace.read(value, self.writer)
        return None

    def send(self, messages: Iterable[Outgoing], stopped: threading.Event, tell: Callable[[QueueError], None]) -> bool:
        """Whether the broker has all of them: it returns with them, or when `stopped` is set. Raises QueueError when
        the broker refuses one; `tell` gets what the wait is for."""
        producer, produce, writer = self._producer, self._producer.produce, self.writer
        for count, one in enumerate(messages):
            while True:
                try:
                    headers = [(HEADER, one.place.header(writer))]
                    produce(one.topic, one.value, partition=one.partition, headers=headers, on_delivery=self._delivered)
                    break
                except BufferError:
                    producer.poll(_LOOK_SECONDS)
                    self._check(tell)
                    if stopped.is_set():
                        return False
                except KafkaException as error:
                    raise self._error(error.args[0], one.topic, one.partition, len(one.value)) from error
            if not count % 1000:
                producer.poll(0)
                self._check(tell)
        while self._flush():
            if stopped.is_set():
                return False
            self._check(tell)
        self._check(tell)
        return True

    def _flush(self) -> int:
        """How many messages are not at the broker yet."""
        try:
            left: int = self._producer.flush(_LOOK_SECONDS)
        except KafkaException as error:  # a fatal one: the producer does nothing more
            if self._failed is None:
                self._failed = error.args[0], "", None
            raise self._error(*self._failed) from error
        return left

    def close(self) -> None:
        """What is not sent is thrown away."""
        with suppress(KafkaException):  # one that failed for good says so again
            self._producer.purge()
            self._producer.flush(1.0)

    def _check(self, tell: Callable[[QueueError], None]) -> None:
        if self._failed is not None:
            error, topic, partition = self._failed
            raise self._error(error, topic, partition)
        if self._trouble:
            tell(_away(self._trouble, str(self._settings["bootstrap.servers"])))

    def _error(self, error: KafkaError, topic: str, partition: int | None, size: int = 0) -> QueueError:
        place = f"{topic}:{partition}" if topic else str(self._settings["bootstrap.servers"])
        if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE) or _TOO_LARGE in error.str():
            what = f"a message{f' of {size} bytes' if size else ''} is larger than Kafka takes"
            hint = (
                "Raise kafka.max.request.size and the topic's max.message.bytes (a row is never cut), or leave the "
                "column out with canal.instance.filter.black.field. kafka.batch.size must be no larger than the "
                "topic's max.message.bytes. Nothing is lost: it is sent then."
            )
            return QueueError(what, place=place, hint=hint)
        if error.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            what = "there is no such topic or partition"
            hint = "Create it, or correct canal.mq.partitionsNum: the topic needs as many partitions."
            return QueueError(what, place=place, hint=hint)
        return _away(error.str(), place)


def _away(why: str, place: str) -> QueueError:
    hint = "Check the brokers; sending is retried automatically, and nothing is lost."
    return QueueError(f"Kafka: {why}", place=place, hint=hint)


_COMMON = frozenset(["bootstrap.servers", "security.protocol", "client.id", "request.timeout.ms"])


class _Quiet:
    """Takes the client's own log lines: what matters of them comes as errors."""

    def log(self, _level: int, line: str, *args: object) -> None:
        log.debug("kafka", line=line % args if args else line)


def _made(kind: Any, values: dict[str, Any]) -> Any:
    try:
        return kind(values)
    except KafkaException as error:
        raise ConfigError(
            f"the Kafka client rejects a property: {error.args[0].str()}",
            place="kafka.*",
            hint="Use the properties of librdkafka, or Kafka's names for them.",
        ) from None
