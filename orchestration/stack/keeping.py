"""Processes that are kept running: one that ends is started again, after a pause that grows with each short life.

It gives up when a process cannot be started: `launch` or `wait` then raises that process's own error, whichever other
process suffered from it meanwhile. What others lose by a restart is theirs to repair.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from cdc_core.errors import SluiceError
from orchestration.stack.process import Process
from orchestration.stack.progress import Progress

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds before a process is started again
_LONG_LIFE = 120.0  # seconds of life after which the next pause is the first one again
_TRIES, _TRY_SECONDS = 3, 60.0  # of starts that fail one after the other, none of which begins later than that
_LOOK_SECONDS = 0.25
_JOIN_SECONDS = 0.5


class Keeping:
    """Starts processes one after the other and keeps them running until `parts` is closed. Safe to use from one
    thread."""

    def __init__(self, parts: ExitStack, progress: Progress, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._progress = progress
        self._clock = clock
        self._kept: list[_Kept] = []

    def launch(self, label: str, *processes: Process) -> None:
        """Starts them in this order as one step of the progress. `parts` stops them, also when their start fails."""
        with self._progress.step(label):
            for process in processes:
                kept = _Kept(process, self._progress.say, self._clock)
                self._kept.append(kept)
                self._parts.callback(kept.stop)
                kept.begin()
                while not kept.started.wait(_LOOK_SECONDS):
                    self.check()
                self.check()

    def restart(self, process: Process) -> None:
        """Ends a process, which is started again at once."""
        next(kept for kept in self._kept if kept.process is process).restart()

    def check(self) -> None:
        """Raises the error of a process that could not be started."""
        for kept in self._kept:
            if kept.error is not None:
                raise kept.error

    def wait(self, seconds: float) -> None:
        """Returns after that time. Raises the error of a process that cannot be started again."""
        until = self._clock() + seconds
        while self._clock() < until:
            self.check()
            time.sleep(_LOOK_SECONDS)


class _Kept:
    """One process, and the thread that keeps it running."""

    def __init__(self, process: Process, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self.process = process
        self.started = threading.Event()
        self.error: BaseException | None = None
        self._say = say
        self._clock = clock
        self._ended = threading.Event()
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"keeping {process.name}", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def restart(self) -> None:
        self._wanted.set()

    def stop(self) -> None:
        """Ends the process, also in the middle of its start."""
        self._ended.set()
        self.process.stop()
        while self._thread.is_alive():  # it may have begun a start just then
            self._thread.join(_JOIN_SECONDS)
            self.process.stop()
        self.process.stop()

    def _run(self) -> None:
        try:
            self._start()
            self.started.set()
            self._keep()
        except BaseException as error:
            if not self._ended.is_set():
                self.error = error
            self.started.set()

    def _keep(self) -> None:
        pause, began = _FIRST_PAUSE, self._clock()
        while not self._ended.wait(_LOOK_SECONDS):
            if self._wanted.is_set():
                self._wanted.clear()
                self.process.stop()
                self._start()
                began = self._clock()
            elif not self.process.running:
                pause = _FIRST_PAUSE if self._clock() - began > _LONG_LIFE else pause
                self._say(f"[yellow]![/yellow] {_end_of(self.process)}; it starts again in {pause:.0f} s")
                if self._ended.wait(pause):
                    return
                pause = min(2 * pause, _LONGEST_PAUSE)
                self._start(again=True)
                began = self._clock()

    def _start(self, *, again: bool = False) -> None:
        """Starts the process, again if it ends meanwhile. Raises its error after some tries, or when it takes long."""
        began, pause = self._clock(), _FIRST_PAUSE
        for tried in range(1, _TRIES + 1):
            self.process.kill()  # what a leader that was killed has left of its group
            try:
                self.process.start()
            except SluiceError:
                if tried == _TRIES or self._clock() - began > _TRY_SECONDS or self._ended.is_set():
                    raise
                self._say(f"[yellow]![/yellow] {_end_of(self.process)} during its start; again in {pause:.0f} s")
                if self._ended.wait(pause):
                    raise
                again, pause = True, 2 * pause
            else:
                if again:
                    self._say(f"[green]✓[/green] {self.process.name} runs again")
                return


def _end_of(process: Process) -> str:
    code = process.exit_code
    if code is not None and code < 0:
        return f"{process.name} was killed by {signal.Signals(-code).name}"
    return f"{process.name} ended with exit code {code}"
