"""Many small tables through `sluice up` as shipped: their first rows, then single rows all over them. Prints JSON.

The tables are there, empty, when the stack starts, and the lake has none of them. When Dagster has loaded them, all get
their first rows; when these are in the lake, single rows are updated in turn, each a transaction. The peer is the same
with `engine: sql`, a statement of Spark for each table.

`many_tables_first`: seconds from the commit of the first row until the lake has the rows of all tables.
`many_tables`: the age (p95) at which an updated row was readable; one that was not within the patience counts as old as
it was then.
`many_tables_settled`: seconds from the last update until the lake has all.

    python -m tests.bench.bench_many_tables [--tables 1000] [--rate 1000] [--seconds 30] [--only auto]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from pymysql.constants import CLIENT

from cdc_core.position import EntryPosition
from orchestration.demo.freshness import Sample, Visible, batches, percentiles
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import listening
from tests.bench.bench_service import OPTIONS, Service, fill, report
from tests.bench.bench_warm_start import COLUMNS, PATIENCE, cpu, stack, until

STORE = 8 << 30  # as shipped
SPARK = 15002  # the port that `sluice up` gives its Spark
TICK = 0.25  # seconds of updates between two looks at the source's place
PARTS = {"connect_host.py": "spark", "orchestration.cli server": "service", "dagster": "dagster"}
LIMITS = {"first": 20, "p95": 10, "settled": 5, "p95 of 1,000 tables": 60}


@dataclass(frozen=True)
class Load:
    """`rate` updates a second for `seconds`, over tables of so many rows; each phase is waited for up to `patience`."""

    tables: int
    rows: int
    rate: int
    seconds: float
    patience: float


@dataclass
class Found:
    """Seconds, by phase, and the CPU seconds that each process used under the updates."""

    first: float = math.inf
    ages: list[float] = field(default_factory=list)
    settled: float = math.inf
    batches: int = 0
    used: dict[str, float] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        first, settled = (round(one, 1) if one < math.inf else None for one in (self.first, self.settled))
        told = {"first": first, "p50_p95": self.ages, "settled": settled, "batches": self.batches}
        return told | {"cpu_seconds": {part: round(seconds) for part, seconds in self.used.items()}}


class Source:
    """The tables at the source. What is written comes with the place after it."""

    def __init__(self, mysql: MySqlServer, load: Load) -> None:
        self.load, self._turn = load, 0
        self._connection = mysql.root("bench")
        self._connection.close()
        self._connection.client_flag |= CLIENT.MULTI_STATEMENTS
        self._connection.connect()

    def first_rows(self) -> Sample:
        since = time.time()
        values = ", ".join(f"({n}, {n}, 'name', 1.25, NOW(6), 'a note')" for n in range(self.load.rows))
        return self._run(since, [f"INSERT INTO t{n} VALUES {values}" for n in range(self.load.tables)])

    def updates(self) -> Iterator[Sample]:
        """Of one tick after the other, at the rate."""
        ends = time.time() + self.load.seconds
        while (since := time.time()) < ends:
            count = round(self.load.rate * TICK)
            yield self._run(since, [self._update(self._turn + n) for n in range(count)])
            self._turn += count
            time.sleep(max(0.0, since + TICK - time.time()))

    def _update(self, turn: int) -> str:
        lap, table = divmod(turn, self.load.tables)
        row = (lap * 7 + table) % self.load.rows
        return f"UPDATE t{table} SET customer = {turn}, changed = NOW(6) WHERE id = {row}"

    def _run(self, since: float, statements: list[str]) -> Sample:
        with self._connection.cursor() as cursor:
            cursor.execute("; ".join(statements))
            while cursor.nextset():
                pass
            cursor.execute("SHOW MASTER STATUS")
            journal, place, *_ = cursor.fetchone() or ("", 0)
        return Sample(since, EntryPosition(journal, int(place)).version(), len(statements))


def measured(mysql: MySqlServer, engine: str, load: Load) -> Found:
    until("the port of Spark", lambda: not listening(SPARK), 1.0)
    begin = fill(mysql, ["SET sql_log_bin = 0", *(f"CREATE TABLE bench.t{n} {COLUMNS}" for n in range(load.tables))])
    with tempfile.TemporaryDirectory(prefix="bench-many-") as directory:
        root = Path(directory)
        conf = Service(root / "conf", mysql, begin, sluice__store__bytes=STORE)
        with stack(root, conf, {"engine": engine, "complete": True}) as (up, log):
            until("Dagster", lambda: "Ctrl-C" in log.read_text() or not up.is_running(), 0.5)
            time.sleep(10)  # until its sensors look, and Spark is warm
            found = under_load(up, root / "lake", Source(mysql, load))
            assert up.poll() is None, log.read_text()
    return found


def under_load(up: psutil.Popen, lake: Path, source: Source) -> Found:
    found, load = Found(), source.load
    first = source.first_rows()
    found.first = seen(lake, first, load.patience)
    print("first rows", round(found.first, 1), file=sys.stderr, flush=True)
    before, used = len(batches(lake, "bench", 1001)), parts(up)
    samples = list(source.updates())
    ended = time.time()
    found.settled = seen(lake, samples[-1], load.patience) + samples[-1].since - ended
    found.used = {part: seconds - used.get(part, 0.0) for part, seconds in parts(up).items()}
    applied = batches(lake, "bench", 1001)
    found.batches = len(applied) - before
    visible = [batch.visible for batch in applied]
    found.ages = percentiles(samples, [*visible, Visible(1 << 62, time.time())], (0.5, 0.95))
    return found


def seen(lake: Path, sample: Sample, patience: float) -> float:
    """The seconds from the sample's first commit until the ledger has it; infinite where it has not in time."""
    deadline = time.time() + patience
    while time.time() < deadline:
        visible = [batch.visible for batch in batches(lake, "bench", 1001)]
        if there := [one for one in visible if one.version >= sample.version]:
            return max(0.0, there[0].at - sample.since)
        time.sleep(0.5)
    return math.inf


def parts(up: psutil.Popen) -> dict[str, float]:
    """CPU seconds so far by process of the stack, Spark's workers among Spark's."""
    found: dict[str, float] = {}
    for one in up.children():
        line = " ".join(one.cmdline())
        part = next((part for word, part in PARTS.items() if word in line), "others")
        found[part] = found.get(part, 0.0) + cpu(one)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", type=int, default=200)
    options.add_argument("--rows", type=int, default=100)
    options.add_argument("--rate", type=int, default=200)
    options.add_argument("--seconds", type=float, default=90.0)
    options.add_argument("--patience", type=float, default=PATIENCE)
    options.add_argument("--only", choices=["auto", "sql"], default=None)
    given = options.parse_args()
    load = Load(given.tables, given.rows, given.rate, given.seconds, given.patience)
    ways: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="bench-many-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            for engine in [given.only] if given.only else ["auto", "sql"]:
                ways[engine] = measured(mysql, engine, load)
                print(engine, ways[engine].shown(), file=sys.stderr, flush=True)
        finally:
            mysql.stop()
    told(load, ways)


def told(load: Load, ways: dict[str, Found]) -> None:
    ours, peer = next(iter(ways.values())), ways.get("sql") if len(ways) > 1 else None
    config = {"tables": load.tables, "rows": load.rows, "rate": load.rate, "seconds": load.seconds, "limits": LIMITS}
    config |= {"load": round(os.getloadavg()[0], 1), **{engine: found.shown() for engine, found in ways.items()}}
    for name, value, other in (
        ("many_tables_first", ours.first, peer.first if peer else None),
        ("many_tables", ours.ages[1], peer.ages[1] if peer else None),
        ("many_tables_settled", ours.settled, peer.settled if peer else None),
    ):
        bounded, theirs = (min(one, load.patience) if one is not None else None for one in (value, other))
        report(name, bounded or 0.0, "s", config, "engine: sql" if peer else None, theirs)


if __name__ == "__main__":
    main()
