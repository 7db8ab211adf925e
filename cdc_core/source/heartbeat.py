"""Asks a server whether it answers, over a connection of its own, every so often: Canal's MysqlDetectingTimeTask.

What does not answer within an interval has failed, whether the connection or the statement hangs. `detecting`
decides; all that is done about it is to call `switch`.
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
from cdc_core.source.detecting import Rule, Step, after_beat
from cdc_core.source.settings import SourceSettings

_JOIN_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Heartbeat:
    """`servers` gives the settings of the server that is read, and of the other one, if there is one. `switch` is
    called with the address that failed and why. The mutable state is the heartbeat thread's own; `failures` may be
    read."""

    def __init__(
        self,
        name: str,
        rule: Rule,
        servers: Callable[[], tuple[SourceSettings, SourceSettings | None]],
        switch: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failures = 0
        self._name, self._rule, self._servers, self._switch, self._clock = name, rule, servers, switch, clock
        self._conn: Connection | None = None
        self._asked = ""
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
        """The dump lost its server: no need to wait for the first beat that fails."""
        if not self.failures:
            self._due.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = self._clock()
            try:
                self._beat()
            except Exception:  # whatever it is, the next beat may go well
                log.exception("the heartbeat stumbled", destination=self._name)
            wake = self._stop if self.failures else self._due  # failures in a row are an interval apart
            wake.wait(max(0.0, self._rule.seconds - (self._clock() - began)))
            self._due.clear()
        self._close()

    def _beat(self) -> None:
        active, other = self._servers()
        if active.address != self._asked:
            self._close()
            self.failures, self._asked = 0, active.address
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
            self._switch(active.address, f"{self.failures} heartbeats failed in a row: {error.message}")

    def _ask(self, settings: SourceSettings) -> SluiceError | None:
        """Why it does not answer; None when it does."""
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
            log.warning("the other server is away", destination=self._name, source=other.address, why=str(error))
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
    """Reads or writes, as the statement says; autocommit is on."""
    with conn.cursor() as cursor:
        cursor.execute(sql)
        cursor.fetchall()
