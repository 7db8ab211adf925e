"""One destination into its queue: claims, sends, acks, in this order, for ever.

A claim is acked when the broker has all of its messages. After any failure it is given back, the broker's client is
thrown away, and a new one asks what each partition has, so that what was sent already is left out.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import structlog

from cdc_core.canal.queues.broker import Broker, connected
from cdc_core.canal.queues.messages import ClaimFacts, Messages, Outgoing
from cdc_core.canal.queues.place import Numbering, QueuePlace
from cdc_core.canal.queues.rules import TopicRules
from cdc_core.canal.tcp.encoders import Encoders
from cdc_core.compiled.kernel import Bytes
from cdc_core.config.queue import QueueConfig
from cdc_core.contract.claim import Claim
from cdc_core.destination.runner import Destination
from cdc_core.destination.service import QUEUE, CanalService
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import ConfigError, QueueError, SluiceError

log = structlog.get_logger(__name__)
_PAUSES = (0.5, 10.0)  # seconds between attempts
_LEASE = 10 * 365 * 86400.0  # seconds: nobody else claims as this client
_LEAST_BYTES, _LEAST_ROWS = 1 << 20, 10_000  # of a claim, if so much waits: Canal's default batch is small
_WAIT_SECONDS = 0.5
_WHAT = "the message queue"


class Feeder:
    """A thread between `start` and `stop`. `connect` makes the broker's client."""

    def __init__(
        self, destination: Destination, traffic: Traffic, connect: Callable[[QueueConfig, str], Broker] = connected
    ) -> None:
        self._destination, self._traffic, self._connect = destination, traffic, connect
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"queue {destination.name}", daemon=True)
        self._encoders = Encoders()
        self._line: _Line | None = None
        self._seen = -1
        self._numbered: tuple[object, Numbering] = None, Numbering()  # of a capture's sessions, up to the last ack

    def __repr__(self) -> str:
        return f"<Feeder {self._destination.name}>"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What is outstanding comes again after the next start."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        pause = _PAUSES[0]
        while not self._stopped.is_set():
            try:
                service = self._ready()
            except Exception as error:  # most often: it runs elsewhere, or does not read yet; its status says so
                self._unexpected(error)
                self._begin_anew()
                self._stopped.wait(_WAIT_SECONDS)
                continue
            try:
                if self._fed(service):
                    pause = _PAUSES[0]
            except Exception as error:
                self._unexpected(error)
                self._begin_anew()
                self._stopped.wait(pause)
                pause = min(2 * pause, _PAUSES[1])
        self._begin_anew()

    def _unexpected(self, error: Exception) -> None:
        if not isinstance(error, SluiceError):
            log.error("a message queue failed", destination=self._destination.name, exc_info=error)

    def _begin_anew(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            try:
                line.broker.close()
            except Exception:  # of a client that is thrown away
                log.exception("a broker's client could not be closed", destination=self._destination.name)

    def _ready(self) -> CanalService:
        """The destination's service, with the queue as a client. Raises its refusal."""
        service = self._destination.service()
        if service.config.queue is None:
            raise ConfigError("no message queue is configured", place=self._destination.name, hint="Reload it.")
        if service.config.queue.client_id not in service.clients():
            service.subscribe(service.config.queue.client_id, entries=True)
        return service

    def _fed(self, service: CanalService) -> bool:
        """Sends the next claim; False when there was none within the time."""
        config = service.config.queue
        assert config is not None
        claim = self._claim(service, config)
        if claim is None:
            self._seen, _ = service.await_change(self._seen, _WAIT_SECONDS)
            return False
        began = time.monotonic()
        try:
            line = self._line_of(service, config)
            if not self._sent(service, line, claim):
                self._give_back(service, claim, "the service stops")
                return False
        except Exception as error:
            self._give_back(service, claim, f"it cannot be sent: {error}")
            service.health.note(config.client_id, _WHAT, error, claim.batch_id)
            raise
        service.ack(claim.client_id, claim.batch_id, QUEUE)
        self._numbered = service.sessions, line.numbering
        self._traffic.took(self._destination.name, (time.monotonic() - began) * 1000)
        return True

    def _claim(self, service: CanalService, config: QueueConfig) -> Claim | None:
        """`canal.mq.canalBatchSize` counts rows or memory units, as the batch mode says."""
        instance = service.config
        rows, nbytes = max(config.batch_size, _LEAST_ROWS), 64 << 20
        if instance.batch_mode == "MEMSIZE":
            rows, nbytes = 1 << 31, max(config.batch_size * instance.buffer_memunit, _LEAST_BYTES)
        return service.claim(config.client_id, rows, 0.0, QUEUE, _LEASE, nbytes, entries=True)

    def _line_of(self, service: CanalService, config: QueueConfig) -> _Line:
        """The way to the broker, made again with the configuration and with the capture."""
        line = self._line
        if line is None or line.service is not service.sessions or line.config != config:
            self._begin_anew()
            broker = self._connect(config, _writer(self._destination.name, service))
            line = self._line = _Line(config, service.sessions, broker)
        return line

    def _sent(self, service: CanalService, line: _Line, claim: Claim) -> bool:
        """Whether all messages of the claim are at the broker; False when the service stops."""
        slices = service.slices(claim.client_id, claim.batch_id)
        pieces = self._encoders.of(service, claim.client_id).pieces(slices, claim.start.gtid)
        of, numbering = self._numbered
        if of is not service.sessions:  # a new capture claims from the cursor on, where a transaction begins
            numbering = Numbering()
        sending = line.messages_of(claim, pieces, numbering, self._count)

        def tell(error: QueueError) -> None:
            service.health.note(claim.client_id, _WHAT, error, claim.batch_id)

        return line.broker.send(sending, self._stopped, tell)

    def _count(self, message: Outgoing) -> None:
        self._traffic.sent(self._destination.name, "MESSAGES", len(message.value))

    def _give_back(self, service: CanalService, claim: Claim, why: str) -> None:
        with suppress(SluiceError):  # the capture may be gone, and the claim with it
            service.rollback(claim.client_id, claim.batch_id, QUEUE, why)


class _Line:
    """A broker's client, what it has of each partition, and the numbering after what was made of a claim."""

    def __init__(self, config: QueueConfig, service: object, broker: Broker) -> None:
        self.config, self.service, self.broker = config, service, broker
        self._messages = Messages(TopicRules(config), flat=config.flat_message, most_bytes=broker.most_bytes)
        self._reached: dict[tuple[str, int], QueuePlace | None] = {}
        self.numbering = Numbering()

    def messages_of(
        self, claim: Claim, pieces: Iterator[Bytes], numbering: Numbering, count: Callable[[Outgoing], None]
    ) -> Iterator[Outgoing]:
        """`numbering`: of the last entry before the claim."""
        self.numbering = numbering
        facts = ClaimFacts(claim.batch_id, time.time_ns() // 1_000_000, claim.epoch)
        for piece in pieces:
            found, self.numbering = self._messages.of(piece, facts, self.numbering, self._reached_of)
            for message in found:
                count(message)
                yield message

    def _reached_of(self, topic: str, partition: int) -> QueuePlace | None:
        """Asked once of each partition: what this client sends comes after it."""
        key = topic, partition
        if key not in self._reached:
            self._reached[key] = self.broker.reached(topic, partition)
        return self._reached[key]


def _writer(destination: str, service: CanalService) -> str:
    """Names the destination and what decides which messages there are: with other rules the partitions' ends say
    nothing about what was sent."""
    config = service.config
    rules = config.model_dump_json(include=_DECIDING) + repr(config.queue) + service.filter_of(_client(service))
    return f"{destination}/{_client(service)}/{zlib.crc32(rules.encode()):08x}"


def _client(service: CanalService) -> int:
    return service.config.queue.client_id if service.config.queue else 0


_DECIDING = {
    "filter_regex",
    "filter_black_regex",
    "filter_field",
    "filter_black_field",
    "filter_query_dcl",
    "filter_query_dml",
    "filter_query_ddl",
    "filter_table_error",
    "filter_rows",
    "filter_transaction_entry",
    "filter_dml_insert",
    "filter_dml_update",
    "filter_dml_delete",
    "ddl_entries",
}
