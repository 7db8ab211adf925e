"""A batch undone in a large table. Prints JSON.

`undo`: the seconds in which a batch of 1,000 rows, all over a table of 10,000,000 in the order of its key, is undone:
planned, noted and put. Its rows come from the table's versions before and after; `by_log` in the configuration is the
same with those of a change log. The first undo of each kind is not counted.

    python -m tests.bench.bench_undo [--scale 0.1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from unittest import mock

from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.following.pending import place_of
from spark_jobs.lake.corrections import Correction
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.noted import Span
from spark_jobs.session import Sessions
from spark_jobs.undo.commit import Corrector
from spark_jobs.undo.parts import past_part
from spark_jobs.undo.plan import Planner
from tests.bench.bench_history import SCHEMA
from tests.bench.bench_large_target import Table
from tests.bench.bench_service import report

ROWS, CHANGES = 10_000_000, 1_000


def undone(table: Table, sessions: Sessions, changes: int, *, by_log: bool) -> tuple[float, float]:
    """A batch is merged and undone. Returns the seconds of the plan, and those of all."""
    tables, name, low = ClientTables(table.lake, "bench", 1), SCHEMA.name, table.log.end
    table.merge(changes, scattered=True)
    span = Span(0, place_of(low), place_of(table.log.end))
    with mock.patch.object(ClientTables, "log", side_effect=tables.log if by_log else lambda _: None):
        began = time.perf_counter()
        planner = Planner(tables, lambda name: past_part(tables, name, span))
        corrector = Corrector(tables, sessions, planner)
        plan = planner.plan(name)
        planned = time.perf_counter() - began
        asked = Correction("undo", 0, span.start.version(), span.end.version(), reason="measured")
        made = corrector.correct(corrector.corrections.asked(asked, datetime.now(UTC)), plan)
        took = time.perf_counter() - began
    assert plan.part.origin == ("log" if by_log else "versions"), plan.part
    assert made.version, made
    return planned, took


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    rows, took = int(ROWS * given.scale), dict[bool, list[tuple[float, float]]]()
    with tempfile.TemporaryDirectory(prefix="bench-undo-") as directory:
        spark = SparkConnect(Path(directory) / "spark", free_port(), driver_memory="3g").start()
        try:
            with Sessions(spark.remote) as sessions:
                table = Table(Path(directory) / "lake", sessions, rows)
                for number in range(given.rounds + 1):
                    for by_log in (False, True):
                        seconds = undone(table, sessions, CHANGES, by_log=by_log)
                        if number:
                            took.setdefault(by_log, []).append(seconds)
        finally:
            spark.stop()
    (of_versions, of_log) = (median(all_ for _, all_ in took[way]) for way in (False, True))
    told = {"rows": rows, "changes": CHANGES, "limit": 20, "by_log": round(of_log, 2)}
    planned = [round(one, 2) for one, _ in took[False]]
    report(
        "undo", of_versions, "s", told | {"planned": planned, "seconds": [round(all_, 2) for _, all_ in took[False]]}
    )


if __name__ == "__main__":
    main()
