"""The schema history at work: Canal's TableMetaTSDB.

It begins with a snapshot of the catalogue and goes on with every DDL statement, so that a row is read with the columns
of its time. An event that contradicts it is settled by the catalogue, which is noted as a change; without that, by the
event's own metadata.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from cdc_core.config.models import InstanceConfig
from cdc_core.destination.catalogue import Catalogue, CatalogueSnapshot
from cdc_core.errors import SchemaError
from cdc_core.meta.nodes import Nodes
from cdc_core.meta.schema_log import SchemaLog
from cdc_core.position import EntryPosition
from cdc_core.schema.agreement import (
    check_old_moments,
    fits,
    fits_exactly,
    is_full,
    listed,
    merged,
    with_defaults_of,
    with_hidden_of,
    with_words_of,
)
from cdc_core.schema.conventions import Conventions
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.following import filled, versions_after
from cdc_core.schema.history import Name, SchemaHistory, Version
from cdc_core.schema.table import TableSchema

_MOST_CHANGES = 1000  # nodes until the history is rewritten
_MOST_VERSIONS = 100_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two snapshots of the catalogue, and for which replaced definitions are kept at least."""

    snapshot: float
    keep: float


@dataclass(slots=True)
class Tsdb:
    """`begin` comes before all else but `names_at`. The dump thread resolves and follows; others may ask `filled` and
    `tidy`."""

    destination: str
    catalogue: Catalogue
    kept: SchemaLog
    intervals: Intervals
    clock: Callable[[], float]
    history: SchemaHistory = field(default_factory=SchemaHistory)
    _conventions: Conventions | None = None
    _source: str = ""
    _looked: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, source: str, start: EntryPosition) -> None:
        """Loads the history of the server whose uuid is `source`, or takes the first snapshot for reading from `start`.

        Raises SourceError, CursorError."""
        self._conventions = self.catalogue.conventions()
        if self._source == source:
            return
        history = self.kept.load(source)
        if history is None or self._is_of_other_files(history):
            taken = self.catalogue.snapshot()
            low = min(start.version(), taken.low.version())
            versions = self._from_snapshot(taken, low)
            history = SchemaHistory().with_versions(versions)
            self.kept.replace(history, source)
            exact = low == taken.high.version()
            log.info("schema history begins", destination=self.destination, tables=len(taken.tables), exact=exact)
        self.history, self._source, self._looked = history, source, self.clock()

    def names_at(self, source: str, position: EntryPosition) -> set[Name]:
        """The tables that a server, whose uuid is `source`, had at a position, as far as its history goes. May come
        before `begin`. Raises SourceError, CursorError."""
        history = self.history if self._source == source else self.kept.load(source)
        if history is None or self._is_of_other_files(history):
            return set()
        found = ((name, history.at(name, position.version())) for name in history.tables if name[1])
        return {name for name, version in found if version is not None and not version.dropped}

    def _is_of_other_files(self, history: SchemaHistory) -> bool:
        """Whether the server's binlog started again since (RESET MASTER): the history reaches beyond its end."""
        end = self.catalogue.end().version()
        return any(max(version.start, version.sure) > end for _, version in history.versions())

    def _from_snapshot(self, taken: CatalogueSnapshot, low: int) -> list[tuple[Name, Version]]:
        high, now = taken.high.version(), int(self.clock())
        bases = [TableSchema(name, "", (), (), "", collation) for name, collation in taken.databases.items()]
        return [((one.database, one.table), Version(low, one, high, False, now)) for one in (*taken.tables, *bases)]

    def resolve(self, event: TableSchema, position: EntryPosition) -> TableSchema:
        """The definition of a TABLE_MAP event that ends at a position.

        Raises SchemaError where event, history and catalogue contradict each other, SourceError, CursorError."""
        version = self.history.at((event.database, event.table), position.version())
        known = version.schema if version else None
        event = with_hidden_of(event, known) if known else event
        if version is not None and known is not None and fits_exactly(event, known):
            if known.defaults_as_written:
                known = self._with_defaults(known, version, position)
            return self.catalogue.as_configured(merged(event, known))
        return self.catalogue.as_configured(self._settled(event, known, position))

    def _with_defaults(self, known: TableSchema, version: Version, position: EntryPosition) -> TableSchema:
        """A definition with the defaults that its statement left open, as the catalogue has them now."""
        name, time = (known.database, known.table), (position.timestamp or 0) // 1000
        found = with_defaults_of(known, self.catalogue.table(*name)[0])
        self._add([(name, Version(position.version(), found, version.sure, False, time))])
        return found

    def _settled(self, event: TableSchema, known: TableSchema | None, position: EntryPosition) -> TableSchema:
        current, end = self.catalogue.table(event.database, event.table)
        sure = 0
        event = with_hidden_of(event, current) if current else event
        if current is not None and fits(event, current):
            check_old_moments(event, current)
            found, sure = merged(event, current), end.version()
        elif is_full(event):
            found = with_words_of(event, known) if known else event
        elif known is not None and fits(event, known):
            found = merged(event, known)
        else:
            raise _contradiction(event, known, current, position)
        if known is not None:
            log.info(
                "definition corrected", table=event.name, place=str(position), was=listed(known), now=listed(found)
            )
        time = (position.timestamp or 0) // 1000
        self._add([((event.database, event.table), Version(position.version(), found, sure, False, time))])
        return found

    def follow(self, ddl: Ddl) -> None:
        """Takes in a statement, with its effects on all tables. Raises CursorError."""
        if self._conventions is None:
            return
        position, time = ddl.position.version(), (ddl.position.timestamp or 0) // 1000
        made = versions_after(self.history, ddl, time, self._conventions)
        self._add([one for one in made.items() if self._is_wanted(one[0]) and self._is_new(one, position)])

    def _is_wanted(self, name: Name) -> bool:
        """Whether to keep the table's definitions. Tables next to captured ones may take their place later, as those of
        an online schema change do."""
        return bool(self.history.names(name[0])) or self.catalogue.accept(*name)

    def _is_new(self, one: tuple[Name, Version], position: int) -> bool:
        """A statement that is read again says what it said before, or knows less."""
        name, version = one
        before = self.history.at(name, position)
        if before is None or before.start != position:
            return True
        return (version.schema is not None or version.dropped) and (before.schema, before.dropped) != (
            version.schema,
            version.dropped,
        )

    def filled(self, ddl: Ddl) -> Ddl:
        """The statement with the definitions before and after it, where they are known exactly."""
        return filled(self.history, ddl, self._conventions) if self._conventions else ddl

    def tables(self, database: str, position: EntryPosition) -> set[str]:
        """The tables that a database has in front of a position, as far as the history goes."""
        history, place = self.history, position.version()
        found = ((name[1], history.before(name, place)) for name in history.names(database) if name[1])
        return {table for table, version in found if version is not None and not version.dropped}

    def tidy(self, oldest: EntryPosition | None) -> None:
        """Looks at the catalogue from time to time, for changes that no binlog has, and forgets what nobody reads
        again: `oldest` is the smallest cursor. Raises SourceError, CursorError."""
        now = self.clock()
        due = now - self._looked > self.intervals.snapshot
        if not self._source or oldest is None or not (due or self.kept.changes > _MOST_CHANGES):
            return
        taken = self.catalogue.snapshot() if due else None
        with self._lock:
            history = self.history
            if taken is not None:
                versions = self._from_snapshot(taken, taken.low.version())
                history = history.with_versions(one for one in versions if _differs(history, one))
            since = int(now - self.intervals.keep)
            history = history.trimmed(oldest.version(), since)
            if len(history) > _MOST_VERSIONS:
                history = history.trimmed(oldest.version(), int(now))
            self.kept.replace(history, self._source)
            self.history, self._looked = history, now if taken is not None else self._looked

    def _add(self, versions: Iterable[tuple[Name, Version]]) -> None:
        """Durable first."""
        added = list(versions)
        if added:
            with self._lock:
                self.kept.append(added)
                self.history = self.history.with_versions(added)


def make_tsdb(config: InstanceConfig, nodes: Nodes, catalogue: Catalogue, clock: Callable[[], float]) -> Tsdb:
    """The schema history of a destination, kept with its cursors."""
    intervals = Intervals(config.tsdb_snapshot_hours * 3600.0, config.tsdb_expire_hours * 3600.0)
    return Tsdb(config.destination, catalogue, SchemaLog(nodes, config.destination), intervals, clock)


def _differs(history: SchemaHistory, one: tuple[Name, Version]) -> bool:
    name, version = one
    before = history.at(name, version.start)
    return before is None or before.schema != version.schema


def _contradiction(
    event: TableSchema, known: TableSchema | None, current: TableSchema | None, position: EntryPosition
) -> SchemaError:
    return SchemaError(
        f"the columns of {event.name} are known neither from the schema history nor from the catalogue: "
        f"the binlog has ({listed(event)}), the history ({listed(known)}), the catalogue ({listed(current)})",
        place=f"{event.name} {position}",
        hint="SET GLOBAL binlog_row_metadata=FULL where the server has it, start after the table's last change, and "
        "reload it (sluice copy).",
    )
