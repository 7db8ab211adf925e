"""A capture's health: its present error, since when it has it, and how long to wait before the next attempt.

An error of the dump stays until events are read past it. An error of a client's call (rows that cannot be read, a
cursor that cannot be written) stays until the same call succeeds. A new error is logged, but not one of a capture that
is being stopped: its threads and clients meet what the stop has closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import structlog

from cdc_core.contract.status import ErrorReport
from cdc_core.errors import DecodeError, SchemaError, SluiceError, SourceUnavailable, naming
from cdc_core.source.dump import DumpStatus

_PROVEN_SECONDS = 3.0  # a connection this old has outlived the error before it
_NO_CLIENT = -1  # for errors of the capture itself

log = structlog.get_logger(__name__)


class Health:
    """`clock` is in epoch seconds, as `since` is. `pauses` are the shortest and the longest pause between two attempts,
    in seconds. Any thread may call `note`, `acked` and `end`; the dump thread calls the rest."""

    def __init__(self, destination: str, clock: Callable[[], float], pauses: tuple[float, float]) -> None:
        self._destination = destination
        self.parse_errors = 0
        self._error: ErrorReport | None = None
        self._clock = clock
        self._pauses = pauses
        self._pause = pauses[0]
        self._connected_at: float | None = None
        self._others: dict[tuple[int, str], tuple[ErrorReport, int]] = {}
        self._lock = threading.Lock()  # guards `_others`
        self._lost: ErrorReport | None = None
        self._ended = False

    @property
    def error(self) -> ErrorReport | None:
        """Why the dump ended; None once a connection has outlived it, even at a quiet source."""
        return None if self._proven() else self._error

    def _proven(self) -> bool:
        return self._connected_at is not None and self._clock() - self._connected_at > _PROVEN_SECONDS

    def failed(self, error: Exception) -> float:
        """Notes why the dump ended. Returns the seconds until the next attempt; each error in a row doubles them."""
        if self._proven():
            self.progressed()
        self._error = self._report(error, self._error)
        self.parse_errors += isinstance(error, DecodeError | SchemaError)
        self._connected_at = None
        pause, self._pause = self._pause, min(self._pause * 2, self._pauses[1])
        self._log("destination failed", error, self._error, again=pause)
        return pause

    def end(self) -> None:
        """The capture is being stopped."""
        self._ended = True

    def connected(self) -> None:
        self._connected_at, self._lost = self._clock(), None

    def lost(self, error: SluiceError, seconds: float) -> None:
        """Notes why the connection was lost; the next attempt comes in `seconds`."""
        before, self._lost = self._lost, self._report(error, self._lost)
        if self._lost != before:
            self._log("source away", error, self._lost, again=round(seconds, 1))

    def progressed(self) -> None:
        """Notes that events were read: the error of the dump is over."""
        self._error, self._pause = None, self._pauses[0]

    def note(self, client_id: int, what: str, error: Exception | None, batch_id: int = 0) -> None:
        """Notes how a client's call went. `what` names the failure: its next success ends it. None is a success."""
        with self._lock:
            before, _ = self._others.pop((client_id, what), (None, 0))
            if error is None:
                return
            report = self._report(error, before)
            self._others[client_id, what] = report, batch_id
            if report == before:
                return
            self.parse_errors += isinstance(error, DecodeError | SchemaError)
        self._log(what, error, report, client=client_id)

    def note_cursors(self, error: Exception | None) -> None:
        """Notes whether cursors can be written; None: they can."""
        self.note(_NO_CLIENT, "the cursor stands still", error)

    def acked(self, client_id: int, batch_id: int) -> None:
        """Ends the errors of the client's batches up to this one."""
        with self._lock:
            self._others = {
                key: (report, of_batch)
                for key, (report, of_batch) in self._others.items()
                if key[0] != client_id or of_batch > batch_id
            }

    def state(self, dump: DumpStatus) -> str:
        """`starting`, `running` or `failed`."""
        if self.error is not None or (dump.trouble and not dump.connected):
            return "failed"
        return "running" if dump.connected else "starting"

    def current_error(self, dump: DumpStatus) -> ErrorReport | None:
        """The error that the status shows, the dump's before the clients'."""
        if self.error is None and dump.trouble and not dump.connected and self._lost:
            return self._lost
        return self.error or next((report for report, _ in list(self._others.values())), None)

    def unconnected(self, state: str, dump: DumpStatus) -> SluiceError:
        """Return the error for a client that calls before there is a connection."""
        error = self.current_error(dump)
        return SourceUnavailable(
            f"destination {self._destination} is {state}: {error.message if error else 'it has not connected yet'}",
            place=error.place if error else "",
            hint=error.hint if error else "Call again.",
        )

    def _log(self, what: str, error: Exception, report: ErrorReport, **more: object) -> None:
        unexpected = not isinstance(error, SluiceError)
        if self._ended and not unexpected:
            return
        log.error(what, destination=self._destination, **report.to_dict(), **more, exc_info=unexpected)

    def _report(self, error: Exception, before: ErrorReport | None) -> ErrorReport:
        """The error's report; `before` itself when it reports the same error, so that `since` stays."""
        report = ErrorReport.of(error, self._clock())
        report = replace(report, hint=naming(report.hint, self._destination))
        return before if before is not None and report.same_as(before) else report
