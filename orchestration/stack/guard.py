"""Ends process groups when the process that started them is gone, however it ended.

The parent's side is `Guard`. The guard itself is this file, run as a script with a pipe as its standard input: `+7` and
`-7` put process group 7 on the list and take it off. When the pipe closes, which a killed parent causes too, the guard
ends every group that is still listed. It needs the standard library alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

GRACE_SECONDS = 5.0


class Guard:
    """The guard process of this process, started with the first group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[str] | None = None

    def watch(self, group: int) -> None:
        self._send(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._send(f"-{group}\n")

    def _send(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
                self._process, self._owner = _launch(), os.getpid()  # after a fork the parent's guard is not ours
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()


def _launch() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    _signal(groups, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while groups and time.monotonic() < deadline:
        time.sleep(0.1)
        _signal(groups, 0)
    _signal(groups, signal.SIGKILL)


def _signal(groups: set[int], number: int) -> None:
    """Sends the signal to every group. A group that is gone leaves the set."""
    for group in list(groups):
        try:
            os.killpg(group, number)
        except OSError:
            groups.discard(group)


if __name__ == "__main__":
    main()
