"""Asks a server at intervals, over its own connection, whether it answers: Canal's MysqlDetectingTimeTask.

A heartbeat fails when the connection or the statement takes longer than the interval. `failover` decides what follows;
the heartbeat only calls `on_failed`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pymysql
import structlog

from cdc_core.errors import SluiceError
from cdc_core.source.connection import Connection, connect, source_error
from cdc_core.source.failover import FailoverRule, Step, after_beat
from cdc_core.source.settings import SourceSettings

_JOIN_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Heartbeat:
    """`active` is the server that is read, `other` the one to read instead, if there is one. `on_failed` is called with
    the reason, once: the heartbeat ends with it. The mutable state is the heartbeat thread's own; `failures`, in a row,
    may be read."""

    def __init__(
        self,
        name: str,
        rule: FailoverRule,
        active: SourceSettings,
        other: SourceSettings | None,
        on_failed: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failures = 0
        self._name, self._rule, self._active, self._other = name, rule, active, other
        self._on_failed, self._clock = on_failed, clock
        self._conn: Connection | None = None
        self._due = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat {name}", daemon=True)

    def __repr__(self) -> str:
        return f"<Heartbeat {self._name} failures={self.failures}>"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._due.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def hurry(self) -> None:
        """Beats now: the dump lost its server, so the first failure need not wait for the interval."""
        if not self.failures:
            self._due.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = self._clock()
            try:
                self._beat()
            except Exception:  # the next beat may succeed
                log.exception("a heartbeat raised an error", destination=self._name)
            wake = self._stop if self.failures else self._due  # failures in a row are an interval apart
            wake.wait(max(0.0, self._rule.seconds - (self._clock() - began)))
            self._due.clear()
        self._close()

    def _beat(self) -> None:
        active, other = self._active, self._other
        error = self._ask(active)
        if self._stop.is_set():
            return
        self.failures = self.failures + 1 if error else 0
        if error is None:
            return
        log.warning(
            "no heartbeat",
            destination=self._name,
            source=active.address,
            failures=self.failures,
            threshold=self._rule.threshold,
            why=error.message,
        )
        step = after_beat(self._rule, self.failures, other.address if other else "")
        if step is Step.ASK and other is not None:
            step = after_beat(self._rule, self.failures, other.address, self._answers(other))
        if step is Step.SWITCH:
            self._stop.set()
            self._on_failed(f"{self.failures} heartbeats failed in a row: {error.message}")

    def _ask(self, settings: SourceSettings) -> SluiceError | None:
        """The error with which the server fails to answer; None when it answers."""
        patient = self._limited(settings)
        try:
            if self._conn is None:
                self._conn = connect(patient)
            _execute(self._conn, self._rule.sql)
        except (pymysql.err.MySQLError, OSError) as error:
            self._close()
            return source_error(error, patient)
        except SluiceError as error:
            self._close()
            return error
        return None

    def _answers(self, other: SourceSettings) -> bool:
        try:
            with connect(self._limited(other)) as conn:
                _execute(conn, self._rule.sql)
        except (pymysql.err.MySQLError, OSError, SluiceError) as error:
            log.warning(
                "the other server does not answer", destination=self._name, source=other.address, why=str(error)
            )
            return False
        return True

    def _limited(self, settings: SourceSettings) -> SourceSettings:
        return replace(settings, connect_timeout=self._rule.seconds, so_timeout=self._rule.seconds)

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(Exception):
                conn._force_close()  # type: ignore[attr-defined]


def _execute(conn: Connection, sql: str) -> None:
    """Autocommit is on: the statement may read or write."""
    with conn.cursor() as cursor:
        cursor.execute(sql)
        cursor.fetchall()
