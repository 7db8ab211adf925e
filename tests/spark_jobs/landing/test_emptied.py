"""Statements after which tables have no rows, in change logs, without Spark: each log shows them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from cdc_core.contract.claim import Claim
from cdc_core.schema.ddl import Effect, EffectKind
from spark_jobs.apply.result import BatchResult
from spark_jobs.changes.columns import OP, TRUNCATE, VERSION
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.unfollowed import Unfollowed
from spark_jobs.session import Sessions
from tests.support.applying import apply_batch
from tests.support.ddl_claims import statement, with_ddl
from tests.support.lake_trial import version
from tests.support.spark_feed import Change, Feed, Table

FIELDS = pa.schema([("id", pa.int32()), ("v", pa.string())])
ORDERS, ITEMS = Table("orders", FIELDS, ("id",)), Table("items", FIELDS, ("id",))
DROPPED, OTHER = (Effect(EffectKind.DROP_DATABASE, name, "") for name in ("shop", "hotel"))
MAYBE_MADE = Effect(EffectKind.CREATE, "shop", "orders", schema=ORDERS.schema, conditional=True)


def landed(service: Feed, lake: Lake, claim: Claim) -> BatchResult:
    """What a run makes of a claim of tables that have their logs alone."""
    sessions, modes = Sessions("sc://127.0.0.1:1"), Modes(Mode.APPEND)
    return apply_batch(claim, lake, sessions, service.url, modes=modes)


def logged(lake: Lake, table: str) -> list[tuple[int, str, int | None]]:
    """Version, op and key, in order."""
    found = pa.table(lake.open(lake.log_path("shop", table)).to_pyarrow_table()).sort_by(VERSION)
    return list(zip(*(found[name].to_pylist() for name in (VERSION, OP, "id")), strict=True))


def test_a_dropped_database_empties_the_logs_of_its_tables(service: Feed, tmp_path: Path) -> None:
    """Once, also where CREATE TABLE IF NOT EXISTS brings a table again and rows follow in the same claim."""
    lake = Lake(tmp_path)
    for table in (ORDERS, ITEMS):
        service.put(table, [Change(10, None, (1, "a"))])
    landed(service, lake, service.claim(1, 5, 10))
    service.put(ORDERS, [Change(40, None, (2, "b"))])
    for batch_id in (2, 3):
        claim = with_ddl(service.claim(batch_id, 10, 40), statement(20, DROPPED, OTHER), statement(30, MAYBE_MADE))
        assert not landed(service, lake, claim).refused
    before, emptied = (version(10), "insert", 1), (version(20), TRUNCATE, None)
    assert logged(lake, "orders") == [before, emptied, (version(40), "insert", 2)]
    assert logged(lake, "items") == [before, emptied]
    assert Unfollowed(lake, "d", 1).places() == {}  # a table that is made of the log later lacks nothing
