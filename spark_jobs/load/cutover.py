"""`Cutover`: makes a snapshot's rows the table while the stream pauses for a moment.

A claim is held, so that nothing is applied or acked. The change log brings the rows to the client's place. After the
commit the table is resumed, the snapshot closed and its staging removed. Killed anywhere, it is done again: each step
leaves the table right, and only the last one closes the snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.reached import How
from cdc_core.contract.snapshot import Snapshot
from cdc_core.errors import LakeError, SessionError
from cdc_core.position import EntryPosition
from cdc_core.schema.column_rule import ZeroDates
from spark_jobs.changes.net import NO_KEY
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations
from spark_jobs.lake.consent import check_consent
from spark_jobs.lake.equality import FEWER_COPIES
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import landed_ends
from spark_jobs.lake.tables import Lake
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.hold import Hold, under_hold
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import Broken, Copied, LakeClient, WentOn
from spark_jobs.load.staging import StagedRows, Staging
from spark_jobs.load.switch import Load, Meanwhile, columns_of, entered, switch
from spark_jobs.session import Sessions
from spark_jobs.snapshot.place import SnapshotPlace
from spark_jobs.snapshot.source import Source
from spark_jobs.stores import flush

_HELD_SECONDS = 4.0  # after which no other table is begun under a hold: the stream stands still meanwhile
_RESTART = "Start the snapshot again."
_BREAKS = {  # by the mark in an error of Spark's, the reason why the snapshot is broken
    FEWER_COPIES: "the changes delete rows that were not read",
    NO_KEY: "a column of the primary key has a zero or partial date, which becomes NULL",
}


class HeldLongEnough(Exception):
    """A claim was held for so long that the table waits for the next hold."""


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A table that is staged, for `Cutover.tables`. `check` is called before its commit."""

    snapshot: Snapshot
    rows: StagedRows
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Standing:
    """The client's state under a hold. `strange`: the lake has no batch of the client."""

    hold: Hold
    client: ClientStatus
    strange: bool


@dataclass(frozen=True, slots=True)
class Cutover:
    """Switches tables of one client. Each table is fenced by its own token. `source`: the server at which rows
    that foreign keys changed are looked up; without it such a snapshot starts again. `expectations` are evaluated
    before a commit. `consents`: the tables that waited for a person's consent when the load began, with their
    reasons."""

    connector: Connector
    lake: Lake
    sessions: Sessions
    run_id: str = ""
    source: Source | None = None
    zero_dates: ZeroDates = "fail"
    expectations: Expectations = NO_EXPECTATIONS
    consents: Mapping[str, str] = field(default_factory=dict)

    def table(
        self,
        snapshot: Snapshot,
        staged: StagedRows,
        *,
        check: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied:
        """Makes the staged rows the table, and ends the snapshot. `check` is called under the hold, before the commit.

        Raises Broken for a snapshot that cannot be finished, SessionError for a snapshot that was cancelled or has
        another owner, NotConsented for a table that waits for a person since the load began, LakeError for a lake that
        is not the destination's, WentOn when others keep writing the table.
        """
        made = under_hold(
            self.connector, snapshot.owner, lambda hold: self._switched(hold, snapshot, staged, check), sleep
        )
        Staging(self.lake, self.connector.destination, snapshot.id).remove()
        return made

    def tables(
        self, hold: Hold, loads: Sequence[StagedTable], threads: int, clock: Callable[[], float] = time.monotonic
    ) -> Iterator[tuple[StagedTable, Copied | Exception]]:
        """Does the same for several tables under one hold, at the same time, and returns each table's outcome:
        HeldLongEnough for the tables that wait for the next hold. The commits are on the disk before the first table is
        resumed."""
        found, under, began = dict[str, Copied | Exception](), self._standing(hold), clock()

        def committed(load: StagedTable) -> Copied:
            if load is not loads[0] and clock() - began > _HELD_SECONDS:
                raise HeldLongEnough(load.snapshot.table)
            return self._committed(under, load.snapshot, load.rows, load.check, flushed=False)

        def ended(load: StagedTable) -> Copied:
            made = found[load.snapshot.table]
            assert isinstance(made, Copied)
            self._end(under, load.snapshot, made)
            Staging(self.lake, self.connector.destination, load.snapshot.id).remove()
            return made

        with ThreadPoolExecutor(threads, thread_name_prefix="switch") as pool:
            for load, made in zip(loads, pool.map(partial(_tried, committed), loads), strict=True):
                found[load.snapshot.table] = made
            flush(self.lake.root)
            there = []
            for load in loads:
                if isinstance(made := found[load.snapshot.table], Copied):
                    there.append(load)
                else:
                    yield load, made
            yield from zip(there, pool.map(partial(_tried, ended), there), strict=True)

    def _switched(self, hold: Hold, snapshot: Snapshot, staged: StagedRows, check: Callable[[], None]) -> Copied:
        under = self._standing(hold)
        self._check_open(snapshot)
        made = self._committed(under, snapshot, staged, check)
        self._end(under, snapshot, made)
        return made

    def _standing(self, hold: Hold) -> _Standing:
        client = self.connector.client_status()
        self.lake.check_writable()
        return _Standing(hold, client, is_strange(self.lake, self.connector, client))

    def _committed(
        self,
        under: _Standing,
        snapshot: Snapshot,
        staged: StagedRows,
        check: Callable[[], None],
        *,
        flushed: bool = True,
    ) -> Copied:
        """Makes the staged rows the table."""
        client, hold, schema = under.client, under.hold, staged.schema
        check_consent(client.stopped, schema.name, self.consents)
        writes = LakeClient(self.connector.destination, self.connector.client_id, snapshot.epoch, self.run_id)
        target = Target.fenced(self.lake, self.sessions, writes, schema.name)
        if under.strange:
            check_known(self.lake, target.app, target.path)
        before = entered(target)
        log = ChangeLog(self.lake, self.connector.destination, snapshot.id)
        acked = hold.start or _acked(client)
        low = staged.place.low.version()
        reached = max(low, acked.version() if acked else low)
        # A merge of landed, unacked changes may be under way: its statement must find that the table has them.
        landed = landed_ends(Ledger(self.lake, writes.destination, writes.client_id), schema.name, writes.epoch)
        upto = max(reached, (before and before.applied) or low, landed.get(writes.epoch, low))
        self._check_log(log, snapshot, staged, client, upto if upto > reached else None)
        at = max(staged.place.low, acked or staged.place.low)
        place = SnapshotPlace(at, max(at, staged.place.high))

        def confirm() -> None:
            check()
            hold.check()
            self._check_open(snapshot)

        load = Load(staged, place, upto, Meanwhile(log, self.source, self.zero_dates))
        try:
            return switch(target, self.sessions, load, before, confirm, flushed=flushed, expectations=self.expectations)
        except Broken as error:
            self._break(snapshot, error.message)
        except LakeError as error:
            for word, reason in _BREAKS.items():
                if word in error.message:
                    self._break(snapshot, reason)
            raise

    def _end(self, under: _Standing, snapshot: Snapshot, made: Copied) -> None:
        """Resumes a table that is in the lake, and closes its snapshot."""
        lift_stop(self.connector, under.client, snapshot.table, made.place.low, snapshot.owner)
        self.connector.snapshots.close(snapshot)

    def _check_open(self, snapshot: Snapshot) -> None:
        """Raises Broken for a broken snapshot, and SessionError for one that is no longer the owner's."""
        now = self.connector.snapshots.renew(snapshot)
        if now.broken:
            raise Broken(now.broken, place=snapshot.table, hint=_RESTART)

    def _check_log(
        self, log: ChangeLog, snapshot: Snapshot, staged: StagedRows, client: ClientStatus, beyond: int | None
    ) -> None:
        """Raises Broken for a log that lacks changes that were acked or are in the table, or whose columns differ from
        the rows'. `beyond`: the version that the table has of a batch that is not acked."""
        acked = next((one.acked for one in client.snapshots if one.id == snapshot.id), None)
        end, types = log.end(), log.types()
        if acked is not None and acked > staged.place.low and (end is None or end < acked.version()):
            self._break(snapshot, f"changes up to {acked} were acked by a run that did not keep them for the snapshot")
        if beyond is not None and (end is None or end < beyond):
            self._break(snapshot, "a run followed a statement on the table, or reloaded it, and ended before its ack")
        if types is not None and types != [column.type for column in columns_of(staged.schema)]:
            self._break(snapshot, "the changes have other columns than the rows that were read")

    def _break(self, snapshot: Snapshot, reason: str) -> NoReturn:
        self.connector.snapshots.break_off(snapshot.table, snapshot.id, reason)
        raise Broken(reason, place=snapshot.table, hint=_RESTART)


def lift_stop(connector: Connector, client: ClientStatus, table: str, copied: EntryPosition, owner: str) -> None:
    """Resumes the table if it is stopped. Raises WentOn if changes after the copy were acked: then nothing was held."""
    if any(stop.table == table for stop in client.stopped):
        try:
            connector.lift_stop(table, copied=copied, owner=owner)
        except SessionError as error:
            raise WentOn(table) from error


def _tried(work: Callable[[StagedTable], Copied], load: StagedTable) -> Copied | Exception:
    """Returns what the work returns or raises: one table's error ends no other table's load."""
    try:
        return work(load)
    except Exception as error:
        return error


def check_lake(lake: Lake, connector: Connector, client: ClientStatus, app: str, path: str) -> None:
    """Raises LakeError for a lake that is not the destination's: otherwise a copy into the wrong lake would resume the
    table."""
    if is_strange(lake, connector, client):
        check_known(lake, app, path)


def is_strange(lake: Lake, connector: Connector, client: ClientStatus) -> bool:
    """Whether a lake has no batch of a client that has acked some. Raises LakeError for another writer's lake."""
    ledger = Ledger(lake, connector.destination, connector.client_id)
    ledger.check_writer(client.epoch, client.reached, client.identity)
    acked = client.reached is not None and client.reached.how is How.BATCH
    return acked and not ledger.stretches()


def check_known(lake: Lake, app: str, path: str) -> None:
    """Raises LakeError if a lake without the client's batches does not have the table either."""
    if lake.state(path, app) is None:
        hint = "Name the lake that the destination's runs write, or restore its ledger."
        raise LakeError("the lake has no table of this destination", place=lake.root, hint=hint)


def _acked(client: ClientStatus) -> EntryPosition | None:
    """Returns the position up to which everything is acked, if nobody has a claim."""
    reached = client.reached
    places = [client.cursor] if client.cursor else []
    if reached is not None and reached.how is How.BATCH and reached.epoch == client.epoch:
        places.append(reached.position)
    return max(places, default=None)
