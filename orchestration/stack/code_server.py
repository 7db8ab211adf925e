"""`python -m orchestration.stack.code_server OPTIONS`: Dagster's code server, `dagster api grpc`, that forks its runs.

It forks a run's process from one that has imported what runs need. Dagster itself starts an interpreter for each run,
which imports all of that again: 3 to 4 seconds of a core.
"""

from __future__ import annotations

import gc
import sys

from orchestration.internals import dagster_command, fork_runs

_PRELOADED = "orchestration.stack.preloaded"
_NEW_OBJECTS = 50_000  # until the collector looks at them, instead of 700: imports make no garbage


def main() -> None:
    gc.set_threshold(_NEW_OBJECTS)
    fork_runs([_PRELOADED])
    dagster_command("api", "grpc", *sys.argv[1:])


if __name__ == "__main__":
    main()
