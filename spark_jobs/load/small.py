"""Loads small tables, many at a time, each by the steps of a single table: registered, read, staged, switched in by one
commit.

They wait together: for the place in the binlog from which on the runs keep their changes, for the check of the events
after it, for the held claim, for the disk's flush. Threads of this process do the rest at the same time, because
neither a row nor a commit passes through Spark.

An error of one table does not affect the others: the table is left to be loaded alone, which continues with its staged
rows and raises the error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from cdc_core.client.connector import Connector
from cdc_core.contract.snapshot import Progress, Snapshot
from cdc_core.errors import ServiceUnavailable, SessionError, SluiceError, TableStopped
from cdc_core.position import EntryPosition
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.information_schema import definitions
from cdc_core.schema.table import TableSchema
from spark_jobs.load.catalogue import TOGETHER, Name
from spark_jobs.load.cutover import Cutover, HeldLongEnough, StagedTable
from spark_jobs.load.hold import held
from spark_jobs.load.reader import Manner, server_of
from spark_jobs.load.registration import Registrations
from spark_jobs.load.result import Copied, WentOn
from spark_jobs.load.small_reader import Small, SmallReader, Tally
from spark_jobs.load.staging import Staging
from spark_jobs.snapshot.binlog import between, position
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.place import settled
from spark_jobs.snapshot.source import Source

_UNDER_HOLD = 50  # tables that are switched while one claim is held: seconds
_AT_ONCE = 4  # tables that are registered, noted or switched
_FIRST_WAIT, _WAIT = 0.2, 2.0  # seconds for something to claim; if a run came in between
_TRIES = 3


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A table to be loaded alone. `read_by_other`: another owner has its snapshot, whose lease may end."""

    read_by_other: bool = False


Found = Copied | SessionError | LeftAlone
"""The outcome of a small table. SessionError: its snapshot was cancelled, or taken over."""


@dataclass(frozen=True, slots=True)
class SmallTables:
    """Loads small tables for one owner. `tally` counts the rows; `found` is called with each table's name and outcome,
    from any thread; `over` says whether to end early."""

    connector: Connector
    source: Source
    cutover: Cutover
    manner: Manner
    zero_dates: ZeroDates
    owner: str
    sleep: Callable[[float], None]
    tally: Tally = field(default_factory=Tally)
    found: Callable[[str, Found], None] = lambda _, __: None
    over: Callable[[], bool] = lambda: False

    def load(self, schemas: Sequence[TableSchema]) -> None:
        """Loads the tables: each is in the lake then, or was `found` to be left alone. Raises errors that concern all:
        the service or the source is down."""
        for low in range(0, len(schemas), TOGETHER):
            if self.over():
                return
            part = schemas[low : low + TOGETHER]
            with Registrations(self.connector) as registrations:
                _Group(self, registrations).load([*self._seen(part)])

    def _seen(self, schemas: Sequence[TableSchema]) -> Iterator[TableSchema]:
        """Yields the definitions as the lake sees them. A table that its rule does not fit is left alone."""
        for schema in schemas:
            try:
                yield self.source.seen(schema, self.zero_dates)
            except TableStopped:
                self.found(schema.name, LeftAlone())


@dataclass(frozen=True, slots=True)
class _Member:
    """A table with its snapshot."""

    snapshot: Snapshot
    table: Small

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def where(self) -> Name:
        return self.table.schema.database, self.table.schema.table


@dataclass(frozen=True, slots=True)
class _Group:
    """Tables that share a place in the binlog."""

    of: SmallTables
    registrations: Registrations

    def load(self, schemas: Sequence[TableSchema]) -> None:
        self._switch(self._ended(self._read(self._placed(self._registered(schemas)))))

    def _registered(self, schemas: Sequence[TableSchema]) -> dict[str, tuple[TableSchema, Snapshot]]:
        """Returns the tables that nobody else reads, by name."""
        of = self.of
        names, lake = {schema.name for schema in schemas}, of.cutover.lake
        for one in of.connector.client_status().snapshots:
            if one.broken and one.table in names:  # the next snapshot has another id
                self._staging(one).remove()

        def opened(schema: TableSchema) -> Snapshot | None:
            try:
                first = not lake.has(schema.database, schema.table)
                return self.registrations.open(schema.name, of.owner, first=first)
            except ServiceUnavailable:
                raise
            except SluiceError as error:
                of.found(schema.name, LeftAlone(isinstance(error, SessionError)))
                return None

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="register") as pool:
            found = zip(schemas, pool.map(opened, schemas), strict=True)
            return {schema.name: (schema, snapshot) for schema, snapshot in found if snapshot is not None}

    def _placed(self, tables: Mapping[str, tuple[TableSchema, Snapshot]]) -> list[_Member]:
        """Returns the tables whose place is noted with the service before a row is read: the end of the binlog after
        all their registrations. A table with a key that an earlier run began keeps its place."""
        if not tables:
            return []
        with asked(self.of.source, "the end of the binlog") as connection:
            low = settled(connection, self.of.sleep)

        def placed(schema: TableSchema, snapshot: Snapshot) -> _Member | None:
            try:
                return self._noted(schema, snapshot, low)
            except Exception as error:
                self._leave(snapshot, error)
                return None

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="place") as pool:
            return [member for member in pool.map(placed, *zip(*tables.values(), strict=True)) if member]

    def _noted(self, schema: TableSchema, snapshot: Snapshot, low: EntryPosition) -> _Member | None:
        """Notes the table's place, and returns it; None if its definition has changed since a run began it."""
        known, staging = snapshot.progress, self._staging(snapshot)
        if known.low is None or not schema.primary_key:
            snapshot = self.registrations.note(snapshot, Progress(low, definition=schema.version))
        elif known.definition == schema.version:
            low = known.low
        else:
            self._leave(snapshot)
            return None
        if known.low is not None:
            staging.clear()
        return _Member(snapshot, Small(schema, staging, low))

    def _read(self, members: Sequence[_Member]) -> list[_Member]:
        """Returns the tables whose rows are staged."""
        of = self.of
        if not members:
            return []
        errors: dict[str, Exception] = {}

        def failed(table: Small, error: Exception) -> None:
            errors[table.name] = error

        server = server_of(of.manner, of.source, max(member.table.low for member in members))
        tables = [member.table for member in members]
        SmallReader(of.source, server, of.zero_dates, of.manner.limits, of.tally, failed, of.over).read(tables)
        read: list[_Member] = []
        others: list[_Member] = []
        for member in members:
            (read if member.table.rows else others).append(member)
        for member in self._same(others, self._defined(others)):
            self._leave(member.snapshot, errors.get(member.name))
        return read

    def _ended(self, members: Sequence[_Member]) -> list[_Member]:
        """Returns the tables whose definition did not change up to the end of the binlog after their rows. Runs have
        seen the statements up to the client's cursor, which would have broken the snapshot."""
        if not members:
            return []
        seen, cursor = min(member.table.low for member in members), self.of.connector.client_status().cursor
        with asked(self.of.source, "the catalogue") as connection:
            high = position(connection)
            since = between(connection, seen if cursor is None else max(seen, cursor), high)
        good = []
        for member in self._same(members, self._defined(members)):
            if since.ddl_on(*member.where) is None:
                member.table.end(high)
                good.append(member)
            else:
                self._break(member)
        return good

    def _defined(self, members: Sequence[_Member]) -> Mapping[Name, TableSchema]:
        """Returns the present definitions of the tables."""
        if not members:
            return {}
        with asked(self.of.source, "the catalogue") as connection:
            found = definitions(connection, [member.where for member in members])
        return {name: self.of.source.view(one, self.of.zero_dates) for name, one in found.items()}

    def _same(self, members: Sequence[_Member], now: Mapping[Name, TableSchema]) -> list[_Member]:
        """Returns the tables whose definition is the same; breaks the snapshots of the others."""
        same = []
        for member in members:
            there = now.get(member.where)
            if there is not None and there.version == member.table.schema.version:
                same.append(member)
            else:
                self._break(member)
        return same

    def _break(self, member: _Member) -> None:
        reason = "the table was altered, dropped or renamed while it was read"
        self.of.connector.snapshots.break_off(member.name, member.snapshot.id, reason)
        member.table.staging.remove()
        self._leave(member.snapshot)

    def _switch(self, members: Sequence[_Member]) -> None:
        """Switches the tables, some under each hold. A table that others wrote meanwhile is tried again after the
        others."""
        left, tries = list(members), Counter[str]()
        while left and not self.of.over():
            part, left = left[:_UNDER_HOLD], left[_UNDER_HOLD:]
            tried = any(tries[member.name] for member in part)
            if tried:
                self.of.sleep(1.0)
            written, unbegun = self._under_hold(part, _WAIT if tried else _FIRST_WAIT)
            tries.update(member.name for member in written)
            left = [*unbegun, *left, *(member for member in written if tries[member.name] < _TRIES)]
            for member in written:
                if tries[member.name] >= _TRIES:
                    self._leave(member.snapshot)

    def _under_hold(self, part: Sequence[_Member], wait: float) -> tuple[list[_Member], list[_Member]]:
        """Returns the tables that others wrote meanwhile, and the tables that the hold had no time for."""
        of, members = self.of, {member.name: member for member in part}
        written, unbegun = list[_Member](), list[_Member]()
        loads = [
            StagedTable(one.snapshot, one.table.rows, partial(self.registrations.check, one.name))
            for one in members.values()
            if one.table.rows
        ]
        try:
            with held(of.connector, of.owner, wait=wait) as hold:
                for load, made in of.cutover.tables(hold, loads, _AT_ONCE):
                    member = members.pop(load.snapshot.table)
                    if isinstance(made, WentOn):
                        written.append(member)
                    elif isinstance(made, HeldLongEnough):
                        unbegun.append(member)
                    elif isinstance(made, Copied):
                        self.registrations.leave(member.name)
                        of.found(member.name, made)
                    else:
                        self._leave(member.snapshot, made)
        except SluiceError as error:  # of all of them: no claim could be held, or the lake is unavailable
            for member in members.values():
                self._leave(member.snapshot, error)
        return written, unbegun

    def _leave(self, snapshot: Snapshot, error: Exception | None = None) -> None:
        """Leaves the table to be loaded alone, which meets the error again. A cancelled snapshot stays cancelled."""
        found: Found = LeftAlone()
        if isinstance(error, SessionError):
            try:
                self.of.connector.snapshots.renew(snapshot)
            except SessionError as cancelled:
                found = cancelled
            except SluiceError:
                pass
        self.registrations.leave(snapshot.table)
        self.of.found(snapshot.table, found)

    def _staging(self, snapshot: Snapshot) -> Staging:
        return Staging(self.of.cutover.lake, self.of.connector.destination, snapshot.id)
