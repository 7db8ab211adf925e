"""`Switch`: the rows that a snapshot has read become the table, in one commit, while the stream stands for a moment.

A claim is held, so that nothing is applied or acked. The rows are brought to where the client is by the change log. The
commit carries the table's app id and that place; the stop is lifted, the snapshot closed and its staging removed behind
it. Killed anywhere it is done again: each step leaves the table right, and the snapshot open until the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.reached import How
from cdc_core.contract.snapshot import Snapshot
from cdc_core.errors import LakeError, SessionError
from cdc_core.position import EntryPosition
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rows.columns.cells import ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.net import NO_KEY
from spark_jobs.copy.adopt import adopt, adoptable, claim_own, remove_copies
from spark_jobs.copy.changes import ChangeLog, folded
from spark_jobs.copy.commit import Replacement, replace, staged_rows
from spark_jobs.copy.files import files_of
from spark_jobs.copy.hold import Hold, held
from spark_jobs.copy.looked_up import looked_up
from spark_jobs.copy.lost import LostKeys
from spark_jobs.copy.overlay import laid_over
from spark_jobs.copy.result import Broken, Copied, LakeClient, WentOn
from spark_jobs.copy.span import asked
from spark_jobs.copy.staged import StagedRows, Staging
from spark_jobs.copy.target import Target
from spark_jobs.lake.equality import FEWER_COPIES
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import landed_ends
from spark_jobs.lake.record import CopyNote
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, lake_columns
from spark_jobs.session import Sessions
from spark_jobs.snapshot.foreign_keys import ForeignKey
from spark_jobs.snapshot.place import SnapshotPlace
from spark_jobs.snapshot.source import Source

_TRIES = 5
_BEGIN_ANEW = "Begin the snapshot anew."
_BREAKS = {  # the word of an error in Spark: what it means for the snapshot
    FEWER_COPIES: "the changes take rows that were not read",
    NO_KEY: "a column of the primary key has a zero or partial date, which becomes NULL",
}


@dataclass(frozen=True, slots=True)
class Switch:
    """For tables of one client. Each table is fenced by a token of its own. `source`: where rows are looked up that
    foreign keys changed; without it such a snapshot is begun anew."""

    connector: Connector
    lake: Lake
    sessions: Sessions
    run_id: str = ""
    source: Source | None = None
    zero_dates: ZeroDates = "fail"

    def table(
        self,
        snapshot: Snapshot,
        staged: StagedRows,
        *,
        check: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied:
        """Makes the staged rows the table, and ends the snapshot. `check` is called under the hold, before the commit.

        Raises Broken for a snapshot that cannot be finished, SessionError for one that was cancelled or is another
        owner's, LakeError for a lake that is not the destination's, WentOn when others keep writing the table.
        """
        for left in reversed(range(_TRIES)):
            try:
                with held(self.connector, snapshot.owner) as hold:
                    found = self._switched(hold, snapshot, staged, check)
                break
            except WentOn:
                if not left:
                    raise
            sleep(1.0)
        Staging(self.lake, self.connector.destination, snapshot.id).remove()
        return found

    def _switched(self, hold: Hold, snapshot: Snapshot, staged: StagedRows, check: Callable[[], None]) -> Copied:
        client, schema = self.connector.client_status(), staged.schema
        self._check_open(snapshot)
        writes = LakeClient(self.connector.destination, self.connector.client_id, snapshot.epoch, self.run_id)
        target = Target(self.lake, Fence(self.lake, self.sessions), writes, schema.database, schema.table)
        check_lake(self.lake, self.connector, client, target.app, target.path)
        self.lake.check_writable()
        claim_own(target)
        before = target.entered()
        log = ChangeLog(self.lake, self.connector.destination, snapshot.id)
        acked = hold.start or _acked(client)
        low, high = staged.place.low.version(), staged.place.high.version()
        reached = max(low, acked.version() if acked else low)
        # Of what landed and is not acked, a merge may be under way: its statement must find that the table has it.
        landed = landed_ends(Ledger(self.lake, writes.destination, writes.client_id), schema.name, writes.epoch)
        upto = max(reached, (before and before.applied) or low, landed.get(writes.epoch, low))
        self._check_log(log, snapshot, staged, client, upto if upto > reached else None)
        note, mark = CopyNote(writes.epoch, upto, max(high, upto)), target.mark(before, upto)
        place = SnapshotPlace(max(staged.place.low, acked or staged.place.low), staged.place.high)
        place = SnapshotPlace(place.low, max(place.low, place.high))
        about = writes.note(schema.name, place, staged.rows, snapshot.id)
        new = Replacement(target, schema, _columns(schema), before, note, mark, about)
        check()
        hold.check()
        self.connector.snapshots.renew(snapshot)
        if before is not None:
            target.fence.check(target.path)
        try:
            self._commit(log, staged, new)
        except Broken as error:
            self._break(snapshot, error.message)
        except LakeError as error:
            for word, reason in _BREAKS.items():
                if word in error.message:
                    self._break(snapshot, reason)
            raise
        found = Copied(schema, place, staged.rows, target.committed(about))
        self._end(snapshot, client, place.low)
        return found

    def _commit(self, log: ChangeLog, staged: StagedRows, new: Replacement) -> None:
        """The staged files become the table's own where they can, else Spark writes the rows once more."""
        low, upto = staged.place.low.version(), new.note.low
        rows, lost = self.lake.open(staged.path), LostKeys(self.lake, log.destination, log.snapshot_id)
        if upto > low:
            for key, path in lost.tables():
                self._look_up(log, staged, new.note.epoch, upto, key, path)
        if adoptable(rows, new):
            changed = upto > low and log.types() is not None
            files = laid_over(self.lake, staged.path, staged.schema, log, low, upto) if changed else files_of(rows)
            if files is not None:
                adopt(rows, staged.path, files, new)
                return
        if new.state is None:
            remove_copies(new.target)
        with self.sessions.take() as spark, lake_errors(new.target.path):
            replace(spark, self._read(spark, log, staged, upto), new)

    def _read(self, spark: SparkSession, log: ChangeLog, staged: StagedRows, upto: int) -> DataFrame:
        """The rows as they are at `upto`."""
        low = staged.place.low.version()
        if upto > low and log.types() is not None:
            return _folded(spark, log, staged, low, upto)
        return staged_rows(spark, staged.path)

    def _look_up(self, log: ChangeLog, staged: StagedRows, epoch: int, upto: int, key: ForeignKey, lost: str) -> None:
        """Brings what a foreign key changed at the source meanwhile into the log. Raises Broken where that cannot
        be."""
        name = staged.schema.name
        if self.source is None:
            raise Broken("a foreign key changed its rows, which is in no binlog", place=name, hint=_BEGIN_ANEW)
        with (
            asked(self.source, name) as connection,
            self.sessions.take() as spark,
            lake_errors(staged.path),
        ):
            rows = self._read(spark, log, staged, upto)
            columns = _columns(staged.schema)
            found = looked_up(spark, connection, rows, staged.schema, columns, key, lost, self.zero_dates)
        if found is not None:
            log.correct(found, epoch, upto)

    def _check_open(self, snapshot: Snapshot) -> None:
        """Raises Broken, and SessionError for one that is not the owner's any more."""
        now = self.connector.snapshots.renew(snapshot)
        if now.broken:
            raise Broken(now.broken, place=snapshot.table, hint=_BEGIN_ANEW)

    def _check_log(
        self, log: ChangeLog, snapshot: Snapshot, staged: StagedRows, client: ClientStatus, beyond: int | None
    ) -> None:
        """`beyond`: the version that the table has of a batch that is not acked. Raises Broken for a log that lacks
        changes that were acked or are in the table, or has other columns than the rows."""
        acked = next((one.acked for one in client.snapshots if one.id == snapshot.id), None)
        end, types = log.end(), log.types()
        if acked is not None and acked > staged.place.low and (end is None or end < acked.version()):
            self._break(snapshot, f"changes up to {acked} were acked by a run that did not keep them for the snapshot")
        if beyond is not None and (end is None or end < beyond):
            self._break(snapshot, "a run followed a statement on the table, or reloaded it, and ended before its ack")
        if types is not None and types != [column.type for column in _columns(staged.schema)]:
            self._break(snapshot, "the changes have other columns than the rows that were read")

    def _break(self, snapshot: Snapshot, reason: str) -> None:
        self.connector.snapshots.break_off(snapshot.table, snapshot.id, reason)
        raise Broken(reason, place=snapshot.table, hint=_BEGIN_ANEW)

    def _end(self, snapshot: Snapshot, client: ClientStatus, copied: EntryPosition) -> None:
        """Lifts the stop and closes the snapshot. Raises WentOn where changes behind the copy were acked: then nothing
        was held."""
        if any(stop.table == snapshot.table for stop in client.stopped):
            try:
                self.connector.lift_stop(snapshot.table, copied=copied, owner=snapshot.owner)
            except SessionError as error:
                raise WentOn(snapshot.table) from error
        self.connector.snapshots.close(snapshot)


def _folded(spark: SparkSession, log: ChangeLog, staged: StagedRows, low: int, upto: int) -> DataFrame:
    columns = _columns(staged.schema)
    names = [column.name for column in columns]
    key = [names.index(name) for name in staged.schema.primary_key]
    return folded(spark, staged.path, log.path, [column.type for column in columns], key, low, upto)


def _columns(schema: TableSchema) -> tuple[LakeColumn, ...]:
    return lake_columns(pa.schema(arrow_fields(schema)), schema)


def _acked(client: ClientStatus) -> EntryPosition | None:
    """Up to where everything is acked, where nobody has a claim."""
    reached = client.reached
    places = [client.cursor] if client.cursor else []
    if reached is not None and reached.how is How.BATCH and reached.epoch == client.epoch:
        places.append(reached.position)
    return max(places, default=None)


def check_lake(lake: Lake, connector: Connector, client: ClientStatus, app: str, path: str) -> None:
    """Raises LakeError for a lake that is not the destination's: a copy in a wrong place would lift a stop all the
    same."""
    ledger = Ledger(lake, connector.destination, connector.client_id)
    ledger.check_writer(client.epoch, client.reached, client.identity)
    acked = client.reached is not None and client.reached.how is How.BATCH
    if acked and not ledger.stretches() and lake.state(path, app) is None:
        hint = "Name the lake that the destination's runs write, or restore its ledger."
        raise LakeError("the lake has nothing of this destination", place=lake.root, hint=hint)
