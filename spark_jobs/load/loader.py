"""`Loader`: loads tables into the lake, or reloads them, while the source is written and other runs drain.

Each is read while the stream goes on (`reader`), and becomes visible by one commit (`cutover`). A table whose images
leave columns out is read while a claim is held: no log can keep its changes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from cdc_core.client.connector import Connector
from cdc_core.config import InstanceConfig
from cdc_core.contract.client_status import ClientStatus
from cdc_core.errors import SluiceError, SourceChanged, SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name, split_name
from cdc_core.schema.table import TableSchema
from spark_jobs.expectations.expectation import NO_EXPECTATIONS, Expectations
from spark_jobs.lake.consent import NotConsented, check_consent, waiting_ones
from spark_jobs.lake.tables import Lake
from spark_jobs.load.catalogue import Catalogue, catalogue
from spark_jobs.load.cutover import Cutover, check_lake, lift_stop
from spark_jobs.load.gone import Dropping, propose_drop
from spark_jobs.load.hold import Hold, under_hold
from spark_jobs.load.load_snapshot import JOB, LoadSnapshot
from spark_jobs.load.reader import Manner, Read, TableReader
from spark_jobs.load.registration import Registration, registered
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import Broken, Copied, LakeClient, NoSuchTable
from spark_jobs.load.several import Loading, Several, SoFar
from spark_jobs.load.small import SmallTables
from spark_jobs.load.staging import StagedRows, Staging
from spark_jobs.load.view import copy_table, readable, whole_images
from spark_jobs.session import Sessions
from spark_jobs.snapshot.binlog import position
from spark_jobs.snapshot.chunks import UnorderedKey
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.place import SnapshotPlace
from spark_jobs.snapshot.source import Source, captured_source

_SWITCH_TRIES = 60  # a second each
_TRIES = 2  # the first, and one more after the definition or the server changed


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads tables of one destination. `instance` says how to reach the source. `expectations` are evaluated before the
    rows are in their table. `consents`: the tables that waited for a person's consent when the person asked for the
    loads, with their reasons; None: when each load begins. `captured`: names that the service has given."""

    connector: Connector
    instance: InstanceConfig
    lake: Lake
    sessions: Sessions
    manner: Manner = field(default_factory=Manner)
    run_id: str = ""
    expectations: Expectations = NO_EXPECTATIONS
    consents: Mapping[str, str] | None = None
    captured: set[str] = field(default_factory=set, repr=False)

    def table(
        self,
        database: str,
        table: str,
        *,
        owner: str = "",
        report: Callable[[Read], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied | NoSuchTable:
        """Loads one table into the lake and resumes it. Starts once more from the beginning if its definition, the
        source's server or the epoch changed meanwhile. A table that the source does not have keeps its rows. If this
        ends early, the rows that were read stay, and the next load continues with them. `owner`: of its snapshot.

        Raises SourceError, SourceUnavailable, LakeError, DecodeError, TableStopped; NotConsented for a table that waits
        for a person's consent which this load does not have: its snapshot ends; ConfigError for a table that is not
        captured; SessionError while another run reads the table, or if the snapshot was cancelled. After each error the
        lake's table is as it was.
        """
        self.lake.check_writable()
        return _TableLoad(self.begun(), database, table, owner or self._owner(), report, sleep).tried()

    def tables(
        self,
        names: Sequence[str],
        *,
        report: Callable[[SoFar], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[Loading]:
        """Loads tables into the lake, each as `table` does: the small ones many at a time, then the others one after
        the other. The outcome of each returns or raises what `table` does. `report` is called every few seconds with
        the progress of all. Raises LakeError for a lake that cannot be written.
        """
        self.lake.check_writable()
        owner, loader = self._owner(), self

        def alone(name: str, report: Callable[[Read], None]) -> Copied | NoSuchTable:
            return loader.table(*split_name(name), owner=owner, report=report, sleep=sleep)

        known, small = Catalogue({}, {}), None
        with suppress(SluiceError):  # each table says so
            loader = self.begun()
            source, dates = self.source(), self.instance.zero_dates
            self.captured.update(one.name for one in self.connector.tables())
            known = catalogue(source, [split_name(name) for name in names if name in self.captured])
            small = SmallTables(self.connector, source, loader.cutover(source), self.manner, dates, owner, sleep)
        yield from Several(names, known, alone, small, report, sleep).each()

    def cutover(self, source: Source) -> Cutover:
        """Returns the cutover for tables that are staged."""
        dates, expected, consents = self.instance.zero_dates, self.expectations, self.consents or {}
        return Cutover(self.connector, self.lake, self.sessions, self.run_id, source, dates, expected, consents)

    def begun(self) -> Loader:
        """Returns the same for loads that begin now, if a person asks for each."""
        if self.consents is not None:
            return self
        return replace(self, consents=waiting_ones(self.connector.client_status().stopped))

    def _owner(self) -> str:
        return f"{JOB if self.run_id else 'snapshot-'}{uuid.uuid4().hex[:12]}"

    def copy(
        self,
        database: str,
        table: str,
        *,
        held: bool = False,
        report: Callable[[Read], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Copied | NoSuchTable:
        """Does the same as `table`, but a snapshot that this opens does not stay open after an error. A claim is held
        if reading the table without one fails twice, if its key bounds no chunks, or from the first try (`held`).
        Raises what `table` raises."""
        self.lake.check_writable()
        owner = f"copy-{uuid.uuid4().hex[:12]}"
        return _TableLoad(self.begun(), database, table, owner, report, sleep, resumable=False).copied(held=held)

    def cancel(self, name: str) -> bool:
        """Ends a table's snapshot, also another run's, and returns whether there was one. The lake's table stays as it
        is."""
        found = [one.id for one in self.connector.client_status().snapshots if one.table == name]
        for snapshot_id in found:
            self.connector.snapshots.cancel(name)
            Staging(self.lake, self.connector.destination, snapshot_id).remove()
        return bool(found)

    def drop(self, name: str, sleep: Callable[[float], None] = time.sleep) -> EntryPosition:
        """Marks a table that the source no longer has as dropped, and ends its stop; its rows stay. Returns the place.
        Raises SourceChanged for a table that the source has."""
        self.lake.check_writable()
        owner = f"drop-{uuid.uuid4().hex[:12]}"
        return Dropping(self.connector, self.lake, self.sessions, self.source(), owner, self.run_id, sleep).table(name)

    def captures(self, name: str) -> bool:
        """Whether the service captures a table under that name: else nothing would bring its changes."""
        if name not in self.captured:
            self.captured.update(one.name for one in self.connector.tables())
        return name in self.captured

    def source(self) -> Source:
        """Returns the server that the service reads."""
        return captured_source(self.instance, self.connector.status().source, self.connector.rules())


@dataclass(frozen=True, slots=True)
class _TableLoad:
    """The load of one table for one owner. `resumable`: after an error its snapshot stays open, and the next load
    continues it."""

    loader: Loader
    database: str
    table: str
    owner: str
    report: Callable[[Read], None]
    sleep: Callable[[float], None]
    resumable: bool = True

    @property
    def name(self) -> str:
        return full_name(self.database, self.table)

    @property
    def snapshot(self) -> LoadSnapshot:
        """Returns the table's snapshot, as far as it is this load's."""
        return LoadSnapshot(self.loader.connector, self.loader.lake, self.name, self.owner, self.sleep)

    def tried(self) -> Copied | NoSuchTable:
        """Reads the table while others go on, and again if the rows that were read are of no use."""
        with self._ending():
            for left in reversed(range(_TRIES)):
                try:
                    return self.online()
                except Broken:
                    if not left:
                        self._check_consent(self.loader.connector.client_status())
                        raise
        raise AssertionError("unreachable")

    def copied(self, *, held: bool) -> Copied | NoSuchTable:
        """Does the same, but reads the table while a claim is held if it cannot be read otherwise, or at once
        (`held`)."""
        with self._ending():
            for _ in range(0 if held else _TRIES):
                try:
                    return self.online()
                except Broken:
                    continue
                except UnorderedKey:
                    break
            return self.while_held()

    def online(self) -> Copied | NoSuchTable:
        """Reads the table while others go on; while a claim is held if images leave columns out."""
        loader, name = self.loader, self.name
        self._check_consent(loader.connector.client_status())
        with asked(loader.source(), name) as connection:
            schema, whole = readable(connection, self.database, self.table), whole_images(connection)
            at = position(connection)
        if schema is None:
            self.snapshot.end(idle=True)
            self._propose_drop()
            return NoSuchTable(self.database, self.table, SnapshotPlace(at, at))
        if not loader.captures(name):
            self.snapshot.end(idle=True)
            raise loader.connector.not_captured(name, loader.captured)
        self.snapshot.remove_broken()
        if not whole:
            return self._open_and_held() if self.resumable else self.while_held()
        schema = loader.source().seen(schema, loader.instance.zero_dates)
        with self.snapshot.registered(resumable=self.resumable) as registration:
            staged, cutover = self._staged(registration, schema), loader.cutover(loader.source())
            return cutover.table(registration.snapshot, staged, check=registration.check, sleep=self.sleep)

    def while_held(self) -> Copied | NoSuchTable:
        """Reads the table while a claim is held from the beginning: nobody gets the changes after it.

        Raises what `copy_table` raises; LakeError for a lake that is not the destination's, SourceChanged when the
        service goes to another server or is reset meanwhile.
        """
        return under_hold(self.loader.connector, self.owner, self._copied, self.sleep)

    def _copied(self, hold: Hold) -> Copied | NoSuchTable:
        loader, connector, name = self.loader, self.loader.connector, self.name
        client, source = connector.client_status(), loader.source()
        self._check_consent(client)
        writes = LakeClient(connector.destination, connector.client_id, client.epoch, loader.run_id)
        target = Target.fenced(loader.lake, loader.sessions, writes, name)
        check_lake(loader.lake, connector, client, target.app, target.path)

        def confirm() -> None:
            hold.check()
            now = connector.status().source
            if connector.client_status().epoch != client.epoch or now.server_id != source.server_id:
                hint = "Copy the table again."
                raise SourceChanged("the destination was reset, or reads another server now", place=name, hint=hint)

        found = copy_table(
            source,
            target,
            loader.sessions,
            zero_dates=loader.instance.zero_dates,
            progress=lambda rows: self.report(Read(name, rows, 1)),
            confirm=confirm,
            sleep=self.sleep,
            expectations=loader.expectations,
        )
        if isinstance(found, Copied):
            lift_stop(connector, client, name, found.place.low, self.owner)
            self.snapshot.end()
        else:
            propose_drop(connector, client, name)
        return found

    def _propose_drop(self) -> None:
        """Leaves the stop of a table that is gone to a person: the sensor would start loads of it for ever."""
        connector, name = self.loader.connector, self.name
        if any(stop.table == name for stop in connector.client_status().stopped):
            under_hold(
                connector, self.owner, lambda _: propose_drop(connector, connector.client_status(), name), self.sleep
            )

    def _check_consent(self, client: ClientStatus) -> None:
        """Raises NotConsented if the table waits for a person's consent which this load does not have."""
        check_consent(client.stopped, self.name, self.loader.consents or {})

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Ends the snapshot of a table that waits for a person's consent: what it read is of no use."""
        try:
            yield
        except NotConsented:
            self.snapshot.end(idle=True)
            raise

    def _open_and_held(self) -> Copied | NoSuchTable:
        """Reads the table under a hold while its snapshot is open, so that a killed load is begun again."""
        connector = self.loader.connector
        with registered(connector, self.name, self.owner, first=False, sleep=self.sleep) as registration:
            self.snapshot.break_off(registration.snapshot, "row images leave columns out")
            found = self.while_held()
            connector.snapshots.close(registration.snapshot)
            return found

    def _staged(self, registration: Registration, schema: TableSchema) -> StagedRows:
        """Stages the table's rows. Raises Broken if the source went away and the service reads another server by then.
        A service with a standby gets a minute for that."""
        loader, staging = self.loader, self.snapshot.staging(registration.snapshot.id)
        base = TableReader(
            loader.connector, loader.sessions, loader.source(), schema, staging, registration, loader.manner,
            loader.instance.zero_dates, self.report, self.sleep,
        )  # fmt: skip
        try:
            return base.staged()
        except SourceUnavailable:
            for _ in range(_SWITCH_TRIES if loader.instance.standby_address else 1):
                registration.renew()
                self.sleep(1.0)
            raise
