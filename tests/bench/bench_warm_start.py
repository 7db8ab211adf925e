"""The first batches of a cold `sluice up` with one table, beside the same without its warm-up of Spark. Prints JSON.

A real MySQL has rows before `sluice up` starts, with `freshness: asap`; each further batch comes when the one before is
acked. Seconds and Spark's CPU seconds are those from a claim to its ack. Each start has a lake and a state directory of
its own; downloads are shared.

`warm_start`: how many times as long as the tenth batch the first one takes.

    python -m tests.bench.bench_warm_start [--rounds 1] [--batches 10]
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClientStatus
from cdc_core.errors import SluiceError
from orchestration.stack.artifacts import artifacts_dir
from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from tests.bench.bench_service import Service, fill, report
from tests.bench.drain import connect

COLUMNS = "(id BIGINT PRIMARY KEY, customer INT, name VARCHAR(40), price DECIMAL(12,2), changed DATETIME(6), note TEXT)"
ROWS = 20
PATIENCE = 600.0  # seconds, for a start or a batch


@dataclass
class Start:
    """One `sluice up`: seconds until Dagster answers, and until the first batch is acked; Spark's CPU seconds until the
    first claim, what was said of the warm-up, and of each batch its seconds and CPU seconds."""

    up_seconds: float = 0.0
    first_ack: float = 0.0
    spark_before: float = 0.0
    said: str = ""
    batches: list[tuple[float, float]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.batches[0][0] / self.batches[-1][0]


def until(what: str, look: Callable[[], Any], pause: float = 0.05) -> Any:
    """The first answer that is true; an error of the service is none."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with suppress(SluiceError, psutil.Error):
            if found := look():
                return found
        assert time.monotonic() < deadline, what
        time.sleep(pause)


def spark_of(up: psutil.Process) -> psutil.Process | None:
    """The JVM of its Spark."""
    return next((one for one in up.children(recursive=True) if "connect_host.py" in " ".join(one.cmdline())), None)


def cpu(spark: psutil.Process) -> float:
    """CPU seconds of the JVM and its Python workers, those of ended ones too."""
    used = 0.0
    for one in (spark, *spark.children(recursive=True)):
        with suppress(psutil.Error):
            used += sum(one.cpu_times()[:4])
    return used


@contextmanager
def started(mysql: MySqlServer, root: Path, *more: str) -> Iterator[tuple[psutil.Popen, Path, Connector]]:
    """`sluice up`, from a table whose first rows wait; its process and its error stream."""
    values = ", ".join(f"({n}, {n}, 'name', 1.25, NOW(6), 'a note')" for n in range(ROWS))
    begin = fill(mysql, [f"CREATE TABLE bench.t {COLUMNS}", f"INSERT INTO bench.t VALUES {values}"])
    conf = Service(root / "conf", mysql, begin)
    with stack(root, conf, {"freshness": "asap", "complete": True}, *more) as (up, log), connect(*conf.doors) as client:
        yield up, log, client


@contextmanager
def stack(root: Path, conf: Service, attributes: dict[str, object], *more: str) -> Iterator[tuple[psutil.Popen, Path]]:
    """`sluice up` on the configuration, with a component of those attributes; its process and its error stream."""
    http, flight = (f"{scheme}://127.0.0.1:{port}" for scheme, port in zip(("http", "grpc"), conf.doors, strict=True))
    place: dict[str, object] = {"destination": "bench", "lake": str(root / "lake"), "conf": str(conf.conf)}
    place["service"] = {"http": http, "flight": flight}
    write_component(root / "defs" / "bench" / "defs.yaml", place | attributes)
    (root / "home").mkdir()
    (root / "home" / "artifacts").symlink_to(artifacts_dir())
    command = [sys.executable, "-m", "orchestration.cli", "up", "--conf", str(conf.conf), "--defs", str(root / "defs")]
    command += ["--lake", str(root / "lake"), "--dagster-port", str(free_port()), *more]
    environment = {**os.environ, "SLUICE_HOME": str(root / "home")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once
    with (root / "up.log").open("wb") as log:
        up = psutil.Popen(command, stderr=log, env=environment)
        try:
            yield up, root / "up.log"
        finally:
            up.terminate()
            up.wait(120)


def measure(mysql: MySqlServer, batches: int, *more: str) -> Start:
    with tempfile.TemporaryDirectory(prefix="bench-warm-") as directory:
        began, found = time.monotonic(), Start()
        with started(mysql, Path(directory), *more) as (up, log, connector):
            spark = until("Spark", lambda: spark_of(up), 0.5)
            for number in range(batches):
                if number:
                    change(mysql, number)
                until("a claim", lambda: connector.client_status().claims)
                at, used = time.monotonic(), cpu(spark)
                found.spark_before = found.spark_before or used
                until("its ack", lambda: idle(connector.client_status()))
                found.batches.append((time.monotonic() - at, cpu(spark) - used))
                found.first_ack = found.first_ack or time.monotonic() - began
                assert up.poll() is None, log.read_text()
            said = log.read_text()
        told = re.search(r"Dagster, \S+\s+(\S+)\s+s", said)
        found.up_seconds = float(told[1]) if told else time.monotonic() - began
        told = re.search(r"Spark is (?:not )?warm.*|a batch has come", said)
        found.said = told[0] if told else ""
    return found


def idle(client: ClientStatus) -> bool:
    return not client.claims and not client.waiting


def change(mysql: MySqlServer, number: int) -> None:
    """New rows, an update and a delete, in one transaction."""
    first = number * ROWS
    values = ", ".join(f"({n}, {n}, 'name', 1.25, NOW(6), 'a note')" for n in range(first, first + ROWS))
    work = [f"INSERT INTO bench.t VALUES {values}", f"UPDATE bench.t SET customer = {number} WHERE id = {first - 1}"]
    with mysql.root() as connection, connection.cursor() as cursor:
        for statement in ("BEGIN", *work, f"DELETE FROM bench.t WHERE id = {first - 2}", "COMMIT"):
            cursor.execute(statement)


def shown(start: Start) -> dict[str, Any]:
    return {
        "first_over_tenth": round(start.ratio, 2),
        "dagster_seconds": round(start.up_seconds, 1),
        "first_ack_after": round(start.first_ack, 1),
        "spark_cpu_before": round(start.spark_before, 1),
        "said": start.said,
        "seconds": [round(seconds, 2) for seconds, _ in start.batches],
        "cpu_seconds": [round(used, 1) for _, used in start.batches],
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--batches", type=int, default=10)
    given = options.parse_args()
    ways: dict[str, list[Start]] = {"--warm": [], "--no-warm": []}
    with tempfile.TemporaryDirectory(prefix="bench-warm-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory)).start()
        try:
            for number in range(given.rounds):
                for way in sorted(ways, reverse=bool(number % 2)):  # they take turns in changing order
                    ways[way].append(measure(mysql, given.batches, way))
                    print(way, shown(ways[way][-1]), file=sys.stderr, flush=True)
        finally:
            mysql.stop()
    warm, cold = (median(start.ratio for start in starts) for starts in ways.values())
    config: dict[str, Any] = {way.strip("-"): [shown(start) for start in starts] for way, starts in ways.items()}
    report("warm_start", warm, "times the tenth batch", config | {"rows": ROWS, "limit": 1.5}, "--no-warm", cold)


if __name__ == "__main__":
    main()
