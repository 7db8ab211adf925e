# ruff: noqa: ARG002, ARG005 - a double takes what the real one takes
"""A server for tests of the doors: one destination whose batches are put in by hand, with real rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import SecretStr

from cdc_core.binlog.block import Block, BlockSlice
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.contract.client_status import ClaimStatus, ClientStatus
from cdc_core.contract.quarantined_tables import bounded
from cdc_core.contract.reached import How, Reached
from cdc_core.contract.status import ErrorReport, SourceStatus, StartReport, Status, StoreFigures
from cdc_core.contract.stopped_table import StoppedTable, blocked_tables
from cdc_core.destination.metrics import Metrics
from cdc_core.destination.positions import ClientPosition, Positions
from cdc_core.destination.rewind import Move, Reset, RewindPlan, RewindTarget
from cdc_core.errors import CursorError, RangeGone, SessionError, SluiceError, SourceUnavailable, UnknownDestination
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.rules.claims import seen_claim
from cdc_core.rules.rules import Rules, fingerprint_of, salted
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.session.upcoming import Upcoming
from cdc_core.source.expiry import ExpiryReport
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.ddl_events import DdlReader
from tests.support.binlog_files import Log, image, table_map_body

COLUMNS = [("id", 8, b""), ("qty", 3, b""), ("name", 15, b"\xff\x00")]
TABLE = "shop.orders"


@dataclass
class Config:
    lease_seconds: float = 60.0
    heartbeat_seconds: float = 5.0
    batch_mode: str = "MEMSIZE"
    buffer_size: int = 16384
    buffer_memunit: int = 1024
    zero_dates: ZeroDates = "fail"
    tcp_user: str = ""
    tcp_passwd: SecretStr = SecretStr("")  # noqa: RUF009 - it does not change
    tcp_anyone: bool = False
    filter_field: dict[str, frozenset[str]] = field(default_factory=dict)
    filter_black_field: dict[str, frozenset[str]] = field(default_factory=dict)
    filter_query_dcl: bool = False
    filter_query_dml: bool = False
    filter_query_ddl: bool = False
    gtid_mode: bool = False
    ddl_entries: str = "statement"
    filter_rows: bool = False
    filter_table_error: bool = False
    filter_transaction_entry: bool = False
    filter_dml_insert: bool = False
    filter_dml_update: bool = False
    filter_dml_delete: bool = False


def orders(first: int, count: int, registry: SchemaRegistry, start: int = 4) -> Block:
    """One transaction that inserts `count` orders, a hundred rows an event."""
    log = Log(start)
    log.query("BEGIN")
    log.table_map(9, table_map_body("orders", COLUMNS, [0]))
    ids = list(range(first, first + count))
    for at in range(0, count, 100):
        images = b"".join(image(COLUMNS, (key, key % 7, f"n{key}")) for key in ids[at : at + 100])
        log.rows(30, 9, 3, images, flags=int(at + 100 >= count))
    log.add(16, (7).to_bytes(8, "little"))
    block = log.block()
    Annotator(registry, lambda schema, _: schema, lambda database, table: True).annotate(block)
    return block


@dataclass
class Destination:
    """Batches wait in `blocks`; claimed ones are in `held`. Every call that needs the source raises `fail`, if set."""

    name: str = "shop"
    registry: SchemaRegistry = field(default_factory=SchemaRegistry)
    config: Config = field(default_factory=Config)
    blocks: list[Block] = field(default_factory=list)
    held: dict[int, tuple[Claim, Block]] = field(default_factory=dict)
    rules: str = ""
    seen: dict[int, Rules] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    stopped: list[StoppedTable] = field(default_factory=list)
    quarantined: dict[str, int] = field(default_factory=dict)
    blocked: tuple[StoppedTable, ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    error: ErrorReport | None = None
    start: StartReport | None = None
    binlog: ExpiryReport | None = None
    state: str = "running"
    connected: bool = True
    note: str | None = None
    fail: Exception | None = None
    cursor: EntryPosition | None = None
    last_acked: int = 0
    next_batch: int = 1
    changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, count: int, first: int = 1) -> None:
        with self.changed:
            start = self.blocks[-1].end if self.blocks else 4
            self.blocks.append(orders(first, count, self.registry, start))
            self.changed.notify_all()

    def service(self) -> Destination:
        return self

    def status(self) -> Status:
        return Status(
            destination=self.name,
            state=self.state,
            source=SourceStatus("127.0.0.1:3306", "8.0.31", 1, self.connected),
            start=self.start,
            binlog=self.binlog,
            position=EntryPosition("mysql-bin.000003", 9000, 1_700_000_000_000, 1),
            store=StoreFigures(900, 500, 400, 500, 9_000_000, 16384, 16_777_216),
            lag_seconds=0.4,
            backlog_rows=len(self.blocks),
            clients=(self.client(1001),),
            error=self.error,
            note=self.note,
            stages=self.stages,
        )

    def tables(self) -> list[TableSchema]:
        return [self.registry.get(0)] if len(self.registry) else []

    def client(self, client_id: int) -> ClientStatus:
        return ClientStatus(
            client_id=client_id,
            cursor=self.cursor,
            reached=Reached(How.BATCH, 0, self.cursor) if self.cursor else None,
            epoch=1,
            backlog_rows=len(self.blocks),
            backlog_bytes=9_000_000,
            put=900,
            get=500,
            ack=400,
            claims=tuple(ClaimStatus.of(claim) for claim, _ in self.held.values()),
            stopped=tuple(self.stopped),
            rollbacks=0,
            generation=1_700_000_000_000_000,
            rules=fingerprint_of(self.rules),
            quarantined=dict(self.quarantined),
            blocked=self.blocked,
        )

    @property
    def ddl(self) -> DdlReader:
        return DdlReader(lambda *_: True)

    def subscribe(self, client_id: int, *, entries: bool = False) -> ClientStatus:
        return self.client(client_id)

    def unsubscribe(self, client_id: int) -> None:
        self.calls.append(("unsubscribe", client_id))

    def clients(self) -> list[int]:
        return [1001]

    def filter_of(self, client_id: int) -> str:
        return ""

    def batches(self, client_id: int, owner: str) -> list[int]:
        return sorted(number for number, (claim, _) in self.held.items() if claim.owner == owner)

    def await_change(self, seen: int, seconds: float) -> tuple[int, bool]:
        with self.changed:
            happened = len(self.blocks) != seen or self.changed.wait(seconds)
            return len(self.blocks), happened

    def claim(
        self,
        client_id: int,
        batch_size: int,
        timeout_seconds: float,
        owner: str,
        lease_seconds: float,
        max_bytes: int | None = None,
        *,
        entries: bool = False,
    ) -> Claim | None:
        if self.fail:
            raise self.fail
        seen = salted(self.rules)
        with self.changed:
            if not self.changed.wait_for(lambda: self.blocks, timeout_seconds):
                return None
            block = self.blocks.pop(0)
            claim = self._claim(block, client_id, owner, time.time() + lease_seconds)
            self.held[claim.batch_id] = (claim, block)
            self.seen[claim.batch_id] = seen
            self.next_batch += 1
            return seen_claim(claim, seen)

    def span(self, client_id: int, batch_id: int) -> tuple[int, int] | None:
        if batch_id not in self.held:
            return None
        block = self.held[batch_id][1]
        return id(block), block.end

    def upcoming(self, client_id: int, max_rows: int, max_bytes: int) -> Upcoming | None:
        with self.changed:
            if not self.blocks:
                return None
            block = self.blocks[0]
            return Upcoming(id(block), block.end, None, [BlockSlice(block, 0, len(block.index))])

    @property
    def sessions(self) -> Destination:
        return self

    def _claim(self, block: Block, client_id: int, owner: str, deadline: float) -> Claim:
        rows = int(block.index["rows"].sum())
        return Claim(
            destination=self.name,
            client_id=client_id,
            batch_id=self.next_batch,
            start=EntryPosition(block.journal_name, block.start),
            end=EntryPosition(block.journal_name, block.end),
            tables=(TableRange(self.registry.get(0), rows, 0, 0),),
            transactions=1,
            events=len(block.index),
            nbytes=block.nbytes,
            execute_times=((1_700_000_000, rows),),
            epoch=1,
            owner=owner,
            lease_deadline=deadline,
        )

    def ack(self, client_id: int, batch_id: int, owner: str, mended: Collection[str] = ()) -> EntryPosition | None:
        self.calls.append(("ack", batch_id))
        if self.fail:
            raise self.fail
        if batch_id != self.last_acked:
            claim, _ = self._held(batch_id, owner)
            del self.held[batch_id]
            self.cursor, self.last_acked = claim.end, batch_id
        return self.cursor

    def renew(self, client_id: int, batch_id: int, owner: str, lease_seconds: float) -> float:
        self.calls.append(("renew", batch_id, lease_seconds))
        claim, block = self._held(batch_id, owner)
        self.held[batch_id] = (replace(claim, lease_deadline=time.time() + lease_seconds), block)
        return self.held[batch_id][0].lease_deadline

    def rollback(self, client_id: int, batch_id: int | None, owner: str | None, reason: str) -> list[int]:
        self.calls.append(("rollback", batch_id, reason))
        given = [held for held in sorted(self.held) if batch_id is None or held >= batch_id]
        self.blocks[:0] = [self.held.pop(held)[1] for held in given]
        return given

    def stop_table(self, client_id: int, stopped: StoppedTable) -> None:
        self.stopped = [*(one for one in self.stopped if one.table != stopped.table), stopped]

    def lift_stop(self, client_id: int, table: str, copied: EntryPosition | None, owner: str = "") -> None:
        self.stopped = [entry for entry in self.stopped if entry.table != table]

    def report_blocked(self, client_id: int, tables: Iterable[StoppedTable]) -> None:
        self.blocked = blocked_tables(tables)

    def report_quarantined(self, client_id: int, rows: Mapping[str, int], *, whole: bool) -> None:
        self.calls.append(("quarantined", len(rows), whole))
        self.quarantined = bounded(rows if whole else self.quarantined | dict(rows))

    def rules_of(self, client_id: int) -> str:
        return self.rules

    def set_rules(self, client_id: int, text: str) -> None:
        self.rules = text if salted(text) else ""

    def seen_by(self, client_id: int, batch_id: int) -> Rules:
        self.slices(client_id, batch_id)
        return self.seen[batch_id]

    def slices(self, client_id: int, batch_id: int) -> list[BlockSlice]:
        if batch_id not in self.held:
            raise RangeGone(f"batch {batch_id} is gone", place=f"{self.name}/{client_id}", hint="Claim again.")
        block = self.held[batch_id][1]
        return [BlockSlice(block, 0, len(block.index))]

    def note_read(self, client_id: int, batch_id: int, part: str, error: Exception | None) -> None:
        self.calls.append(("read", batch_id, part, error and type(error).__name__))

    def metrics(self) -> Metrics:
        return Metrics(**{"heartbeat_age_seconds": 0.5, "stage_seconds": self.stages, **self.numbers})

    def _held(self, batch_id: int, owner: str) -> tuple[Claim, Block]:
        if batch_id not in self.held:
            raise SessionError(f"batch {batch_id} is not outstanding", place=self.name, hint="Claim again.")
        if self.held[batch_id][0].owner != owner:
            raise SessionError("not yours", place=self.name, hint="Roll back.")
        return self.held[batch_id]


class Server:
    """The server as the doors see it."""

    def __init__(self, *destinations: Destination) -> None:
        self.by_name = {destination.name: destination for destination in destinations}
        self.away = False

    def destinations(self) -> list[str]:
        return sorted(self.by_name)

    def has(self, name: str) -> bool:
        return name in self.by_name

    def destination(self, name: str) -> Destination:
        if name not in self.by_name:
            raise UnknownDestination(f"no destination {name!r}", hint="Known: " + ", ".join(self.by_name))
        return self.by_name[name]

    def start_destination(self, name: str) -> Status:
        return self._switched(name, "running", None)

    def stop_destination(self, name: str) -> Status:
        return self._switched(name, "stopped", "stopped by an operator")

    def reload_destination(self, name: str) -> Status:
        return self._switched(name, "starting", None)

    def positions(self, name: str) -> Positions:
        self.destination(name)
        if self.away:
            raise SourceUnavailable("the server cannot be reached", place="127.0.0.1:3306", hint="Start it.")
        cursor = EntryPosition("mysql-bin.000003", 4)
        client = ClientPosition(1001, 1, cursor, bytes=8996, transactions=12, seconds=2.5, files_left=1)
        end = EntryPosition("mysql-bin.000003", 9000)
        return Positions(name, "127.0.0.1:3306", end, "mysql-bin.000002", 2, (client,))

    def reset_destination(self, name: str, target: RewindTarget, *, dry_run: bool) -> Reset:
        self.destination(name).calls.append(("reset", target, dry_run))
        place = LogPosition("127.0.0.1", 3306, EntryPosition("mysql-bin.000002", 4))
        plan = RewindPlan(place, (Move(1001, place, 77, target.moved),))
        return Reset(name, plan, done=not dry_run)

    def _switched(self, name: str, state: str, note: str | None) -> Status:
        destination = self.destination(name)
        destination.state = state
        destination.note = note
        return destination.status()


@contextmanager
def opened(door: Any) -> Iterator[Any]:
    """The door, open for the length of the block."""
    door.start()
    try:
        yield door
    finally:
        door.stop()


def cursor_store_away() -> SluiceError:
    return CursorError("ZooKeeper is away", place="/otter/canal", hint="Start ZooKeeper.")
