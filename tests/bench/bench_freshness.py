"""How old rows are when they are readable: the demo's shop with `apply: land_first`, beside `merge`. Prints JSON.

`freshness_log`: seconds (p50) from the commit at the source until a row is in its change log, under the demo's
workload; the peer is the same with `merge`, until it is in its table. `freshness_idle`: the same of single rows on a
stack that rests, with `freshness: asap`: in the table with `merge`; what it takes to the log is in the configuration.
Spark's CPU seconds for 1,000 changes are beside, and how old the oldest change in a log was that its table lacked.

    python -m tests.bench.bench_freshness [--rate 1000] [--seconds 60] [--rows 10]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from statistics import median

import psutil
from deltalake import DeltaTable

from orchestration.demo import shop
from orchestration.demo.demo import Demo, running
from orchestration.demo.files import DESTINATION
from orchestration.demo.freshness import batches, percentiles
from orchestration.stack.ports import Ports, free_port
from orchestration.stack.progress import Progress
from spark_jobs.following.pending import Follows
from spark_jobs.lake.tables import Lake
from tests.bench.bench_merge import cpu
from tests.bench.bench_service import report

TABLE = "products"
PAUSE = 4.0  # seconds between two rows on an idle stack
LOOK = 5.0  # seconds between two looks at what waits
PATIENCE = 120.0
FRESHNESS = {"merge": "asap", "land_first": "60s"}  # of the tables; where all land, logs are as with asap


@dataclass
class Mode:
    """Seconds of one mode: under load by share of the rows, and of single rows until they are noted and merged."""

    load: list[float] = field(default_factory=list)
    noted: list[float] = field(default_factory=list)
    merged: list[float] = field(default_factory=list)
    cpu_per_thousand: float = 0.0
    oldest: float = 0.0


def measured(apply: str, rate: float, seconds: float, rows: int) -> Mode:
    found = Mode()
    ports = Ports(free_port(), free_port(), free_port())
    with running(ports, rate, Progress(quiet=True), settings={"apply": apply, "freshness": FRESHNESS[apply]}) as demo:
        assert demo.spark.pid is not None
        spark = psutil.Process(demo.spark.pid)
        demo.load(seconds / 3)  # until Spark has compiled what it runs
        first, used, changed = len(demo.workload.samples), cpu(spark), demo.workload.rows
        demo.workload.start()
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, LOOK))
            found.oldest = max(found.oldest, oldest(demo))
        demo.workload.stop()
        demo.drain()
        found.cpu_per_thousand = (cpu(spark) - used) / (demo.workload.rows - changed) * 1000
        visible = [batch.visible for batch in batches(demo.lake, DESTINATION, 1001)]
        found.load = percentiles(demo.workload.samples[first:], visible, (0.5, 0.95))
        time.sleep(20)  # until the merges behind are done
        for number in range(rows):
            one(demo, number, found)
            time.sleep(PAUSE)
    return found


def oldest(demo: Demo) -> float:
    """How long the oldest change that is in a log, and not in its table, is there."""
    follows = Follows(Lake(demo.lake), DESTINATION, 1001)
    waiting = [follows.pending(table) for table in follows.lake.logs(DESTINATION)]
    return max((time.time() - one.since for one in waiting if one is not None), default=0.0)


def one(demo: Demo, number: int, found: Mode) -> None:
    """A row on an idle stack: seconds until the ledger has it, and until its table has another version."""
    table = DeltaTable(Lake(demo.lake).path(shop.DATABASE, TABLE))
    before = table.version()
    demo.mysql.execute(f"UPDATE {TABLE} SET price = price + 1 + {number} LIMIT 1", database=shop.DATABASE)
    began, noted, merged = time.monotonic(), 0.0, 0.0
    end = demo.mysql.position()
    while not (noted and merged):
        assert time.monotonic() < began + PATIENCE, (noted, merged)
        if not noted and _reached(demo, end):
            noted = time.monotonic() - began
        if not merged:
            table.update_incremental()
            merged = time.monotonic() - began if table.version() > before else 0.0
        time.sleep(0.05)
    found.noted.append(noted)
    found.merged.append(merged)


def _reached(demo: Demo, end: tuple[str, int]) -> bool:
    from cdc_core.position import EntryPosition

    applied = batches(demo.lake, DESTINATION, 1001)
    return bool(applied) and applied[-1].visible.version >= EntryPosition(*end).version()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=float, default=1000.0)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--rows", type=int, default=10)
    given = options.parse_args()
    modes = {apply: measured(apply, given.rate, given.seconds, given.rows) for apply in FRESHNESS}
    merge, land = modes["merge"], modes["land_first"]
    config = {
        "rate": given.rate,
        "p95": land.load[1],
        "merge_p95": merge.load[1],
        "spark_cpu_seconds_per_1000": [round(mode.cpu_per_thousand, 3) for mode in (land, merge)],
        "oldest_unmerged": round(land.oldest, 1),
        "limits": {"p50": 2, "p95": 4, "fresher": 10, "cpu": 1 / 3, "oldest_unmerged": 60},
    }
    report("freshness_log", land.load[0], "s", config, "apply: merge", merge.load[0])
    idle = {name: [round(s, 2) for s in (median(mode.noted), median(mode.merged))] for name, mode in modes.items()}
    config = {"rows": given.rows, "to_ledger_and_table": idle, "limits": {"table": 6, "log": 2}}
    report("freshness_idle", median(merge.merged), "s", config)


if __name__ == "__main__":
    main()
