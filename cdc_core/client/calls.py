"""HTTP calls to the service, at a fixed address or at the server that runs the destination.

When a connection breaks, a call that is safe to repeat is repeated for a moment. With a finder, a call leaves a server
that does not answer or stands by for the one that ZooKeeper names, and looks for it for a bounded time: a take-over
lasts about a ZooKeeper session. Claims do not survive a take-over, so any call may be made again at the next server.
Without a finder the same server is called again while it says that no server runs the destination.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from cdc_core.client.failures import unavailable
from cdc_core.client.finder import Finder
from cdc_core.client.trust import Trust
from cdc_core.contract.doors import Doors
from cdc_core.errors import CursorError, RunsElsewhere, RunsNowhere, ServiceUnavailable, SluiceError, error_from

_PAUSES = (0.1, 0.4, 1.0)  # seconds before each repetition after a broken connection
_LOOKS = (0.2, 0.5, 1.0)  # seconds between two searches for the active server; the last pause repeats

Accept = Callable[[Any], None]


class Calls:
    """`doors` is where to call; None asks `finder`. `follow_seconds` bounds the search for the active server. Several
    threads may use it; the mutable state is the doors of the last call."""

    def __init__(
        self,
        doors: Doors | None,
        finder: Finder | None = None,
        *,
        token: str | None = None,
        trust: Trust | None = None,
        timeout_seconds: float = 30.0,
        follow_seconds: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        context = (trust or Trust()).context()
        self._http = httpx.Client(headers=headers, timeout=timeout_seconds, trust_env=False, verify=context)
        self._doors = doors
        self._finder = finder
        self._timeout = timeout_seconds
        self._follow = follow_seconds
        self._sleep = sleep
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def follows(self) -> bool:
        return self._finder is not None

    @property
    def doors(self) -> Doors:
        """Where calls go. Raises what the finder raises when no server is found in time."""
        with self._lock:
            if self._doors is None:
                self._doors = self._look(None, self._clock() + self._follow)
            return self._doors

    def servers(self) -> list[str]:
        """The HTTP door of every server, whatever it runs; the fixed one without a finder."""
        return [self.doors.http] if self._finder is None else [doors.http for doors in self._finder.servers()]

    def close(self) -> None:
        self._http.close()
        if self._finder is not None:
            self._finder.close()

    def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        repeat: bool = True,
        patience: float | None = None,
        accept: Accept | None = None,
    ) -> Any:
        """The answer's JSON, None for 204.

        Without `repeat` a call is made again only if it was never sent, or at another server. `patience` is the
        time-out in seconds. `accept` may raise to refuse an answer. Raises ServiceUnavailable, RunsElsewhere,
        RunsNowhere, and every error that the service answers with."""
        deadline = self._clock() + self._follow
        while True:
            doors = self.doors
            try:
                answer = self._call_at(doors.http, method, path, body, repeat, patience or self._timeout)
                if accept is not None:
                    accept(answer)
                return answer
            except (RunsElsewhere, RunsNowhere, ServiceUnavailable) as error:
                refused = not isinstance(error, ServiceUnavailable)
                if self._finder is not None:
                    undone = repeat or refused or isinstance(error.__cause__, httpx.ConnectError)
                    self._leave(doors, deadline, error, undone=undone)
                elif isinstance(error, RunsNowhere) and self._clock() < deadline:
                    self._sleep(_LOOKS[0])
                else:
                    raise

    def call_at(self, url: str, method: str, path: str, *, patience: float) -> Any:
        """The JSON of one server's answer to a call that may be repeated. Raises what it answers with."""
        return self._call_at(url, method, path, None, True, patience)

    def _call_at(
        self, url: str, method: str, path: str, body: dict[str, Any] | None, repeat: bool, patience: float
    ) -> Any:
        for pause in (*_PAUSES, None):
            try:
                return _read(url, self._http.request(method, url + path, json=body, timeout=patience))
            except httpx.TransportError as error:
                sent = not isinstance(error, httpx.ConnectError)
                if pause is None or isinstance(error, httpx.TimeoutException) or (sent and not repeat):
                    raise unavailable(url, error or type(error).__name__) from error
                self._sleep(pause)
        raise AssertionError("the last pause is None")

    def _leave(self, doors: Doors, deadline: float, error: SluiceError, *, undone: bool) -> None:
        """Finds the doors of the next try. Raises `error` when no server is found in time. `undone` means that the
        call was not done or may be done twice: then the same server will do if ZooKeeper still names it."""
        with self._lock:
            if self._doors != doors:
                return  # another thread has found it
            try:
                self._doors = self._look(None if undone else doors, deadline, first=_LOOKS[0])
            except SluiceError as failed:
                raise error from failed

    def _look(self, but: Doors | None, deadline: float, first: float = 0.0) -> Doors:
        """Asks the finder until it names doors other than `but`."""
        assert self._finder is not None
        pauses = iter(_LOOKS)
        pause = first
        while True:
            if pause and self._clock() + pause > deadline:
                raise unavailable(self._finder.hosts, "no other server took over in time")
            self._sleep(pause)
            pause = next(pauses, _LOOKS[-1])
            try:
                found = self._finder.find()
            except (ServiceUnavailable, RunsElsewhere, CursorError):
                if self._clock() + pause > deadline:
                    raise
                continue
            if found != but:
                return found


def _read(url: str, answer: httpx.Response) -> Any:
    if answer.status_code == httpx.codes.NO_CONTENT:
        return None
    try:
        body = answer.json()
    except ValueError as error:
        raise SluiceError(
            f"this is not an answer of the service: {answer.status_code} {answer.text[:200]!r}",
            place=url,
            hint="Give the address of the service's HTTP door.",
        ) from error
    if answer.is_success:
        return body
    raise error_from(body)
