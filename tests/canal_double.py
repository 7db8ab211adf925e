"""Doubles of the capture service and the lake, in memory: a whole drain without MySQL and without Spark.

`MemoryCanal` keeps the real connector's `claim` block, with its ack and rollback; only the calls behind it are here.
"""

# ruff: noqa: ARG002
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.errors import SessionError
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from cdc_core.session.claim import Claim, TableRange
from spark_jobs.checks import TableResult

ORDERS = TableSchema(
    "shop",
    "orders",
    (
        Column("id", 8, 0, nullable=False, column_type="bigint"),
        Column("note", 15, 40, charset=255, comment="free text"),
    ),
    ("id",),
    "What people bought",
)
USERS = TableSchema("shop", "users", (Column("id", 3, 0, nullable=False, column_type="int"),), ("id",))


def position(number: int) -> EntryPosition:
    return EntryPosition("mysql-bin.000007", 1000 * (number + 1), gtid=f"uuid:1-{number + 1}")


class MemoryCanal(Connector):
    """A destination with a fixed number of batches, each with ten inserts of every table."""

    def __init__(self, batches: int = 0, tables: Sequence[TableSchema] = (ORDERS, USERS)) -> None:
        super().__init__("http://127.0.0.1:1", "shop")
        self.schemas = tuple(tables)
        self.put, self.get, self.acked = batches, 0, 0
        self.rollbacks = 0
        self.held: list[Claim] = []
        self.stopped: list[dict[str, Any]] = []
        self.log: list[str] = []
        self.error: dict[str, Any] | None = None
        self.lag = 1.0
        self.reasons: list[str] = []

    token = None

    @contextmanager
    def connect(self) -> Iterator[MemoryCanal]:
        """As the resource does it."""
        yield self

    def status(self) -> dict[str, Any]:
        state = "failed" if self.error else "running"
        return {
            "destination": "shop",
            "state": state,
            "position": position(self.put - 1).to_dict(),
            "lag_seconds": self.lag,
            "error": self.error,
        }

    def tables(self) -> list[TableSchema]:
        return list(self.schemas)

    def client_state(self) -> dict[str, Any]:
        cursor = position(self.acked - 1).to_dict()
        return {
            "client_id": 1001,
            "cursor": cursor,
            "acked": cursor if self.acked else None,
            "epoch": 0,
            "backlog_rows": 10 * len(self.schemas) * (self.put - self.acked),
            "backlog_bytes": 100 * (self.put - self.acked),
            "put": self.put,
            "get": self.get,
            "ack": self.acked,
            "claims": [{"batch_id": c.batch_id, "owner": c.owner, "rows": c.rows} for c in self.held],
            "stopped": list(self.stopped),
            "rollbacks": self.rollbacks,
        }

    def get_without_ack(
        self, batch_size: int, *, owner: str, timeout_seconds: float = 0.0, lease_seconds: float | None = None
    ) -> Claim | None:
        if self.get >= self.put:
            return None
        number = self.get
        self.get += 1
        claim = Claim(
            destination="shop",
            client_id=self.client_id,
            batch_id=number + 1 + 100 * self.rollbacks,
            start=position(number - 1),
            end=position(number),
            tables=tuple(TableRange(schema, 10, 0, 0) for schema in self.schemas),
            transactions=1,
            events=4,
            nbytes=100,
            execute_times=((1_000, 5), (1_004, 5)),
            epoch=0,
            owner=owner,
            lease_deadline=time.time() + 60,
        )
        self.held.append(claim)
        self.log.append(f"claim {number + 1}")
        return claim

    def ack(self, claim: Claim) -> EntryPosition | None:
        if not self.held or self.held[0] != claim:
            raise SessionError("not the first", place=str(claim.batch_id), hint="Claim again.")
        self.held.pop(0)
        self.acked += 1
        self.log.append(f"ack {self.acked}")
        return claim.end

    def rollback(self, claim: Claim | None = None, *, owner: str | None = None, reason: str) -> list[int]:
        mine = [c for c in self.held if (claim and c == claim) or (claim is None and owner in (None, c.owner))]
        if not mine:
            return []
        self.held, self.get = [], self.acked
        self.rollbacks += 1
        self.log.append("rollback")
        self.reasons.append(reason)
        return [c.batch_id for c in mine]

    def stop_table(self, table: str, *, reason: str, hint: str, position: EntryPosition) -> None:
        self.log.append(f"stop {table}")
        self.stopped.append({"table": table, "reason": reason, "hint": hint, "position": str(position)})


class MemoryLake:
    """A lake that takes everything. `spoil` may change or raise what a claim comes to."""

    def __init__(self, spoil: Callable[[Claim, list[TableResult]], list[TableResult]] | None = None) -> None:
        self._spoil = spoil or (lambda _claim, results: results)
        self.noted: list[int] = []
        self.cursor_error: Exception | None = None

    @contextmanager
    def open(self, _connector: Connector, _token: str | None) -> Iterator[MemoryLake]:
        yield self

    def check_cursor(self, _state: Mapping[str, Any]) -> None:
        if self.cursor_error:
            raise self.cursor_error

    def apply(self, claim: Claim, run_id: str, parallelism: int, stopped: Sequence[str]) -> list[TableResult]:
        results = [taken(share, claim) for share in claim.tables if share.name not in stopped]
        return self._spoil(claim, results)

    def note(self, claim: Claim, results: Sequence[TableResult], run_id: str) -> None:
        self.noted.append(claim.batch_id)


def taken(share: TableRange, claim: Claim) -> TableResult:
    return TableResult(
        share.name,
        version=claim.end.version(),
        inserts=share.inserts,
        net_rows=share.rows,
        upserts=share.inserts,
        inserted=share.inserts,
        delta_version=claim.batch_id,
        merge_seconds=0.25,
        applied_at=1_010.0,
    )
