"""A shop whose tables land in change logs first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake

from cdc_core.client.changes import Rows
from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rows.system_columns import CHANGES, versions
from cdc_core.session.claim import Claim
from orchestration.commands.service import call
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.result import Refusal
from spark_jobs.following.follow import Follow, Pace
from spark_jobs.following.merge import Merged, Merger
from spark_jobs.following.now import make_view, view_name
from spark_jobs.following.parked import Parked, Parking
from spark_jobs.following.pending import PART_ROWS, Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.landing.columns import EPOCH, NTH, VERSION, log_app_id
from spark_jobs.landing.definition import STATISTICS, log_properties, statistics
from spark_jobs.session import Sessions
from tests.support.shop import Shop, opened_shop, until_running


@dataclass
class LandedShop(Shop):
    """Claims land, and the logs are merged when a test says so."""

    def named(self, table: str) -> str:
        return f"{self.database}.{table}"

    @property
    def parking(self) -> Parking:
        return Parking(self.lake.lake, "shop", self.connector.client_id)

    def land(self, batch_size: int = 1000, *, most: int | None = None) -> list[str]:
        """Lands all that the source has written, or `most` claims. Returns the tables that stopped."""
        end, stopped, done = self.read(), [], 0
        while not self.reached(end) and (most is None or done < most):
            with self.connector.claim(batch_size, owner="test", timeout_seconds=2) as claim:
                if claim is None:
                    continue
                stopped += self._caught_up(claim)
                lake = replace(self.lake, fence=Fence(self.lake.lake, self.lake.sessions))
                batch = lake.apply(replace(claim, tables=()), "test", 2, {*claim.stopped, *stopped})
                for refusal in batch.refused:
                    self._stop(claim, refusal)
                    stopped.append(refusal.table)
                self.landed(claim, {*claim.stopped, *stopped})
                self.lake.note(claim, batch, "test")
            done += 1
        return stopped

    def _caught_up(self, claim: Claim) -> list[str]:
        stopped = []
        for name in claim.redefined:
            try:
                self.merger().whole(name)
            except TableStopped as error:
                self._stop(claim, Refusal(name, error, copy_needed=True))
                stopped.append(name)
        return stopped

    def landed(self, claim: Claim, stopped: Collection[str] = ()) -> None:
        """The claim's rows are in the logs."""
        land(self, claim, set(stopped))

    def merger(self, part_rows: int = PART_ROWS, sessions: Sessions | None = None) -> Merger:
        """That of a new run."""
        lake, sessions = self.lake.lake, sessions or self.lake.sessions
        follows = Follows(lake, "shop", self.connector.client_id, part_rows)
        return Merger(follows, sessions, Fence(lake, sessions), "run")

    def follow(self, *, parked: bool = False, remote: str = "") -> list[Merged | Parked]:
        """One run over all logs, until nothing is left."""
        pace = Pace(2, 300.0, 0.0, parked)
        merger = self.merger(sessions=Sessions(remote) if remote else None)
        tables = lambda: self.lake.lake.logs("shop")  # noqa: E731
        return list(Follow(merger, self.parking, tables, pace).run())

    def reset(self, to: EntryPosition) -> None:
        place = {"journalName": to.journal_name, "position": to.position}
        body = {"to": place, "client_id": self.connector.client_id, "dry_run": False}
        call(self.connector.http_url, "", "POST", "/v1/destinations/shop/reset", body)
        until_running(self.connector)

    def merged(self, table: str) -> Counter[Any]:
        """The rows of the merged table."""
        there = self.lake.lake.open(self.lake.lake.path(self.database, table))
        return _counted(QueryBuilder().register("t", there).execute("SELECT * FROM t ORDER BY 1").read_all())

    def now(self, table: str) -> Counter[Any]:
        """The rows of the view."""
        with self.lake.sessions.take() as spark:
            make_view(spark, self.merger().follows, self.named(table))
            return _counted(spark.sql(f"SELECT * FROM {view_name(self.named(table))}").toArrow())

    def source(self, table: str) -> Counter[Any]:
        with self.mysql.root(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            return Counter(cursor.fetchall())


@contextmanager
def opened_landed(mysql: MySqlServer, spark_remote: str, tmp_path: Path, **keys: str) -> Iterator[LandedShop]:
    with opened_shop(mysql, spark_remote, tmp_path, **keys) as shop:
        yield LandedShop(shop.mysql, shop.database, shop.connector, shop.lake)


def _counted(rows: Any) -> Counter[Any]:
    return Counter(zip(*(column.to_pylist() for column in pa.table(rows).columns), strict=True))


def land(shop: Shop, claim: Claim, stopped: set[str]) -> None:
    lake = shop.lake.lake
    for t in claim.tables:
        if t.name in stopped:
            continue
        schema = t.schema
        path = lake.log_path(schema.database, schema.table)
        app = log_app_id(claim.destination, claim.client_id, t.name, claim.epoch)
        fields = arrow_fields(schema)
        sysf = [
            pa.field("_sluice_op", pa.string()), pa.field(EPOCH, pa.int32()), pa.field(VERSION, pa.int64()),
            pa.field(NTH, pa.int64()), pa.field("_sluice_gtid", pa.string()),
        ]  # fmt: skip
        full = pa.schema([*fields, *sysf])
        if not lake.has(schema.database, schema.table + "__log"):
            DeltaTable.create(path, full, configuration={STATISTICS: statistics(schema)})
        log = lake.open(path)
        props = {
            "sluice.destination": claim.destination, "sluice.table": t.name, "sluice.log": "true",
        } | log_properties(claim, schema)  # fmt: skip
        if any(log.metadata().configuration.get(k) != v for k, v in props.items()):
            log.alter.set_table_properties(props, raise_if_not_exists=False)
        after = log.transaction_version(app)
        if after is not None and after >= claim.end.version():
            continue
        batches, nth = [], 0
        with Rows(shop.connector.flight_url) as rows:
            read = rows.info(claim, t.name, mode=CHANGES, after=after)
            for ticket in read.tickets:
                for b in rows.split(ticket):
                    n = b.num_rows
                    cols = [
                        *b.columns[: len(fields)], b.column("_sluice_op").cast(pa.string()),
                        pa.array([claim.epoch] * n, pa.int32()), pa.array(versions(b)),
                        pa.array(np.arange(nth, nth + n)), pa.array([""] * n),
                    ]  # fmt: skip
                    nth += n
                    batches.append(pa.RecordBatch.from_arrays(cols, schema=full))
        write_deltalake(
            log, pa.Table.from_batches(batches, schema=full), mode="append", schema_mode="merge",
            commit_properties=CommitProperties(app_transactions=[Transaction(app, claim.end.version())]),
        )  # fmt: skip
