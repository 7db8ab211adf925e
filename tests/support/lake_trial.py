"""A lake that follows statements and rows of a feed, for the tests of `spark_jobs.apply.ddl`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from cdc_core.contract.claim import Claim
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import Ddl
from spark_jobs.apply.checks import judge
from spark_jobs.apply.result import BatchResult
from spark_jobs.lake.policies import Policies, TablePolicy
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from tests.support.applying import apply_batch
from tests.support.ddl_claims import with_ddl
from tests.support.spark_feed import JOURNAL, Change, Feed


class LakeTrial:
    """A lake, the service that feeds it, and the batch numbers."""

    def __init__(self, service: Feed, sessions: Sessions, root: Path) -> None:
        self.service, self.sessions, self.lake = service, sessions, Lake(root)
        self.batches = 0

    def claim(self, start: int, end: int, *ddl: Ddl, epoch: int = 1, moved: int = 0) -> Claim:
        self.batches += 1
        claim = with_ddl(self.service.claim(self.batches, start, end, epoch), *ddl)
        return replace(claim, moved=moved)

    def apply(
        self,
        start: int,
        end: int,
        *ddl: Ddl,
        policy: TablePolicy | None = None,
        epoch: int = 1,
        moved: int = 0,
        stopped: Sequence[str] = (),
    ) -> BatchResult:
        """Applies the range. Every check of every table agrees."""
        claim = self.claim(start, end, *ddl, epoch=epoch, moved=moved)
        policies = Policies(policy or TablePolicy())
        batch = apply_batch(claim, self.lake, self.sessions, self.service.url, policies=policies, stopped=stopped)
        for result in batch.applied:
            for verdict in judge(claim, result):
                assert verdict.passed, verdict.text
        return batch

    def rows(self, table: str, database: str = "shop") -> Counter[Any]:
        """The table's rows, through delta-rs: not the engine that wrote it."""
        there = DeltaTable(self.lake.path(database, table))
        found = pa.table(QueryBuilder().register("t", there).execute("SELECT * FROM t").read_all())
        return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def state(self, table: str, database: str = "shop") -> TableState:
        name = f"{database}.{table}"
        state = self.lake.state(self.lake.path(database, table), app_id("d", 1, name, 1))
        assert state is not None
        return state


def inserts(*ids: int, at: int) -> list[Change]:
    return [Change(at, None, (number, "x")) for number in ids]


def version(position: int) -> int:
    return EntryPosition(JOURNAL, position).version()
