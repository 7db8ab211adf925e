"""Ten thousand batches of one table: what a look at it, an append, a read and a MERGE take then. Prints JSON.

`versions_open`, `versions_append` and so on: the CPU milliseconds of a step at the last mark, beside the first mark's;
`versions_merge` and `versions_read` are Spark's, by the clock. A batch is ten changes: an append to the change log with
its ledger note, as the product makes them, and a commit of the merged table that carries the same app id, version and
note as a MERGE does, by hand, because ten thousand MERGEs of Spark take hours. Between the marks most batches are
copies of one that was made so, with names and versions of their own. At each mark Spark merges some batches itself.
`--every` batches the table and its log are maintained, as the schedule does once a day at a batch every ten seconds.

    python -m tests.bench.bench_versions [--batches 10000] [--every 8640] [--merges 3] [--no-spark]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake

from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows, Part
from spark_jobs.lake.ddl import table_properties
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.tables import Lake
from spark_jobs.landing import append
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.session import Sessions
from tests.bench.bench_history import SCHEMA, Log
from tests.bench.bench_service import report

ROWS, CHANGES, LOOKS, SLOW = 10_000, 10, 5, 20
STEP = 40 * 2 * CHANGES  # how far a batch moves the log's version
CHECKPOINT, COMPACT, _SPARKS = 100, 200, 10  # delta-rs' own interval, the ledger's, and Spark's
_HOT = 1 << 40  # the first key of rows that each commit of ours writes anew; the log has none of them
_VECTORS = "delta.enableDeletionVectors"
Took = dict[str, float]


def leap(table: DeltaTable, count: int, shifts: Mapping[int, int], checkpoint: int = 100) -> str:
    """So many commits as the last one, each with a file of its own; where that removed a file, each removes the one
    before. `shifts` are numbers in it, of versions, and how far each commit moves them. `checkpoint`: a checkpoint is
    made at so many commits, as delta-rs does. The last file."""
    path, at = Path(table.table_uri.removeprefix("file://")), table.version()
    text = (path / "_delta_log" / f"{at:020d}.json").read_text()
    actions = list(map(json.loads, text.splitlines()))
    added = next(one["add"]["path"] for one in actions if "add" in one)
    removed = next((one["remove"]["path"] for one in actions if "remove" in one), None)
    name = before = added
    for number in range(1, count + 1):
        name, told = f"{uuid.uuid4().hex}.parquet", text
        for value, shift in shifts.items():
            told = told.replace(str(value), str(value + number * shift))
        told = told.replace(added, name)
        if removed is not None:
            told, before = told.replace(removed, before), name
        (path / name).hardlink_to(path / added)
        (path / "_delta_log" / f"{at + number:020d}.json").write_text(told)
        if (at + number + 1) % checkpoint == 0:
            DeltaTable(path).create_checkpoint()
    return name


@dataclass
class Batches:
    """A merged table that has its log, batch by batch."""

    lake: Lake
    log: Log = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.follows, self.path = Follows(self.lake, "bench", 1), self.lake.path("shop", "t")
        self.app, self.ledger = self.follows.app(SCHEMA.name, 0), Ledger(self.lake, "bench", 1)
        self.log = Log(self.lake)
        self.log.grow(ROWS, 0, 0)
        source = pa.table(self.lake.open(self.lake.log_path("shop", "t")).to_pyarrow_table())
        self._rows = source.select([field.name for field in source.schema if not field.name.startswith("_sluice")])
        properties = table_properties(self.lake, "bench", SCHEMA, "token")
        del properties[_VECTORS]  # which Spark sets
        DeltaTable.create(self.path, self._rows.schema, configuration=properties, raise_if_key_not_exists=False)
        write_deltalake(self.path, self._rows, mode="append", commit_properties=self._noted(len(self._rows)))
        hot = self._rows.slice(0, CHANGES)
        keys = pa.array(range(_HOT, _HOT + CHANGES), hot["id"].type)
        self._hot = hot.set_column(hot.schema.get_field_index("id"), hot.schema.field("id"), keys)
        write_deltalake(self.path, self._hot, mode="append", commit_properties=self._noted(CHANGES))
        self._last = self._there()[0]

    def append(self) -> None:
        """Ten updates in the log, and a note in the ledger."""
        self.log.grow(0, CHANGES, 0)
        append._compact(self.lake.open(self.lake.log_path("shop", "t")))
        self.count += 1

    def leap(self, count: int) -> None:
        """So many batches as the last one, and the compaction of log and ledger that is due."""
        for _ in range(2):  # behind Spark's commits
            self.append()
            self.merge()
        log, low = self.lake.log_path("shop", "t"), self.log.end - STEP
        while count:
            some = min(count, CHECKPOINT)
            shifts = {self.log.end: STEP, low + 40: STEP}
            for path in (log, self.ledger.path):
                leap(self.lake.open(path), some, shifts)
            self._last = leap(self.lake.open(self.path), some, shifts, _SPARKS)
            self.lake.open(log).optimize.compact()
            if self.count // COMPACT != (self.count + some) // COMPACT:
                self.lake.open(self.ledger.path).optimize.compact()
            self.log.skip(some * STEP)
            low, count = self.log.end - STEP, count - some
            self.count += some
            for _ in range(2):
                self.append()
                self.merge()

    def merge(self) -> None:
        """The commit of a MERGE of ten rows, by hand: a small file instead of the one before, the app id and the
        version, and a note."""
        now, there, version = int(time.time() * 1000), self._there(), self.lake.open(self.path).version() + 1
        name, properties = f"{uuid.uuid4().hex}.parquet", self._noted(CHANGES)
        (Path(self.path) / name).hardlink_to(Path(self.path) / self._last)
        size = (Path(self.path) / name).stat().st_size
        same = {"partitionValues": {}, "size": size, "dataChange": True}
        actions = [
            {"commitInfo": {"timestamp": now, "operation": "MERGE", **(properties.custom_metadata or {})}},
            {"txn": {"appId": self.app, "version": self.log.end, "lastUpdated": now}},
            *[{"remove": {"path": gone, "deletionTimestamp": now, **same}} for gone in there if gone == self._last],
            {"add": {"path": name, "modificationTime": now, "stats": json.dumps({"numRecords": CHANGES}), **same}},
        ]
        text = "\n".join(map(json.dumps, actions)) + "\n"
        (Path(self.path) / "_delta_log" / f"{version:020d}.json").write_text(text)
        self._last = name
        if version % _SPARKS == 0:
            self.lake.open(self.path).create_checkpoint()

    def _there(self) -> list[str]:
        """The files of the table; those of the smallest one first."""
        files = pa.table(self.lake.open(self.path).get_add_actions(flatten=True))
        return [str(name) for name in files.sort_by("num_records")["path"].to_pylist()]

    def _noted(self, rows: int) -> CommitProperties:
        part = Part(0, None, self.log.end, rows, 0.0)
        note = part.note(self.follows.ledger, SCHEMA.name, "run")
        transaction = [Transaction(self.app, self.log.end)]
        return CommitProperties(app_transactions=transaction, custom_metadata={"userMetadata": note})


def looked(table: Batches) -> Took:
    """CPU milliseconds of what every run does with the table, its log and the ledger."""
    lake, log = table.lake, table.lake.log_path("shop", "t")
    count = "SELECT count(*) FROM t"

    def read(path: str) -> object:
        return QueryBuilder().register("t", lake.open(path)).execute(count).read_all()

    works: dict[str, Callable[[], object]] = {
        "open": lambda: lake.open(table.path),
        "open_log": lambda: lake.open(log),
        "open_ledger": lambda: lake.open(table.ledger.path),
        "state": lambda: lake.state(table.path, table.app),
        "last_commit": lambda: next(lake.commits(table.path)),
        "written_at": lambda: lake.written_at(table.path),
        "pending": lambda: table.follows.pending(SCHEMA.name),
        "stretches": lambda: table.ledger.stretches(),
        "read_rs": lambda: read(table.path),
    }
    return {name: median(timed(work) for _ in range(LOOKS)) for name, work in works.items()}


def timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Milliseconds; of this process's CPU, because others take the cores."""
    began = clock()
    work()
    return 1000 * (clock() - began)


def sizes(path: str) -> dict[str, int]:
    """Of a table: the files of its log and their bytes, and its data files, those that VACUUM has yet to delete too."""
    log = [one.stat().st_size for one in Path(path, "_delta_log").iterdir() if one.is_file()]
    return {"log_files": len(log), "log_bytes": sum(log), "files": sum(1 for _ in Path(path).rglob("*.parquet"))}


@dataclass
class Spark:
    """What merges and maintains a table."""

    table: Batches
    sessions: Sessions

    def __post_init__(self) -> None:
        with self.sessions.take() as spark:
            spark.sql(f"ALTER TABLE delta.`{self.table.path}` SET TBLPROPERTIES ('{_VECTORS}' = 'true')")

    def merges(self, count: int) -> Took:
        """Milliseconds of a MERGE of one batch, and of a read."""
        merger = Merger(self.table.follows, self.sessions, Fence(self.table.lake, self.sessions))
        took = []
        for _ in range(count + 1):
            self.table.append()
            took.append(timed(lambda: merger.whole(SCHEMA.name), time.perf_counter))
        with self.sessions.take() as spark:
            asked = f"SELECT count(*), max(n0) FROM delta.`{self.table.path}`"
            reads = [timed(lambda: spark.sql(asked).collect(), time.perf_counter) for _ in range(count + 1)]
        return {"merge": median(took[1:]), "read": median(reads[1:])}

    def maintain(self) -> None:
        with self.sessions.take() as spark:
            spark.sql(f"OPTIMIZE delta.`{self.table.path}`").collect()


def until(table: Batches, marks: Sequence[int], every: int, spark: Spark | None, merges: int) -> dict[int, Took]:
    """What was measured at each mark. `every`: batches between two times of maintenance, 0 for none."""
    found: dict[int, Took] = {}
    for mark in marks:
        appends, due = [], every and (table.count // every + 1) * every
        while table.count < mark:
            ahead = min(mark - SLOW, due or mark) - table.count
            if ahead > SLOW and table.count:
                table.leap(ahead)
            appends.append(timed(table.append))
            table.merge()
            if due and table.count >= due:
                due += every
                LogUpkeep(table.follows).log(SCHEMA.name, Retention())
                if spark is not None:
                    spark.maintain()
        found[mark] = {"append": median(appends[-SLOW:])} | looked(table)
        if spark is not None:
            found[mark] |= spark.merges(merges)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batches", type=int, default=10_000)
    options.add_argument("--every", type=int, default=8_640)
    options.add_argument("--merges", type=int, default=3)
    options.add_argument("--no-spark", action="store_true")
    given = options.parse_args()
    marks = [given.batches // 100, given.batches // 10, given.batches]
    with tempfile.TemporaryDirectory(prefix="bench-versions-") as directory:
        server = None if given.no_spark else SparkConnect(Path(directory) / "spark", free_port()).start()
        try:
            for way, every in (("maintained", given.every), ("left", 0)):
                table = Batches(Lake(Path(directory) / way))
                with Sessions(server.remote if server else "sc://127.0.0.1:1") as sessions:
                    spark = Spark(table, sessions) if server else None
                    found = until(table, marks, every, spark, given.merges)
                _told(table, way, every, found)
        finally:
            if server is not None:
                server.kill()


def _told(table: Batches, way: str, every: int, found: dict[int, Took]) -> None:
    paths = {"table": table.path, "log": table.lake.log_path("shop", "t"), "ledger": table.ledger.path}
    config = {"way": way, "every": every, "sizes": {name: sizes(path) for name, path in paths.items()}}
    first, *_, last = found
    for name in found[last]:
        each = {str(mark): round(took[name], 1) for mark, took in found.items()}
        then = f"after {first} batches"
        report(f"versions_{name}", found[last][name], "ms", config | {"at": each}, then, found[first][name])
        config = {"way": way}


if __name__ == "__main__":
    main()
