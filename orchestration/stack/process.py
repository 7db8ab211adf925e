"""A supervised child process: its own process group, a log file, a readiness probe, never orphaned.

Nothing restarts by itself: a child that has ended stays so until the next `start`. `keeping` starts it again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from cdc_core.errors import ErrorCode, SluiceError
from orchestration.stack.guard import Guard

_GUARD = Guard()


class ProcessError(SluiceError, code=ErrorCode.PROCESS):
    """A child process that did not become ready; place is its log file."""


class Process:
    """One child with all that it starts. `start` returns when `ready()` is true, `stop` when the group is gone.

    `environment` is laid over ours; a variable that is None is left out. `timeout` bounds the start, and `grace` is how
    long a group may take to end by itself, both in seconds.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str | None] | None = None,
        directory: Path | None = None,
        timeout: float = 240.0,
        grace: float = 20.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._ready = ready
        self._environment = dict(environment or {})
        self._directory = directory
        self._timeout = timeout
        self._grace = grace
        self._sleep = sleep
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Process {self.name} {'running' if self.running else 'stopped'}>"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self.running else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the child that ended last; below 0, the signal that killed it. None while one runs, or
        before the first."""
        return self._child.poll() if self._child is not None else None

    def start(self) -> Self:
        """Raises ProcessError with the log's last lines when the child ends or is not ready in time."""
        if self.running:
            return self
        self._spawn()
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Asks the group to end, and kills what has not ended within the grace. Idempotent."""
        self._end(signal.SIGTERM, self._grace)
        self.kill()

    def kill(self) -> None:
        """Ends the group at once, as a crash would."""
        self._end(signal.SIGKILL, 10.0)
        if self._child is not None:
            _GUARD.forget(self._child.pid)

    def tail(self, lines: int = 15) -> str:
        """The log's last lines, without the frames of Java's stack traces."""
        if not self.log.is_file():
            return ""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join([line for line in text if not line.startswith(("\tat ", "\t... "))][-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **self._environment}
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in environment.items() if value is not None},
                cwd=self._directory,
                start_new_session=True,
            )
        _GUARD.watch(self._child.pid)

    def _wait(self) -> None:
        deadline = self._clock() + self._timeout
        while not self._ready():
            if not self.running:
                raise self._failure(f"{self.name} ended with exit code {self._child and self._child.returncode}")
            if self._clock() > deadline:
                raise self._failure(f"{self.name} was not ready after {self._timeout:.0f} s")
            self._sleep(0.1)

    def _end(self, number: signal.Signals, seconds: float) -> None:
        if self._child is None or not _group_alive(self._child):
            return
        _signal_group(self._child.pid, number)
        deadline = self._clock() + seconds
        while _group_alive(self._child) and self._clock() < deadline:
            self._sleep(0.05)

    def _failure(self, message: str) -> ProcessError:
        return ProcessError(f"{message}:\n{self.tail()}", place=str(self.log), hint="Look into its log.")


def _signal_group(group: int, number: int) -> bool:
    """False when there is no such group."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _group_alive(child: subprocess.Popen[bytes]) -> bool:
    return child.poll() is None or group_runs(child.pid)


def group_runs(group: int) -> bool:
    """Returns whether a process of the group runs. One that has ended stays in its group until its parent reaps it; the
    new parent of an orphan, which may be the first process of a container, does so late or never."""
    return _signal_group(group, 0) and any(_runs_in(group, pid) for pid in psutil.pids())


def _runs_in(group: int, pid: int) -> bool:
    try:
        if os.getpgid(pid) != group:
            return False
        one = psutil.Process(pid)
        return one.status() != psutil.STATUS_ZOMBIE or one.num_threads() > 1  # its first thread may end before others
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False
