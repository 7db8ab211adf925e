"""What Dagster does and keeps for a destination of many tables of which few change: its own processes, real sources.

`run_events`: events of a run that brings the changes of a few tables. `run_first_claim`: seconds from the run's
creation to its first claim. `run_storage`: KB that a run leaves in Dagster's storage, without ticks.
`location_load`: seconds in which a fresh process loads the definitions, as the code server does. `run_load`: the same
of a run's process. `sensor_tick`: milliseconds of a tick that asks the service. The peer is a destination of nothing
but the tables that change.

    python -m tests.bench.bench_run_events [--tables 500] [--changed 5] [--rounds 5] [--only run|load]
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import dagster as dg

from orchestration.names import Names
from orchestration.sensors import round as rounds
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from tests.bench.bench_service import report
from tests.support.operated import Operated, operated, until

NAMES = Names("shop")
ROWS, TICKS = 10, 30
_LOAD = "import sys; from tests.bench.bench_run_events import loaded; loaded(*sys.argv[1:])"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", type=int, default=500)
    options.add_argument("--changed", type=int, default=5)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", choices=["run", "load"])
    options.add_argument("--alone", action="store_true", help="without the peer")
    given = options.parse_args()
    config = {"tables": given.tables, "changed": given.changed, "rounds": given.rounds}
    peer, found = f"{given.changed} tables", {}
    with tempfile.TemporaryDirectory(prefix="bench-run-events-") as scratch:
        folder = Path(scratch)
        mysql = MySqlServer("8.0.31", folder / "mysql").start()
        spark = SparkConnect(folder / "spark", free_port()).start()
        try:
            for count in (given.tables,) if given.alone else (given.changed, given.tables):
                names = [f"t{number:04}" for number in range(count)]
                with operated(mysql, spark.remote, folder / str(count), *names) as shop:
                    runs = _runs(shop, names[: given.changed], given.rounds) if given.only != "load" else {}
                    loads = _loads(folder / str(count)) if given.only != "run" else {}
                    found[count] = runs | loads
                    print(count, found[count], file=sys.stderr, flush=True)
        finally:
            spark.stop()
            mysql.stop()
    units = {"run_events": "events", "run_first_claim": "s", "run_storage": "KB", "location_load": "s", "run_load": "s"}
    for name, value in found[given.tables].items():
        other = None if given.alone else found[given.changed][name]
        report(name, value, units.get(name, "ms"), config, peer, other)


def _runs(shop: Operated, tables: list[str], rounds: int) -> dict[str, float]:
    """The means of the rounds, after one that brings the tables into the lake."""
    home = shop.dagster.home
    _write(shop, tables, 0)
    until("the first rows are there", lambda: shop.cursor() and not shop.differences(tables[0]))
    _wait_for_end(shop)
    before, events, claims = _size(home), [], []
    for number in range(1, rounds + 1):
        run, first = _change(shop, tables, number)
        events.append(len(shop.instance.all_logs(run.run_id)))
        claims.append(first)
    kept = (_size(home) - before) / rounds / 1000
    return {"run_events": sum(events) / rounds, "run_first_claim": median(claims), "run_storage": kept}


def _change(shop: Operated, tables: list[str], number: int) -> tuple[dg.DagsterRun, float]:
    """Writes rows into the tables. Returns the run that brought them, when it has ended, and the seconds from its
    creation to its first claim."""
    known = {run.run_id for run in _all_runs(shop)}
    _write(shop, tables, number)
    owner = until("a claim", lambda: next((one.owner for one in shop.connector.client_status().claims), None))
    claimed = time.time()
    _wait_for_end(shop)
    assert {run.run_id for run in _all_runs(shop)} - known == {owner}, "one transaction came in several runs"
    record = shop.instance.get_run_record_by_id(owner)
    assert record is not None
    assert record.dagster_run.status == dg.DagsterRunStatus.SUCCESS
    return record.dagster_run, claimed - record.create_timestamp.timestamp()


def _write(shop: Operated, tables: list[str], number: int) -> None:
    """Rows of each of the tables, in one transaction."""
    keys = range(number * ROWS, (number + 1) * ROWS)
    rows = ", ".join(f"({key}, 'a note of some length')" for key in keys)
    shop.sql("BEGIN", *(f"INSERT INTO {table} VALUES {rows}" for table in tables), "COMMIT")


def _wait_for_end(shop: Operated) -> None:
    until("every run ends", lambda: all(run.is_finished for run in _all_runs(shop)))


def _all_runs(shop: Operated) -> list[dg.DagsterRun]:
    return list(shop.instance.get_runs(dg.RunsFilter(tags=NAMES.run_tags)))


def _size(home: Path) -> int:
    """Bytes of runs and events, what is in SQLite's logs included."""
    for file in (home / "records").rglob("*.db"):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    folders = [home / "records", home / "storage"]
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def _loads(folder: Path) -> dict[str, float]:
    """Of three fresh processes each, for the code location and for a run."""
    environment = {**os.environ, "DAGSTER_HOME": str(folder / "dagster")}
    answers: dict[str, list[float]] = {}
    for job in ("", NAMES.job) * 3:
        command = [sys.executable, "-c", _LOAD, str(folder / "defs"), job]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            answers.setdefault(name, []).append(value)
    return {name: median(values) for name, values in answers.items()}


def loaded(folder: str, job: str) -> None:
    """Prints what it takes to load the definitions in this process, and a tick of the sensor; or what it takes the
    process of a run of the job."""
    from orchestration.loading import load_folder

    if job:
        sys.argv[:] = ["dagster", "api", "execute_run", json.dumps({"job_name": job})]
    began = time.monotonic()
    definitions = load_folder(Path(folder))
    definitions.get_repository_def().load_all_definitions()
    seconds = time.monotonic() - began
    if job:
        assert definitions.get_repository_def().job_names == [job]
        print(json.dumps({"run_load": seconds}))
        return
    rounds._FRESH_SECONDS = 0.0  # else the ticks of two seconds share an answer
    ticks, sensor = [], definitions.resolve_sensor_def(f"cdc_{NAMES.safe}_backlog")
    with dg.DagsterInstance.get() as instance:
        for _ in range(TICKS):
            with dg.build_sensor_context(instance, definitions=definitions) as context:
                began = time.monotonic()
                sensor.evaluate_tick(context)
                ticks.append(time.monotonic() - began)
    print(json.dumps({"location_load": seconds, "sensor_tick": 1000 * median(ticks)}))


if __name__ == "__main__":
    main()
