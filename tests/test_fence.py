"""A writer of an earlier claim that is still at work on Spark while the next one begins: on a real Spark server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import TableRead
from cdc_core.errors import LakeError
from spark_jobs import merge
from spark_jobs.lake import Lake
from spark_jobs.merge import apply_batch
from spark_jobs.session import Sessions
from tests.spark_feed import Change, Feed, Table

pytestmark = pytest.mark.integration

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
LINES = Table("lines", pa.schema({"a": pa.int32(), "b": pa.string()}))
ODD = Table("odd", pa.schema({"a b": pa.int32(), "c,d": pa.string()}))  # names that only Delta's column mapping takes


@pytest.fixture(scope="module")
def sessions(spark_remote: str) -> Iterator[Sessions]:
    with Sessions(spark_remote) as pool:
        yield pool


class SlowFeed(Feed):
    """Holds the rows of batch 2 back: its statement is under way on Spark until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way, self.go = threading.Event(), threading.Event()

    def do_get(self, context: Any, ticket: Any) -> Any:
        if ticket.ticket.startswith(b"2/"):
            self.under_way.set()
            self.go.wait(60)
        return super().do_get(context, ticket)


@pytest.fixture
def service() -> Iterator[SlowFeed]:
    server = SlowFeed()
    yield server
    server.go.set()
    server.shutdown()


def rows(lake: Lake, table: str) -> Counter[Any]:
    found = QueryBuilder().register("t", DeltaTable(lake.path("shop", table))).execute("SELECT * FROM t").read_all()
    return Counter(zip(*(column.to_pylist() for column in pa.table(found).columns), strict=True))


@pytest.mark.parametrize(
    ("table", "first", "epoch"),
    [(table, first, 1) for table in (LINES, ORDERS, ODD) for first in (4, 0)] + [(ORDERS, 4, 2)],
)
def test_what_a_dead_run_left_under_way_does_not_come_twice(
    service: SlowFeed,
    sessions: Sessions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: Table,
    first: int,
    epoch: int,
) -> None:
    """A killed run's statement goes on in Spark. The next claimer, of a later epoch too, has read the state
    when it commits."""
    lake = Lake(tmp_path)
    service.put(table, [Change(n, None, (n, "x") if table is ORDERS else (n % 2, "x")) for n in range(1, 11)])
    if first:
        apply_batch(service.claim(1, 0, first), lake, sessions, service.url)
    dead, longer = service.claim(2, first, 8), service.claim(3, first if epoch == 1 else 0, 10, epoch)
    load = merge.load

    def load_late(spark: SparkSession, read: TableRead, *rest: Any) -> None:
        """Between reading the state and the statement of batch 3, batch 2 comes to its end."""
        if read.tickets[0].startswith(b"3/"):
            service.go.set()
            left_over.exception(60)
        load(spark, read, *rest)

    monkeypatch.setattr(merge, "load", load_late)
    with ThreadPoolExecutor(1) as beside:
        left_over = beside.submit(apply_batch, dead, lake, sessions, service.url, local_rows=0)
        assert service.under_way.wait(60)
        apply_batch(longer, lake, sessions, service.url)

    assert isinstance(left_over.exception(), LakeError)
    assert sum(rows(lake, table.name).values()) == 10
