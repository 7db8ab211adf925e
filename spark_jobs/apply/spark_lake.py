"""A run's interface to the lake: check the cursor, apply a claim, note it in the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from cdc_core.client.changes import RowsDoor
from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.schema.column_rule import ZeroDates
from spark_jobs.apply.batch import apply_batch
from spark_jobs.apply.cascade import Cascades
from spark_jobs.apply.ddl.copies import Copier
from spark_jobs.apply.forgotten import forgotten_stops, unnoted_stops
from spark_jobs.apply.lost import lost_rows
from spark_jobs.apply.progress import Progress
from spark_jobs.apply.result import BatchResult, Refusal
from spark_jobs.apply.table import Batch, CatchUp
from spark_jobs.apply.waiting_rows import WaitingRows
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations, Severity
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.policies import EVOLVE, Policies
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import MERGE_ALL, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.landing.parked import Parking
from spark_jobs.session import Sessions, cores
from spark_jobs.snapshot.source import Source
from spark_jobs.stores import flush
from spark_jobs.union.settled import settle
from spark_jobs.write.order import Engine


@dataclass(frozen=True, slots=True)
class SparkLake:
    """`fence` and `sampled` (the tables whose odd rows were named) are the run's own; `token` opens the service's
    Flight door. `source`: None where a run cannot read the source. `cascades`: None where none follow. `modes`: which
    tables are landed; `notes` are the run's own. `catch_up` merges a table's log; `redefined` is called with the tables
    that followed a statement, after it. `progress` is the batch's progress. `engine`: what writes small tables. `owe`
    notes that a catalog must follow statements; None where tables are in none. `expectations` are evaluated before a
    table is written. `unfit`: shards that their unions cannot have, which no batch has looked at yet."""

    connector: Connector
    lake: Lake
    sessions: Sessions
    token: str
    fence: Fence
    source: Source | None = None
    cascades: Cascades | None = None
    clock: Callable[[], float] = time.time
    sampled: set[str] = field(default_factory=set)
    policies: Policies = EVOLVE
    zero_dates: ZeroDates = "fail"
    modes: Modes = MERGE_ALL
    notes: Notes = field(default_factory=Notes)
    catch_up: CatchUp | None = None
    redefined: Callable[[str], None] | None = None
    progress: Progress = field(default_factory=Progress)
    engine: Engine = Engine.AUTO
    owe: Callable[[], None] | None = None
    expectations: Expectations = NO_EXPECTATIONS
    unfit: set[str] = field(default_factory=set)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.lake, self.connector.destination, self.connector.client_id)

    @property
    def needs_spark(self) -> bool:
        """Whether the run that claims merges tables."""
        return not self.modes.all_land

    def connect(self) -> int:
        """Makes a Spark session for the first batch, and sends it a row. Returns how many tasks Spark runs at a time.
        Raises LakeError when Spark is down."""
        with self.sessions.take() as spark:
            spark.createDataFrame(pa.table({"ready": [1]})).collect()
            return cores(spark)

    def check_cursor(self, client: ClientStatus) -> str:
        """Returns warnings about the place where the destination continues and about unions, or "". Raises LakeError
        when rows would be missing in the lake. Unions have what their shards have then; the first batch stops or copies
        shards that they cannot have."""
        settled = settle(self.lake, self.connector.destination)
        self.unfit.update(settled.refused)
        if settled.ended and self.owe is not None:
            self.owe()
        reached = self.ledger.check(client.epoch, client.reached, client.identity)
        unfit = (f"the union of {table} lacks its rows: {error.message}" for table, error in settled.refused.items())
        return "\n".join(filter(None, (*settled.ended, *unfit, reached)))

    def check_claim(self, claim: Claim) -> None:
        """Raises LakeError for a claim that does not begin where the lake ends, or is not of the lake's writer."""
        self.ledger.check(claim.epoch, claim.reached, claim.identity)

    def lost_rows(self, claim: Claim, tables: Collection[str]) -> tuple[Refusal, ...]:
        """The tables, of these and of those that the ledger knows, whose rows the present server has lost; asked before
        the first batch from another server."""
        ledger = self.ledger
        if not claim.moved or any(epoch >= claim.moved for epoch in ledger.stretches()):
            return ()
        known = {*tables, *claim.table_names, *ledger.tables()}
        return lost_rows(self.lake, claim, known, self.connector.missing, time.sleep)

    def forgotten_stops(self, claim: Claim) -> tuple[Refusal, ...]:
        """Returns the tables that must be stopped again: their changes were acked, and the service has lost their
        stop."""
        return forgotten_stops(self.ledger, claim)

    def doubts(self) -> dict[str, Doubt]:
        """By table, the rows that were not as the source's changes presume, since the table was made."""
        return self.ledger.doubts()

    @property
    def has_quarantines(self) -> bool:
        """Whether rows of some table may wait in a quarantine."""
        return bool(self.expectations)

    def may_wait(self, table: str) -> bool:
        """Whether rows of the table may go to its quarantine."""
        return any(one.severity is Severity.QUARANTINE for one in self.expectations.of(table))

    def blocked(self) -> tuple[StoppedTable, ...]:
        """Returns the tables whose logs wait, as their rows block them. Raises LakeError."""
        return Parking(self.lake, self.connector.destination, self.connector.client_id).blocked()

    def waiting_rows(self, epoch: int, tables: Collection[str] | None = None) -> dict[str, int]:
        """Returns how many rows of these tables wait, or of all that have a quarantine. Raises LakeError."""
        return WaitingRows(self.lake, self.connector.destination, self.connector.client_id, epoch).counts(tables)

    def apply(self, claim: Claim, run_id: str, parallelism: int, stopped: Collection[str]) -> BatchResult:
        """Merges the claim's tables, except the `stopped` ones, up to `parallelism` at a time. Reports to the service
        which snapshots the claim breaks."""
        batch = Batch(
            claim,
            self.lake,
            self.sessions,
            RowsDoor(self.connector.flight_url, self.token, self.connector.ca),
            self.fence,
            run_id=run_id,
            max_splits=parallelism,
            policies=self.policies,
            sampled=self.sampled,
            stopped=frozenset(stopped),
            modes=self.modes,
            notes=self.notes,
            catch_up=self.catch_up,
            progress=self.progress,
            engine=self.engine,
            expectations=self.expectations,
        )
        copier = Copier(self.source, self.policies.copy_rows, self.zero_dates) if self.source else None
        whole = bool(self.unfit)
        applied = apply_batch(batch, parallelism, cascades=self.cascades, copier=copier, unions_whole=whole)
        self.unfit.clear()
        for one in applied.broken:
            self.connector.snapshots.break_off(one.table, one.id, one.reason)
        if self.redefined is not None:
            for table in dict.fromkeys(one.table for one in applied.followed):
                self.redefined(table)
        if self.owe is not None and applied.followed:
            self.owe()
        return applied

    def note(self, claim: Claim, result: BatchResult, run_id: str, doubts: Mapping[str, Doubt] | None = None) -> None:
        """Writes the batch, and the `doubts` of tables, into the ledger: after the tables' commits, before the ack.
        All is on the disk then: a power cut takes nothing that is acked."""
        notes = result.notes(doubts or {})
        unnoted = unnoted_stops(self.ledger, claim, notes)
        ends = result.log_ends, result.table_ends
        self.ledger.note(claim, notes | unnoted, run_id, self.clock(), *ends, looked_up=result.looked_up)
        flush(self.lake.root)
