"""A writer of an earlier claim is still at work on a real Spark server while the next one begins."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import TableRead
from cdc_core.errors import LakeError
from cdc_core.schema.table import TableSchema
from spark_jobs.apply import together
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.write import fused, net_file, seen
from spark_jobs.write.order import Claimed, Engine, Order, Outcome
from tests.support.applying import apply_batch
from tests.support.marks import mostly_full
from tests.support.spark_feed import Change, Feed, Table

pytestmark = pytest.mark.integration

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
LINES = Table("lines", pa.schema({"a": pa.int32(), "b": pa.string()}))
ODD = Table("odd", pa.schema({"a b": pa.int32(), "c,d": pa.string()}))  # names that only Delta's column mapping takes


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
    ("table", "first", "epoch", "staged", "engine"),
    mostly_full(
        [(table, first, 1, False, Engine.SQL) for table in (LINES, ORDERS, ODD) for first in (4, 0)]
        + [(ORDERS, 4, epoch, staged, Engine.SQL) for epoch, staged in ((2, False), (1, True), (2, True))]
        + [(table, first, 1, False, Engine.AUTO) for table in (LINES, ORDERS) for first in (4, 0)]
        + [(ORDERS, 4, 2, False, Engine.AUTO)],
        lambda case: case[4] is Engine.SQL and (case[3] or case[:3] in ((LINES, 0, 1), (ORDERS, 4, 1), (ORDERS, 4, 2))),
    ),
)
def test_a_statement_of_a_dead_run_is_not_applied_twice(
    service: SlowFeed,
    sessions: Sessions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: Table,
    first: int,
    epoch: int,
    staged: bool,
    engine: Engine,
) -> None:
    """The statement or the job of a killed run goes on in Spark, and commits after the next claimer, also of a later
    epoch, has read the state. One whose rows are staged meanwhile does not begin."""
    monkeypatch.setattr(net_file, "LEAST_ROWS", 1 if staged else net_file.LEAST_ROWS)
    lake = Lake(tmp_path)
    service.put(table, [Change(n, None, (n, "x") if table is ORDERS else (n % 2, "x")) for n in range(1, 11)])
    if first:
        apply_batch(service.claim(1, 0, first), lake, sessions, service.url)
    dead, longer = service.claim(2, first, 8), service.claim(3, first if epoch == 1 else 0, 10, epoch)
    create_view = seen.create_view

    def create_view_late(spark: SparkSession, read: TableRead, *rest: Any, **named: Any) -> None:
        """Between reading the state and the statement of batch 3, batch 2 comes to its end."""
        if read.tickets[0].startswith(b"3/"):
            service.go.set()
            left_over.exception(60)
        create_view(spark, read, *rest, **named)

    def write_all_late(spark: SparkSession, orders: Sequence[Order], tasks: int) -> list[Outcome]:
        """The same before the job of batch 3."""
        changes = orders[0].changes
        if isinstance(changes, Claimed) and changes.tickets[0].startswith(b"3/"):
            service.go.set()
            left_over.exception(60)
        return fused.write_all(spark, orders, tasks)

    monkeypatch.setattr(seen, "create_view", create_view_late)
    monkeypatch.setattr(together, "write_all", write_all_late)
    with ThreadPoolExecutor(1) as beside:
        left_over = beside.submit(apply_batch, dead, lake, sessions, service.url, sent_rows=0, engine=engine)
        assert service.under_way.wait(60)
        apply_batch(longer, lake, sessions, service.url, engine=engine)

    assert isinstance(left_over.exception(), LakeError)
    assert sum(rows(lake, table.name).values()) == 10


class WithPrice(Table):
    """ORDERS after ALTER TABLE ... ADD COLUMN price INT DEFAULT 7."""

    @property
    def schema(self) -> TableSchema:
        *before, price = super().schema.columns
        price = replace(price, default="7", column_type="int")
        return replace(super().schema, columns=(*before, price))


@pytest.mark.parametrize(
    "late", mostly_full(["SET TBLPROPERTIES", "ADD COLUMNS", "UPDATE"], lambda case: case != "ADD COLUMNS")
)
def test_a_statement_that_adds_a_column_for_a_dead_run_changes_no_value(
    service: SlowFeed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """The dead run begins the statement after the next run has added the column and written values into it."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x")), Change(2, None, (2, "x"))])
    apply_batch(service.claim(1, 0, 2), lake, sessions, service.url)
    service.tables["shop.orders"] = WithPrice("orders", ORDERS.fields.append(pa.field("price", pa.int32())), ("id",))
    service.changes["shop.orders"] = [Change(3, (1, "x", 7), (1, "x", 50)), Change(4, (2, "x", 7), (2, "y", 7))]
    dead, longer, last = service.claim(2, 2, 3), service.claim(3, 2, 3), service.claim(4, 3, 4)
    sql, reached, go = SparkSession.sql, threading.Event(), threading.Event()

    def sql_late(spark: SparkSession, text: str, *rest: Any) -> Any:
        """The first statement with the word waits."""
        if late in text and not reached.is_set():
            reached.set()
            go.wait(120)
        return sql(spark, text, *rest)

    monkeypatch.setattr(SparkSession, "sql", sql_late)
    with ThreadPoolExecutor(1) as beside:
        left_over = beside.submit(apply_batch, dead, lake, sessions, service.url)
        assert reached.wait(120)
        apply_batch(longer, lake, sessions, service.url)
        go.set()
        left_over.exception(120)
    apply_batch(last, lake, sessions, service.url)

    assert rows(lake, "orders") == Counter([(1, "x", 50), (2, "y", 7)])


def test_a_run_that_lost_its_claim_does_not_alter_a_table(sessions: Sessions, tmp_path: Path) -> None:
    """It finds the token of the run that has the claim now."""
    path, lake = str(tmp_path), Lake(tmp_path)
    write_deltalake(path, pa.table({"id": [1]}))
    lost, next_run = Fence(lake, sessions), Fence(lake, sessions)
    for run in (lost, next_run):
        state = lake.state(path, "app")
        assert state is not None
        run.enter(path, "app", state)

    next_run.check(path)
    with pytest.raises(LakeError, match="another run has taken the table over"):
        lost.check(path)
