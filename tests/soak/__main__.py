"""Runs random scripts of DDL and DML for some minutes. A script that goes wrong is printed, made as short as it gets.
With --snapshots: snapshots under random DML; with --sessions: what statements mean in sessions of every state; with
--sources: a source that is reset, set back and restored. These need no Spark. With --week: a whole stack, whose times
are fast, and what grows in it.

Exit status: 0 when every script ended in a clean comparison, else 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from tests.soak import week
from tests.support.ddl_soak import fresh, renamed, shrunk
from tests.support.ddl_trial import Outcome, Trial, is_ours
from tests.support.old_values import compare
from tests.support.snapshot_soak import SnapshotSoak
from tests.support.source_soak import SourceSoak


def main() -> int:
    options = _options()
    if options.report:
        return week.report_again(options.report, options.minutes, _say)
    if options.week:
        return week.soak(options.seed, options.minutes, _say)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="sluice-soak-") as directory:
        mysql = MySqlServer(options.server, Path(directory) / "mysql").start()
        without = options.snapshots or options.sessions or options.sources
        spark = None if without else SparkConnect(Path(directory) / "spark", free_port()).start()
        try:
            until, seed = time.monotonic() + 60 * options.minutes, options.seed
            while time.monotonic() < until:
                if spark:
                    clean = _script(mysql, spark.remote, seed, options)
                else:
                    work = _sources if options.sources else _sessions if options.sessions else _snapshots
                    clean = work(mysql, seed, options)
                failed += not clean
                seed += 1
        finally:
            if spark:
                spark.kill()
            mysql.kill()
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--server", default="8.0.31", help="5.7.22, 8.0.31, 9 or mariadb (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the first script")
    parser.add_argument("--steps", type=int, default=60, help="of one script (default: %(default)s)")
    parser.add_argument("--tries", type=int, default=40, help="to make a script shorter (default: %(default)s)")
    parser.add_argument("--no-cascades", action="store_true", help="no foreign keys that change rows")
    parser.add_argument("--no-rewinds", action="store_true")
    parser.add_argument("--filters", action="store_true", help="the filter changes between the statements")
    parser.add_argument("--snapshots", action="store_true", help="snapshots under DML, instead of DDL")
    parser.add_argument("--sessions", action="store_true", help="the states of sessions, instead of DDL")
    parser.add_argument("--sources", action="store_true", help="what happens to a source, instead of DDL")
    parser.add_argument("--gtids", action="store_true", help="read by GTID; of snapshots and sources")
    parser.add_argument("--week", action="store_true", help="what grows in a stack whose times are fast")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the report of a week's samples once more")
    options = parser.parse_args()
    if (options.week or options.report) and options.minutes < week.LEAST_MINUTES:
        parser.error(f"a week needs {week.LEAST_MINUTES:g} minutes at least")
    return options


def _say(text: str) -> None:
    print(text, flush=True)


def _snapshots(mysql: MySqlServer, seed: int, options: argparse.Namespace) -> bool:
    """Takes snapshots of one script and prints its outcome as a JSON line. Whether it ended well."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluice-snapshots-") as directory:
        soak = SnapshotSoak(mysql, Path(directory), seed, gtid=options.gtids, owned=True)
        outcome = soak.run(options.steps // 10)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"seed": seed, "server": options.server, **asdict(outcome), "seconds": seconds}), flush=True)
    return outcome.clean


def _sessions(mysql: MySqlServer, seed: int, options: argparse.Namespace) -> bool:
    """Compares what one seed's statements make of old rows with what we compute. Whether all of it was right."""
    tally = compare(mysql, seed, 5 * options.steps)
    print(json.dumps({"seed": seed, "server": options.server, **asdict(tally)}), flush=True)
    return not tally.faults


def _sources(mysql: MySqlServer, seed: int, options: argparse.Namespace) -> bool:
    """Reads a source to which one seed's events happen, with a store on disk every other time. Whether it went well."""
    with tempfile.TemporaryDirectory(prefix="sluice-sources-") as directory:
        soak = SourceSoak(mysql, Path(directory), seed, gtid=options.gtids or bool(seed & 2), stored=bool(seed & 1))
        outcome = soak.run(options.steps // 4)
    print(json.dumps({"server": options.server, **asdict(outcome)}), flush=True)
    return not outcome.fault


def _script(mysql: MySqlServer, remote: str, seed: int, options: argparse.Namespace) -> bool:
    """Runs one script and prints its outcome as a JSON line. Whether it ended well."""
    began = time.monotonic()

    def at_random(trial: Trial) -> Outcome:
        # what a parent loses that the filter leaves out is seen by nobody: its children stop when their rows come
        cascades, rewinds = not (options.no_cascades or options.filters), not options.no_rewinds
        return trial.random(seed, options.steps, cascades=cascades, rewinds=rewinds, filters=options.filters)

    outcome, databases = fresh(mysql, remote, at_random)
    line = {
        "seed": seed,
        "server": options.server,
        "steps": len(outcome.steps),
        "statements": outcome.statements,
        "compared": outcome.compared,
        "copied": outcome.copied,
        "parked": outcome.parked,
        "warned": outcome.warned,
        "differences": outcome.differences,
        "error": outcome.error,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(line), flush=True)
    if not outcome.clean:
        _show_short(mysql, remote, outcome.steps, databases, options.tries)
    return outcome.clean


def _show_short(mysql: MySqlServer, remote: str, steps: list[str], databases: tuple[str, str], tries: int) -> None:
    def fails(part: list[str]) -> bool:
        return not fresh(mysql, remote, lambda trial: trial.replay(renamed(part, databases, trial.databases)))[0].clean

    print("-- the shortest script found that goes wrong:")
    for step in renamed(shrunk(steps, fails, tries), databases, ("one", "two")):
        print(step if is_ours(step) else f"{step};")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
