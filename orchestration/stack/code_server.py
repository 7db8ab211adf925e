"""`python -m orchestration.stack.code_server OPTIONS`: Dagster's code server, `dagster api grpc`, that forks its runs.

It forks a run's process from one that has imported what runs need. Dagster itself starts an interpreter for each run,
which imports all of that again: 3 to 4 seconds of a core.
"""

from __future__ import annotations

import sys

from orchestration.internals import dagster_command, fork_runs

_PRELOADED = ("orchestration.definitions", "dagster._grpc.server", "pyspark.sql.connect.session")


def main() -> None:
    fork_runs(_PRELOADED)
    dagster_command("api", "grpc", *sys.argv[1:])


if __name__ == "__main__":
    main()
