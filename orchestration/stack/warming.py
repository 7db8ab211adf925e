"""Warms Spark while other servers start. Its failure is a warning of the progress.

Runs of the stack wait for it, within a bound: `warmth`. It ends at once when a batch has been claimed, which then needs
Spark more.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import httpx
from rich.markup import escape

from cdc_core.client.trust import Trust
from cdc_core.errors import SluiceError
from orchestration.stack.progress import Progress
from orchestration.warmth import VARIABLE, marked

_LOOK_SECONDS = 1.0  # between looks for a claim
_END_SECONDS, _ENDS = 0.5, 10  # how long, and how often, a statement that is under way is asked to end
FOLDER, _MARK = "warming", "warming.mark"


class Work(Protocol):
    """`end` makes `run` return soon, and may have to be called again."""

    def run(self) -> None: ...
    def end(self) -> None: ...


class Warming:
    """The Spark at `remote`, on a table in `folder`, which is its own and is removed. `claimed` says whether a batch is
    being applied."""

    def __init__(
        self,
        remote: str,
        folder: Path,
        progress: Progress,
        claimed: Callable[[], bool],
        work: Callable[[str, Path], Work] | None = None,
    ) -> None:
        self._remote = remote
        self._folder = folder
        self._mark = folder.with_name(_MARK)
        self._progress = progress
        self._claimed = claimed
        self._make = work or _warm_up
        self._work: Work | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warming", daemon=True)
        self._watch = threading.Thread(target=self._look, name="warming-watch", daemon=True)

    @property
    def environment(self) -> dict[str, str]:
        """By which the processes of runs find the mark of the warm-up."""
        return {VARIABLE: str(self._mark)}

    def start(self) -> None:
        self._thread.start()
        self._watch.start()

    def stop(self) -> None:
        """Returns in seconds, also while a statement is under way that does not end: it fails when Spark does."""
        self._ended.set()
        for _ in range(_ENDS):
            if self._work is not None:
                self._work.end()
            if self.join(_END_SECONDS):
                return

    def join(self, seconds: float) -> bool:
        """Whether it is through within that time, or was not begun."""
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def clean(self) -> None:
        """Removes what one left that was killed, or whose last statement wrote until Spark's end."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._mark.unlink(missing_ok=True)

    def _run(self) -> None:
        began = time.monotonic()
        with suppress(OSError), marked(self._mark):
            self._warm(began)

    def _warm(self, began: float) -> None:
        try:
            self._work = self._make(self._remote, self._folder)
            if self._ended.is_set():
                return
            self._work.run()
        except Exception as error:
            if not self._ended.is_set():
                words = error.message if isinstance(error, SluiceError) else f"{type(error).__name__}: {error}"
                text = f"Spark is not warm, so the first batch takes longer: {escape(words[:300])}"
                self._progress.say(f"[yellow]![/yellow] {text}")
            return
        if not self._ended.is_set():
            self._progress.say(f"[green]✓[/green] Spark is warm [dim]{time.monotonic() - began:.1f} s[/dim]")

    def _look(self) -> None:
        while not self.join(_LOOK_SECONDS) and not self._ended.is_set():
            if self._claimed():
                self._progress.say("a batch has come: the warm-up of Spark ends")
                self.stop()


def holds_claims(service: str, token: str = "", ca: str = "") -> bool:
    """Whether a client of the service has a batch. Of one that does not answer, or refuses to say, none has."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with suppress(httpx.HTTPError, ValueError, LookupError, TypeError):
        url, trusted = f"{service}/v1/destinations", Trust(ca).context()
        answer = httpx.get(url, headers=headers, timeout=5, trust_env=False, verify=trusted)
        found = answer.raise_for_status().json()
        return any(client["claims"] for status in found for client in status["clients"])
    return False


def _warm_up(remote: str, folder: Path) -> Work:
    from spark_jobs.warming.warm_up import WarmUp  # loads all of pyspark

    return WarmUp(remote, folder)
