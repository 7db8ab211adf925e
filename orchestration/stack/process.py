"""A supervised child process: its own process group, a log file, ready when its probe says so, never orphaned.

Does not restart anything: what dies stays dead until somebody calls `start` again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from cdc_core.errors import SluiceError
from orchestration.stack import guard as guard_module


class ProcessError(SluiceError):
    """A child process that did not become ready; place is its log file."""


class Process:
    """One child and all that it starts. `start` returns when `ready()` is true; `stop` when the group is gone."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        timeout: float = 90.0,
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

    def start(self) -> Self:
        """Raises ProcessError with the log's last lines when the child ends or does not get ready in time."""
        if self.running:
            return self
        self._spawn()
        deadline = self._clock() + self._timeout
        while not self._ready():
            if not self.running:
                raise self._failure(f"{self.name} ended with exit code {self._child and self._child.returncode}")
            if self._clock() > deadline:
                self.stop()
                raise self._failure(f"{self.name} was not ready after {self._timeout:.0f} s")
            self._sleep(0.1)
        return self

    def stop(self) -> None:
        """Asks the group to end, then makes it. Idempotent."""
        self._end(signal.SIGTERM, self._grace)
        self._end(signal.SIGKILL, 10.0)
        self._forget()

    def kill(self) -> None:
        """Ends the group at once, as a crash would."""
        self._end(signal.SIGKILL, 10.0)
        self._forget()

    def tail(self, lines: int = 15) -> str:
        """The log's last lines."""
        if not self.log.is_file():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
                cwd=self._directory,
                start_new_session=True,
            )
        _GUARD.watch(self._child.pid)

    def _end(self, number: signal.Signals, seconds: float) -> None:
        if self._child is None or not _group_alive(self._child):
            return
        _signal_group(self._child.pid, number)
        deadline = self._clock() + seconds
        while _group_alive(self._child) and self._clock() < deadline:
            self._sleep(0.05)

    def _forget(self) -> None:
        if self._child is not None:
            _GUARD.forget(self._child.pid)

    def _failure(self, message: str) -> ProcessError:
        return ProcessError(f"{message}:\n{self.tail()}", place=str(self.log), hint="The log says why.")


class _Guard:
    """The one guard process of this process, started with the first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[str] | None = None

    def watch(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
                self._process, self._owner = self._launch(), os.getpid()
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _launch(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-S", str(Path(guard_module.__file__))]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip


_GUARD = _Guard()


def watch(group: int) -> None:
    """Has the guard end this process group when we are gone. For children that were not started by `Process`."""
    _GUARD.watch(group)


def forget(group: int) -> None:
    """Takes it off the guard's list."""
    _GUARD.forget(group)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _group_alive(child: subprocess.Popen[bytes]) -> bool:
    child.poll()  # reaps the leader, which would otherwise stay in its group as a zombie
    return _signal_group(child.pid, 0)
