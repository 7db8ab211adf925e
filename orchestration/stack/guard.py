"""Ends process groups when the one who started them is gone, however it went.

Run as `python guard.py` with a pipe as standard input: `+7` and `-7` put process group 7 on the list and take it off;
the pipe's end, which a killed parent brings about too, ends every group still listed. Uses the standard library alone.
"""

from __future__ import annotations

import os
import signal
import sys
import time

GRACE_SECONDS = 5.0


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    end(groups, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while groups and time.monotonic() < deadline:
        time.sleep(0.1)
        end(groups, 0)
    end(groups, signal.SIGKILL)


def end(groups: set[int], number: int) -> None:
    """Sends the signal; groups that are gone leave the set."""
    for group in list(groups):
        try:
            os.killpg(group, number)
        except OSError:
            groups.discard(group)


if __name__ == "__main__":
    main()
