"""`TableSnapshots`: tables brought into the lake while the source is written and others drain.

A table with a key is read in chunks, each at its own time; a run that was killed goes on behind the last group of them.
One without a key is read in one view whose place in the binlog is exact. Either becomes visible by one commit
(`switch`). Where images leave columns out no changes can be kept, so a claim is held instead (`repair`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from cdc_core.client.connector import Connector
from cdc_core.config import InstanceConfig
from cdc_core.contract.snapshot import Progress, Snapshot
from cdc_core.errors import ConfigError, DecodeError, SchemaError, SourceError, SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.copy.executors import is_cluster, on_executors
from spark_jobs.copy.groups import Readers, Reading, in_threads, stage_groups
from spark_jobs.copy.open import opened, readable, whole_images
from spark_jobs.copy.registration import Registration, registered
from spark_jobs.copy.repair import Repair
from spark_jobs.copy.result import Broken, Copied, NoSuchTable
from spark_jobs.copy.span import asked, begun, check_definition, ended, estimated_rows
from spark_jobs.copy.staged import Groups, StagedRows, Staging
from spark_jobs.copy.switch import Switch
from spark_jobs.copy.table import stage_view
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.snapshot.binlog import position
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.place import SnapshotPlace
from spark_jobs.snapshot.replica import await_place, executed
from spark_jobs.snapshot.source import Source, captured_source

_JOB = "job-"  # how the owner of a snapshot begins that a run of Dagster reads
_READERS = ("", "driver", "executors")
_REPLICA_SECONDS = 600.0
_SWITCH_TRIES = 60  # a second each
_TRIES = 2  # the first, and one more after the definition or the server changed


@dataclass(frozen=True, slots=True)
class Read:
    """How far a table is. `of_rows` is the server's estimate of all rows, None where it has none; `before`: so many
    rows had been staged by a run that is gone."""

    table: str
    rows: int
    chunks: int
    of_rows: int | None = None
    before: int = 0


@dataclass(frozen=True, slots=True)
class Manner:
    """How tables are read. `replica`: host and port to read from instead of the source, by the same account. `read_on`:
    what reads tables with a key, "" where it is the executors of a cluster and this process beside a local Spark."""

    rows_per_chunk: int = 250_000
    limits: Limits = field(default_factory=Limits)
    replica: tuple[str, int] | None = None
    read_on: str = ""

    def __post_init__(self) -> None:
        if self.read_on not in _READERS:
            hint = "Name driver or executors, or nothing: the executors of a cluster, else the driver."
            raise ConfigError(f"no rows are read on {self.read_on!r}", place="read_on", hint=hint)


@dataclass(frozen=True, slots=True)
class TableSnapshots:
    """What is needed for snapshots of tables of one destination. `instance` says how to reach the source."""

    connector: Connector
    instance: InstanceConfig
    lake: Lake
    sessions: Sessions
    manner: Manner = field(default_factory=Manner)
    run_id: str = ""

    def table(
        self,
        database: str,
        table: str,
        *,
        told: Callable[[Read], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied | NoSuchTable:
        """Brings one table into the lake and lifts its stop. Once more from the beginning where its definition, the
        source's server or the epoch changed meanwhile. A table that the source does not have keeps what it has.

        Raises SourceError, SourceUnavailable, LakeError, DecodeError, TableStopped; SessionError while another run
        reads the table, or where the snapshot was cancelled. After each the lake's table is as it was.
        """
        self.lake.check_writable()
        owner = f"{_JOB if self.run_id else 'snapshot-'}{uuid.uuid4().hex[:12]}"
        for left in reversed(range(_TRIES)):
            try:
                return self._table(owner, database, table, told, sleep)
            except Broken:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def cancel(self, name: str) -> bool:
        """Ends a table's snapshot, whoever reads it; whether there was one. The lake's table stays as it is."""
        found = [one.id for one in self.connector.client_status().snapshots if one.table == name]
        for snapshot_id in found:
            self.connector.snapshots.cancel(name)
            Staging(self.lake, self.connector.destination, snapshot_id).remove()
        return bool(found)

    def _table(
        self, owner: str, database: str, table: str, told: Callable[[Read], None], sleep: Callable[[float], None]
    ) -> Copied | NoSuchTable:
        """One try. One that is Broken stays open as such: whoever comes next begins it anew."""
        name = full_name(database, table)
        with asked(self._source(), name) as connection:
            schema, whole = readable(connection, database, table), whole_images(connection)
            if schema is None:
                at = position(connection)
                return NoSuchTable(database, table, SnapshotPlace(at, at))
        self._remove_broken(name)
        if not whole:
            return self._while_held(owner, database, table, told, sleep)
        schema = schema.with_dates_as_text() if self.instance.zero_dates == "string" else schema
        first = not self.lake.has(database, table)
        with registered(self.connector, name, owner, first=first, sleep=sleep) as registration:
            try:
                staged = self._staged(registration, schema, told, sleep)
                zero_dates = self.instance.zero_dates
                switch = Switch(self.connector, self.lake, self.sessions, self.run_id, self._source(), zero_dates)
                return switch.table(registration.snapshot, staged, check=registration.check, sleep=sleep)
            except Broken as error:
                self._break(registration.snapshot, error.message)
                raise

    def _while_held(
        self, owner: str, database: str, table: str, told: Callable[[Read], None], sleep: Callable[[float], None]
    ) -> Copied | NoSuchTable:
        """Where no changes can be kept. The snapshot is open meanwhile, so that one that is killed is begun again."""
        name = full_name(database, table)
        repair = Repair(self.connector, self.instance, self.lake, self.sessions, self.run_id)
        with registered(self.connector, name, owner, first=False, sleep=sleep) as registration:
            self._break(registration.snapshot, "row images leave columns out")
            found = repair.while_held(database, table, progress=lambda rows: told(Read(name, rows, 1)), sleep=sleep)
            self.connector.snapshots.close(registration.snapshot)
            return found

    def _break(self, snapshot: Snapshot, reason: str) -> None:
        """Claims name it no more, and what it has staged is removed."""
        self.connector.snapshots.break_off(snapshot.table, snapshot.id, reason)
        Staging(self.lake, self.connector.destination, snapshot.id).remove()

    def _remove_broken(self, name: str) -> None:
        """What one has staged whose reader is gone: the next one has another id."""
        for one in self.connector.client_status().snapshots:
            if one.table == name and one.broken:
                Staging(self.lake, self.connector.destination, one.id).remove()

    def _staged(
        self,
        registration: Registration,
        schema: TableSchema,
        told: Callable[[Read], None],
        sleep: Callable[[float], None],
    ) -> StagedRows:
        """Raises Broken where the source went away and the service reads another server by then. One that has a standby
        gets a minute for that."""
        read = self._in_chunks if schema.primary_key else self._in_one_view
        try:
            return read(registration, schema, told, sleep)
        except SourceUnavailable:
            for _ in range(_SWITCH_TRIES if self.instance.standby_address else 1):
                registration.renew()
                sleep(1.0)
            raise

    def _source(self) -> Source:
        return captured_source(self.instance, self.connector.status().source)

    def _staging(self, registration: Registration) -> Staging:
        return Staging(self.lake, self.connector.destination, registration.snapshot.id)

    def _in_chunks(
        self,
        registration: Registration,
        schema: TableSchema,
        told: Callable[[Read], None],
        sleep: Callable[[float], None],
    ) -> StagedRows:
        source, manner, staging = self._source(), self.manner, self._staging(registration)
        low, progress = begun(source, registration, schema, sleep)
        reading = Reading(
            self._reads(source, low), schema, self.instance.zero_dates, manner.limits, manner.rows_per_chunk
        )
        if not staging.staged().count:
            staging.clear()  # a copy that was killed may have left its rows, which are in no group
        of_rows, before = estimated_rows(source, schema), staging.staged().rows
        of_groups = None if of_rows is None else of_rows // (reading.chunks_per_group * reading.rows_per_chunk) + 1

        def note(staged: Groups) -> None:
            check_definition(source, schema)
            registration.note(replace(progress, groups=staged.count, of_groups=of_groups))
            told(Read(schema.name, staged.rows, staged.chunks, of_rows, before))

        try:
            staged = stage_groups(reading, staging, note, self._readers())
        except (SourceError, SchemaError, DecodeError) as error:
            check_definition(source, schema, error)
            raise
        high = ended(source, schema, low, self.connector.client_status().cursor)
        registration.note(replace(progress, high=high, groups=staged.count, of_groups=staged.count))
        return StagedRows(staging.path, schema, SnapshotPlace(low, high), staged.rows)

    def _readers(self) -> Readers:
        cluster = self.manner.read_on == "executors" or (not self.manner.read_on and is_cluster(self.sessions))
        return partial(on_executors, self.sessions) if cluster else in_threads

    def _reads(self, source: Source, low: EntryPosition) -> Source:
        """Which server is read: the source, or a replica once it has what the source had at `low`."""
        if self.manner.replica is None:
            return source
        host, port = self.manner.replica
        replica = replace(source, host=host, port=port, server_id=None)
        with asked(source, "its GTIDs") as connection:
            gtids = executed(connection)
        return await_place(replica, low, gtids, _REPLICA_SECONDS)

    def _in_one_view(
        self,
        registration: Registration,
        schema: TableSchema,
        told: Callable[[Read], None],
        sleep: Callable[[float], None],
    ) -> StagedRows:
        """Of the source itself, whose binlog the place is in. A view ends with its connection: nothing is resumed."""
        staging, source, as_text = self._staging(registration), self._source(), self.instance.zero_dates == "string"
        staging.clear()
        with opened(source, schema.database, schema.table, as_text=as_text, sleep=sleep) as there:
            if isinstance(there, NoSuchTable) or there.schema.version != schema.version or there.schema.primary_key:
                raise Broken("its definition changed", place=schema.name, hint="Start the snapshot again.")
            registration.note(Progress(there.place.low, there.place.high, schema.version))
            progress = lambda rows: told(Read(schema.name, rows, 1))  # noqa: E731
            return stage_view(staging, there, self.instance.zero_dates, progress, self.manner.limits)


def is_job(owner: str) -> bool:
    """Whether a snapshot's owner is a run of the job, which may be started again."""
    return owner.startswith(_JOB)
