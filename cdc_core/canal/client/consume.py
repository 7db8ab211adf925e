"""The loop of a consumer: takes batches, hands their events to a handler, acks, and handles errors.

A batch is acked when the handler has taken all of it. When the handler fails it gets the same batch again, a few times;
then the consumer stops, or puts the batch aside and goes on, as its policy says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import structlog

from cdc_core.canal.client.connector import CanalConnector
from cdc_core.canal.client.events import Boundary, Change, Header, Message, Rows
from cdc_core.canal.client.handler import Handler
from cdc_core.canal.client.quarantine import Quarantine
from cdc_core.errors import ConfigError, ServiceUnavailable, SessionError
from cdc_core.retry import pause_after

log = structlog.get_logger(__name__)
_LONGEST_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Policy:
    """`batch_size` as the server counts. `wait_seconds`: how long a get waits for rows. `tries` of one batch, with
    pauses that double from `pause_seconds` on; what then happens. `quarantine` is the file for `skip`."""

    batch_size: int = 1000
    wait_seconds: float = 1.0
    tries: int = 3
    pause_seconds: float = 0.5
    then: Literal["stop", "skip"] = "stop"
    quarantine: Path | None = None

    def __post_init__(self) -> None:
        if self.tries < 1 or self.batch_size < 1:
            raise ConfigError("tries and batch_size must be 1 or more", place="Policy", hint="Correct them.")
        if self.then == "skip" and self.quarantine is None:
            hint = "Name the file that keeps the batches which the handler could not take."
            raise ConfigError("a policy that skips needs a quarantine", place="Policy", hint=hint)


class Consumer:
    """`tell` gets a line for each batch. `sleep` and `clock` (epoch seconds) are for tests."""

    def __init__(
        self,
        connector: CanalConnector,
        handler: Handler,
        policy: Policy | None = None,
        *,
        tell: Callable[[str], None] = lambda line: log.info(line),
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connector, self._handler, self._policy = connector, handler, policy or Policy()
        self._tell, self._sleep, self._clock = tell, sleep, clock
        self._quarantine = Quarantine(self._policy.quarantine) if self._policy.quarantine else None

    def __repr__(self) -> str:
        return f"<Consumer {self._connector!r}>"

    def run(self, stop: threading.Event | None = None, *, batches: int | None = None) -> int:
        """Until `stop` is set, or after so many batches; how many were done. Raises the handler's error when the policy
        is to stop; the batch is rolled back then. A server that is down is waited for."""
        try:
            return self._run(stop or threading.Event(), batches)
        except _Stopped as stopped:
            raise stopped.error from stopped.error.__cause__

    def _run(self, stop: threading.Event, batches: int | None) -> int:
        done, failures = 0, 0
        while not stop.is_set() and (batches is None or done < batches):
            try:
                message = self._connector.get_without_ack(self._policy.batch_size, self._policy.wait_seconds)
                if message.id != -1:
                    self._done(message)
                    done += 1
                failures = 0
            except (ServiceUnavailable, SessionError) as error:
                log.warning("the consumer reconnects", **error.as_dict())
                failures += 1
                self._sleep(pause_after(failures, self._policy.pause_seconds, _LONGEST_PAUSE))
                self._connect()
        return done

    def _connect(self) -> None:
        """A server that comes back refuses for a moment, as long as the destination is not there yet; a login that was
        right and no longer is one is an error."""
        try:
            self._connector.connect()
        except (ServiceUnavailable, SessionError) as error:
            if "auth failed" in error.message:
                raise
            log.warning("the consumer cannot connect", **error.as_dict())

    def _done(self, message: Message) -> None:
        """Hands the batch over and acks it. Raises _Stopped."""
        began, tally, error = self._clock(), _Tally(), None
        for attempt in range(self._policy.tries):
            if attempt:
                self._sleep(pause_after(attempt, self._policy.pause_seconds, _LONGEST_PAUSE))
            try:
                tally, error = self._handed_over(message), None
                break
            except Exception as failure:
                error = failure
                log.warning("a handler failed", batch_id=message.id, attempt=attempt + 1, error=repr(failure))
        if error is not None:
            self._failed(message, error)
        self._connector.ack(message.id)
        self._tell(tally.line(message, self._clock() - began, error))

    def _handed_over(self, message: Message) -> _Tally:
        tally = _Tally()
        for change in message.changes():
            self._handler.on_change(change)
            tally.count(change)
        self._handler.on_batch_end(message.id)
        return tally

    def _failed(self, message: Message, error: Exception) -> None:
        if self._policy.then == "skip" and self._quarantine is not None:
            self._quarantine.keep(message, error)
            return
        self._connector.rollback(message.id)
        raise _Stopped(error)


class _Stopped(Exception):
    """The policy is to stop: the error is the handler's."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class _Tally:
    """What a batch held."""

    rows: int = 0
    transactions: int = 0
    statements: int = 0
    first: Header | None = None
    last: Header | None = None

    def count(self, change: Change) -> None:
        if isinstance(change, Rows):
            self.rows += len(change)
        elif isinstance(change, Boundary):
            self.transactions += change.begins
        else:
            self.statements += 1
        self.first, self.last = self.first or change.header, change.header

    def line(self, message: Message, seconds: float, error: Exception | None) -> str:
        """`batch 7: 1000 rows, 3 transactions, 0 statements, 118 KB, 0.05 s, mysql-bin.000001:4 to ..., until ...`"""
        parts = [f"{self.rows} rows", f"{self.transactions} transactions", f"{self.statements} statements"]
        parts += [f"{message.nbytes / 1024:.0f} KB", f"{seconds:.2f} s"]
        if self.first and self.last:
            until = datetime.fromtimestamp(self.last.execute_time / 1000, UTC)
            parts.append(f"{self.first.place} to {self.last.place}, until {until:%Y-%m-%d %H:%M:%S} UTC")
        if error is not None:
            parts.append(f"put aside: {error}")
        return f"batch {message.id}: {', '.join(parts)}"
