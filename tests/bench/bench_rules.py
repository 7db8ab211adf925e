"""What rules cost a claim: the same changes to lakes with other rules, from one service, in turn.

`rules_masked`, `rules_excluded` and `rules_elsewhere`: from a claim of 100,000 changes over ten tables of thirteen
columns to its ack, with MERGEs into Delta, by a lake with three masked columns, by one without three long columns and
by one whose rules are about other tables. The peer is a lake without rules. `rules_masked_rows` and so on: the same
claims until a client has their rows as Arrow, without Spark; CPU seconds of the service and of the client.

    python -m tests.bench.bench_rules [--scale 0.1] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from cdc_core.client.changes import FlightRows
from cdc_core.client.connector import Connector
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.session import Sessions
from tests.bench.bench_merge import RING_MB, TABLES, Shop, Ways, cpu
from tests.bench.bench_service import OPTIONS, Service, serving

_SALT = "BENCH_RULES_SALT"
_LONG = ("note", "email", "remark")
_MASKED = TableRule(
    masks=(
        ("email", Mask(MaskKind.SHA256, salt=Salt(_SALT))),
        ("name", Mask(MaskKind.TRUNCATE, 3)),
        ("remark", Mask(MaskKind.KEEP_LAST, 4)),
    )
)
_RULES = {
    "none": NO_RULES,
    "elsewhere": Rules({"other.*": _MASKED}),
    "masked": Rules({"bench.*": _MASKED}),
    "excluded": Rules({"bench.*": TableRule(exclude=_LONG)}),
}
_PEER = "a lake without rules"


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds and CPU seconds of a turn."""

    seconds: float
    cpu: float


@dataclass
class Lakes:
    """The lakes with their rules, each a client of its own of one service."""

    service: Service
    lakes: dict[str, Ways]
    merged: dict[str, list[Spent]] = field(default_factory=lambda: {name: [] for name in _RULES})
    read: dict[str, list[Spent]] = field(default_factory=lambda: {name: [] for name in _RULES})

    def turns(self, changes: int, number: int, *, keep: bool) -> None:
        """Each lake reads the changes and gives them back, then each takes them over, in an order that changes."""
        names = list(_RULES)
        turned = names[number % len(names) :] + names[: number % len(names)]
        for name in turned:
            until_read(self.lakes[name], changes)
            self._turn(self.read[name], partial(read, self.lakes[name].connector, changes), keep)
        for name in turned:
            self._turn(self.merged[name], partial(self.lakes[name].ours, changes), keep)

    def _turn(self, spent: list[Spent], work: Callable[[], object], keep: bool) -> None:
        began, used = time.perf_counter(), self._cpu()
        work()
        if keep:
            spent.append(Spent(time.perf_counter() - began, self._cpu() - used))

    def _cpu(self) -> float:
        """CPU seconds of the service, of this process and of Spark so far."""
        return self.service.cpu() + time.process_time() + cpu(next(iter(self.lakes.values())).spark)


def until_read(lake: Ways, changes: int) -> None:
    """Waits until the service has that many changes for the lake."""
    lake.service.until(lambda _: lake.connector.client_status().backlog_rows >= changes, 600)


def read(client: Connector, changes: int) -> None:
    """Reads the net changes of a claim of all changes, and gives it back."""
    claim = client.get_without_ack(changes, owner="bench", timeout_seconds=30, lease_seconds=600)
    assert claim is not None
    assert claim.rows == changes
    with FlightRows(client.flight_url) as door:
        for table in claim.tables:
            for ticket in door.info(claim, table.name, mode="net", splits=1).tickets:
                assert sum(part.num_rows for part in door.split(ticket))
    client.rollback(claim, reason="read")


@contextmanager
def opened(mysql: MySqlServer, spark: SparkConnect, root: Path, rows: int) -> Iterator[tuple[Lakes, Shop]]:
    """A source with `rows` in each table, and the lakes that have them by their rules."""
    start = mysql.position()
    shop = Shop(mysql, rows, wide=True)
    assert spark.pid is not None
    with serving(mysql, start, canal__instance__memory__buffer__size=RING_MB << 10) as service, ExitStack() as stack:
        sessions = stack.enter_context(Sessions(spark.remote))
        lakes: dict[str, Ways] = {}
        for number, (name, rules) in enumerate(_RULES.items()):
            http, flight = f"http://127.0.0.1:{service.http}", f"grpc://127.0.0.1:{service.flight}"
            client = stack.enter_context(Connector(http, "bench", flight_url=flight, client_id=1001 + number))
            client.subscribe()
            client.set_rules(rules)
            lakes[name] = Ways(service, client, sessions, psutil.Process(spark.pid), root / name)
        for lake in lakes.values():
            until_read(lake, rows * TABLES)
            lake.ours(rows * TABLES)
        yield Lakes(service, lakes), shop


def told(name: str, spent: dict[str, list[Spent]], suffix: str, config: dict[str, object]) -> None:
    """Prints a line for each lake with rules beside the one without, by the medians of their turns."""
    seconds = {lake: statistics.median(turn.seconds for turn in turns) for lake, turns in spent.items()}
    used = {lake: round(statistics.median(turn.cpu for turn in turns), 3) for lake, turns in spent.items()}
    more: dict[str, object] = {
        "cpu_seconds": used[name],
        "peer_cpu_seconds": used["none"],
        "of_peers_seconds": round(seconds[name] / seconds["none"], 3),
        "of_peers_cpu": round(used[name] / used["none"], 3),
        "turns": [round(turn.seconds, 2) for turn in spent[name]],
        "peer_turns": [round(turn.seconds, 2) for turn in spent["none"]],
        "load": round(os.getloadavg()[0], 1),
    }
    line = {"name": f"rules_{name}{suffix}", "value": round(seconds[name], 3), "unit": "s", "peer": _PEER}
    line |= {"peer_value": round(seconds["none"], 3), "ratio": round(seconds["none"] / seconds[name], 3)}
    print(json.dumps(line | {"config": config | more}), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    os.environ[_SALT] = "a salt of the bench"  # also the service's, which begins with this environment
    rows = changes = int(100_000 * given.scale)
    with tempfile.TemporaryDirectory(prefix="bench-rules-") as scratch:
        mysql = MySqlServer("8.0.31", Path(scratch) / "mysql", **OPTIONS).start()
        spark = SparkConnect(Path(scratch) / "spark", free_port(), driver_memory="4g").start()
        try:
            with opened(mysql, spark, Path(scratch) / "lakes", rows) as (lakes, shop):
                each = changes // TABLES
                inserts, deletes = each * 3 // 10, each // 5
                for number in range(given.rounds + 1):  # the first one warms
                    shop.change(inserts, each - inserts - deletes, deletes)
                    lakes.turns(each * TABLES, number, keep=number > 0)
                config: dict[str, object] = {"changes": each * TABLES, "rows_a_table": rows, "tables": TABLES}
                for name in _RULES:
                    if name != "none":
                        told(name, lakes.read, "_rows", config)
                        told(name, lakes.merged, "", config)
        finally:
            spark.stop()
            mysql.stop()


if __name__ == "__main__":
    main()
