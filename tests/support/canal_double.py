"""Doubles of the capture service and the lake in memory: a drain without MySQL and without Spark.

`MemoryCanal` keeps the `claim` block of the real connector with its ack and rollback; only the calls behind it are
doubles.
"""

# ruff: noqa: ARG002
from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from cdc_core.client.connector import Connector
from cdc_core.client.snapshot_calls import SnapshotCalls
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.contract.client_status import ClaimStatus, ClientStatus
from cdc_core.contract.quarantined_tables import bounded
from cdc_core.contract.reached import How, Reached
from cdc_core.contract.snapshot import Snapshot
from cdc_core.contract.status import ErrorReport, Status
from cdc_core.contract.stopped_table import StopKind, StoppedTable, blocked_tables
from cdc_core.errors import SessionError, SluiceError
from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.apply.commits import Commit, SourceCounts
from spark_jobs.apply.decision import Decision
from spark_jobs.apply.progress import Progress
from spark_jobs.apply.result import BatchResult, Refusal, TableResult
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.tables import Lake

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


SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def position(number: int) -> EntryPosition:
    gtids = GtidSet.of({(SERVER, ""): ((1, number + 2),)})
    return EntryPosition("mysql-bin.000007", 1000 * (number + 1), gtid=gtids)


class MemorySnapshots(SnapshotCalls):
    """The open snapshots of a `MemoryCanal`. A first one stops its table."""

    def __init__(self, canal: MemoryCanal) -> None:
        self.canal = canal
        self.opened: list[Snapshot] = []

    def open(self, table: str, *, owner: str, first: bool = False, lease_seconds: float = 60.0) -> Snapshot:
        found = Snapshot(table, f"id-{table}", owner, lease_seconds, time.time() + lease_seconds, 0)
        self.opened.append(found)
        if first:
            self.canal.stopped.append(StoppedTable(table, "its first snapshot", "Wait.", position(0)))
        return found


class MemoryCanal(Connector):
    """A destination with a fixed number of batches of ten inserts into each table."""

    def __init__(self, batches: int = 0, tables: Sequence[TableSchema] = (ORDERS, USERS)) -> None:
        super().__init__("http://127.0.0.1:1", "shop")
        self.schemas = tuple(tables)
        self.put, self.get, self.acked = batches, 0, 0
        self.snapshots: MemorySnapshots = MemorySnapshots(self)
        self.rollbacks = 0
        self.held: list[Claim] = []
        self.stopped: list[StoppedTable] = []
        self.log: list[str] = []
        self.error: ErrorReport | None = None
        self.lag = 1.0
        self.reasons: list[str] = []
        self.quarantined: dict[str, int] = {}
        self.blocked: tuple[StoppedTable, ...] = ()
        self.reports: list[tuple[dict[str, int], bool]] = []
        self.report_error: SluiceError | None = None

    token = None

    @contextmanager
    def connect(self) -> Iterator[MemoryCanal]:
        """Connects as the resource does."""
        yield self

    draining = reading = connect

    def status(self) -> Status:
        state = "failed" if self.error else "running"
        end = position(self.put - 1)
        return Status("shop", state, position=end, lag_seconds=self.lag, error=self.error)

    def statuses(self) -> dict[str, Status]:
        return {"shop": self.status()}

    def tables(self) -> list[TableSchema]:
        return list(self.schemas)

    def subscribe(self) -> ClientStatus:
        return self.client_status()

    def client_status(self) -> ClientStatus:
        cursor = position(self.acked - 1)
        return ClientStatus(
            client_id=1001,
            cursor=cursor,
            reached=Reached(How.BATCH, 0, cursor) if self.acked else None,
            epoch=0,
            backlog_rows=10 * len(self.schemas) * (self.put - self.acked),
            backlog_bytes=100 * (self.put - self.acked),
            put=self.put,
            get=self.get,
            ack=self.acked,
            claims=tuple(map(ClaimStatus.of, self.held)),
            stopped=tuple(self.stopped),
            snapshots=tuple(self.snapshots.opened),
            rollbacks=self.rollbacks,
            generation=7000 + self.rollbacks,
            quarantined=dict(self.quarantined),
            blocked=self.blocked,
        )

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
            stopped=tuple(stop.table for stop in self.stopped),
            moments=(None, None, None, 1_008.5),
        )
        self.held.append(claim)
        self.log.append(f"claim {number + 1}")
        return claim

    def ack(self, claim: Claim, mended: Collection[str] = ()) -> EntryPosition | None:
        self.stopped = [stop for stop in self.stopped if stop.table not in mended]
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

    def report_quarantined(self, rows: Mapping[str, int], *, whole: bool = False) -> None:
        if self.report_error is not None:
            raise self.report_error
        self.reports.append((dict(rows), whole))
        self.quarantined = bounded(rows if whole else self.quarantined | dict(rows))

    def report_blocked(self, tables: Iterable[StoppedTable]) -> None:
        if self.report_error is not None:
            raise self.report_error
        self.blocked = blocked_tables(tables)
        self.log.append(f"blocked {[one.table for one in self.blocked]}")

    def stop_table(
        self,
        table: str,
        *,
        reason: str,
        hint: str,
        position: EntryPosition,
        copy_needed: bool = False,
        kind: StopKind = "stopped",
    ) -> None:
        self.log.append(f"stop {table}")
        self.stopped.append(StoppedTable(table, reason, hint, position, copy_needed=copy_needed, kind=kind))


class MemoryLake:
    """A lake that takes everything. `spoil` may change the results of a claim, or raise. `there` are the tables that it
    had before."""

    conf = "/conf"
    lake = Lake("/nowhere")

    def __init__(
        self, spoil: Callable[[Claim, BatchResult], BatchResult] | None = None, there: Sequence[TableSchema] = ()
    ) -> None:
        self.there = there
        self._spoil = spoil or (lambda _claim, batch: batch)
        self.noted: list[int] = []
        self.known_doubts: dict[str, Doubt] = {}
        self.cursor_error: Exception | None = None
        self.lost: tuple[Refusal, ...] = ()
        self.needs_spark = True
        self.connected = 0
        self.side_by_side: list[int] = []
        self.progress = Progress()
        self.has_quarantines = False
        self.waiting: dict[str, int] = {}
        self.blocks: tuple[StoppedTable, ...] = ()
        self.count_error: Exception | None = None

    def connect(self) -> int:
        self.connected += 1
        return 3

    @contextmanager
    def open(self, _connector: Connector, _token: str | None) -> Iterator[MemoryLake]:
        yield self

    def has(self, table: TableSchema) -> bool:
        return table in self.there

    def check_cursor(self, _client: ClientStatus) -> str:
        if self.cursor_error:
            raise self.cursor_error
        return ""

    def check_claim(self, _claim: Claim) -> None:
        """Every claim follows."""

    def forgotten_stops(self, _claim: Claim) -> tuple[Refusal, ...]:
        return ()

    def lost_rows(self, _claim: Claim, _tables: Sequence[str]) -> tuple[Refusal, ...]:
        return self.lost

    def doubts(self) -> dict[str, Doubt]:
        return dict(self.known_doubts)

    def blocked(self) -> tuple[StoppedTable, ...]:
        return self.blocks

    def may_wait(self, table: str) -> bool:
        return table in self.waiting

    def waiting_rows(self, epoch: int, tables: Collection[str] | None = None) -> dict[str, int]:
        if self.count_error is not None:
            raise self.count_error
        return {name: self.waiting.get(name, 0) for name in (self.waiting if tables is None else tables)}

    def apply(self, claim: Claim, run_id: str, parallelism: int, stopped: Sequence[str]) -> BatchResult:
        self.side_by_side.append(parallelism)
        results = tuple(taken(share, claim) for share in claim.tables if share.name not in stopped)
        return self._spoil(claim, BatchResult(results))

    def note(self, claim: Claim, batch: BatchResult, run_id: str, doubts: Mapping[str, Doubt]) -> None:
        self.noted.append(claim.batch_id)
        self.known_doubts |= doubts


def taken(share: TableRange, claim: Claim) -> TableResult:
    end = claim.end.version()
    counts = SourceCounts(
        inserts=share.inserts, net_rows=share.rows, upserts=share.inserts, gained=share.inserts, lost=0
    )
    commit = Commit(end, source=counts, inserted=share.inserts, delta_version=claim.batch_id)
    return TableResult(Decision(share.name, end), commit, merge_seconds=0.25, planned_at=1_009.5, applied_at=1_010.0)
