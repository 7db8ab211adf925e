"""Reads what `choice` needs: the ledger's batches, the commits of tables, the ends of their logs. Without Spark."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileType

from cdc_core.errors import LakeError, TableStopped
from cdc_core.position import EntryPosition
from spark_jobs.as_of.batches import Batches, NotedBatch, Place
from spark_jobs.as_of.choice import NOTHING, KnownTable
from spark_jobs.as_of.contents import NEVER, Content, NotedCommit, Stretch, says_place, stretches
from spark_jobs.as_of.logs import KnownLog
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.features import VECTORS
from spark_jobs.lake.kept_tables import folder_at
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import TableProgress
from spark_jobs.lake.queries import selected_table
from spark_jobs.lake.record import Began, CopyNote
from spark_jobs.lake.state import DeltaCommit
from spark_jobs.landing.client_tables import ClientTables

_PLACES = ("epoch", "batch_id", "start_journal", "start_position", "end_journal", "end_position", "gtid")
_LATER = ("executed_at", "partial", "moved", "seamless", "captured", "looked_up")  # columns that an older ledger lacks
_MAY_DROP = ("rename", "create", "create_filled")  # statements after which the source may have no such table
_DROPS = ("drop", "drop_database")
RECENT = 20  # commits of a table that are looked at first
_LOOKS = 5  # versions after a copy's rows, of which one has its properties


def read_batches(ledger: Ledger) -> Batches:
    """Returns the batches that the ledger has. Raises LakeError."""
    opened = ledger.opened()
    if opened is None:
        return Batches()
    there = {field.name for field in opened.schema().fields}
    extra = [name for name in _LATER if name in there]
    rows = _select(opened, f"SELECT {', '.join([*_PLACES, 'committed_at', *extra])} FROM batches")  # noqa: S608
    found = [_batch(row) for row in rows]
    moved = {row["epoch"]: row["moved"] for row in rows if row.get("moved") is not None}
    seamless = {int(epoch): int(left) for row in rows for epoch, left in json.loads(row.get("seamless") or "[]")}
    stops = _select(opened, "SELECT DISTINCT stops FROM batches") if "stops" in there else []
    ends = {(one.epoch, one.end): one for one in found}
    missed = dict[str, set[NotedBatch]]()
    for row in stops:
        for table, (epoch, end, _) in json.loads(row["stops"] or "{}").items():
            if (epoch, end) in ends:
                missed.setdefault(table, set()).add(ends[epoch, end])
    listed = {table: sorted(each, key=lambda one: (one.epoch, one.end)) for table, each in missed.items()}
    batches = Batches(sorted(found, key=lambda one: (one.epoch, one.end)), moved, seamless, listed)
    return replace(batches, looked_up=_looked_up(rows, batches))


def _looked_up(rows: Sequence[dict[str, Any]], batches: Batches) -> dict[str, list[tuple[Place, Place]]]:
    """Returns by table the places between which its rows may be of a later one."""
    found = dict[str, list[tuple[Place, Place]]]()
    for row in rows:
        epoch, start = row["epoch"], EntryPosition(row["start_journal"], row["start_position"]).version()
        for table, high in json.loads(row.get("looked_up") or "{}").items():
            between = batches.place(epoch, start), batches.place(epoch, NEVER if high is None else high)
            found.setdefault(table, []).append(between)
    return found


def _batch(row: dict[str, Any]) -> NotedBatch:
    start = EntryPosition(row["start_journal"], row["start_position"]).version()
    end = EntryPosition(row["end_journal"], row["end_position"]).version()
    return NotedBatch(
        row["epoch"], start, end, row["batch_id"], bool(row.get("partial")),
        row.get("executed_at") or row["committed_at"], row["gtid"] or "", row["end_journal"],
        tuple(json.loads(row["captured"])) if row.get("captured") else None,
    )  # fmt: skip


def _select(table: DeltaTable, question: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = selected_table(table, "batches", question).to_pylist()
    return rows


@dataclass(frozen=True, slots=True)
class VersionReader:
    """Reads the tables of one client, whose batches are known."""

    tables: ClientTables
    batches: Batches

    def names(self) -> list[str]:
        """Returns the tables of the destination that the lake has, those that the source has dropped too, and those
        that have a change log alone. Raises LakeError."""
        lake, own = self.tables.lake, self.tables.destination
        found = {name for one in lake.databases() for name in lake.tables(one, own)}
        return sorted({*found, *lake.logs(own)})

    def read(self, table: str, *, whole: bool = True) -> KnownTable | None:
        """Returns what the lake shows of a table, or None if it has no such table. If not `whole`, its last commits may
        be enough, of which a table may have many. Raises TableStopped for a damaged table, LakeError for one that
        cannot be read."""
        log, path, lake = self._log(table), self.tables.path(table), self.tables.lake
        if lake.state(path, "") is None:
            return None if log is None else KnownTable(table, self.batches, _before(log), log=log)
        recent = [] if whole else list(islice(lake.commits(path), RECENT))
        if len(recent) == RECENT and self._are_enough(found := self._stretches(table, path, recent, log)):
            return KnownTable(table, self.batches, found, begins=False, log=log, partial=True)
        commits = self._readable(path, list(lake.commits(path)))
        found = self._stretches(table, path, commits, log)
        begins = commits[-1].version == 0
        before = _before(log, found) if log is not None and begins else []
        return KnownTable(table, self.batches, [*before, *found], begins, log=log)

    def _stretches(
        self, table: str, path: str, commits: Sequence[DeltaCommit], log: KnownLog | None
    ) -> Sequence[Stretch]:
        """Returns the stretches of these commits, the latest of which is the first. Where earlier commits are missing,
        they begin with the first that says a place: before it, a statement may have been half done."""
        noted = [self._noted(path, one) for one in reversed(commits)]
        if noted[0].version:
            says = (at for at, one in enumerate(noted) if says_place(one, self._owner(table)))
            noted = noted[next(says, 0) :]
        landed = log.ends if log else {}
        return stretches(self._owner(table), noted, self._first(table, noted), self.batches, landed)

    def _are_enough(self, found: Sequence[Stretch]) -> bool:
        """Whether earlier versions are of earlier places than all these."""
        first = found[0].content
        if first is None or found[0].change is None:
            return False
        return first.epoch == self.batches.newest and first.since == first.at

    def _owner(self, table: str) -> dict[str, Any]:
        tables = self.tables
        return {"destination": tables.destination, "client_id": tables.client_id, "table": table}

    def _first(self, table: str, commits: Sequence[NotedCommit]) -> Content | None:
        """Returns the content of the first commit, by the progress that its version records."""
        epochs = [int(one.note.get("epoch") or 0) for one in commits]
        newest = max([self.batches.newest, *epochs, 0])
        progress = self.tables.progress(table, newest, commits[0].version)
        return None if progress is None else first_content(progress, self.batches)

    def _readable(self, path: str, commits: Sequence[DeltaCommit]) -> Sequence[DeltaCommit]:
        """Returns the commits whose versions can be opened: those before the oldest checkpoint may be left behind."""
        if self._opens(path, commits[-1].version):
            return commits
        return commits[: bisect_left(commits, True, key=lambda one: not self._opens(path, one.version))]

    def _opens(self, path: str, version: int) -> bool:
        try:
            self.tables.lake.open(path, version)
        except DeltaError:
            return False
        return True

    def _noted(self, path: str, commit: DeltaCommit) -> NotedCommit:
        note, dropped = commit.note, False
        kind = note.get("ddl")
        if kind in _DROPS:
            dropped = True
        elif kind in _MAY_DROP:
            state = self.tables.lake.state(path, "", commit.version)
            dropped = state is None or state.dropped
        copied = self._copied(path, commit) if "copy" in note and "has" not in note["copy"] else None
        return NotedCommit(commit.version, note, commit.operation, commit.restored, dropped, copied)

    def _copied(self, path: str, commit: DeltaCommit) -> CopyNote | None:
        """Returns what the table says of a copy: the commit's version, or one of the next. The rows may go further than
        the commit's note says, because changes were laid over them."""
        lake, low = self.tables.lake, int(commit.note["version"])
        for version in range(commit.version, commit.version + _LOOKS):
            try:
                state = lake.state(path, "", version)
            except TableStopped:
                break
            copied = state.copied if state else None
            if copied is not None and copied.epoch == commit.note.get("epoch") and copied.low >= low:
                return copied
        return None

    def _log(self, table: str) -> KnownLog | None:
        """Returns the table's change log, or None if there is none that can be read."""
        try:
            log = self.tables.log(table)
        except TableStopped:
            return None
        if log is None or not log.is_owned:
            return None
        newest = max([self.batches.newest, *log.epochs])
        ends = log.ends(newest)
        lacks = {epoch: upto for epoch in ends if (upto := log.lacks_to(epoch)) is not None}
        began = Began.of(log.properties)
        return KnownLog(log.version, ends, lacks, whole=began is not None and began.empty)

    def without_files(self, known: KnownTable, version: int) -> KnownTable:
        """Returns the table with that version among those that cannot be read, if files of it are gone."""
        if version in known.unreadable or not self._lacks_files(self.tables.path(known.table), version):
            return known
        return replace(known, unreadable={*known.unreadable, version})

    def _lacks_files(self, path: str, version: int) -> bool:
        lake = self.tables.lake
        try:
            newest, table = lake.open(path), lake.open(path, version)
            folder = folder_at(path, lake.storage)
            infos = folder.get_file_info(sorted({*_files(table)} - {*_files(newest)}))
            if version != newest.version() and _lacks_vectors(table):
                return True
        except (DeltaError, OSError) as error:
            hint = "Make the lake readable, then try again."
            raise LakeError(f"the table cannot be read: {first_line(error)}", place=path, hint=hint) from error
        return any(info.type is FileType.NotFound for info in infos)


def _before(log: KnownLog, found: Sequence[Stretch] = ()) -> list[Stretch]:
    """Returns the stretch of the table before all rows of its log, if the log began with its first row."""
    if not log.whole or not log.ends:
        return []
    first = next((one for one in found if one.change is not None), None)
    unlogged = None
    if first is not None and first.change is not None:
        unlogged = first.unlogged if first.change.logged else first.change
    return [Stretch(NOTHING, Content(min(log.ends), 0, 0), unlogged=unlogged)]


def _files(table: DeltaTable) -> Iterator[str]:
    yield from (str(path) for path in pa.table(table.get_add_actions()).column("path").to_pylist())


def _lacks_vectors(table: DeltaTable) -> bool:
    """Whether a file that says which rows are deleted is gone: data files outlive it. Raises DeltaError."""
    if VECTORS not in (table.protocol().reader_features or ()):
        return False
    try:
        for _ in table.deletion_vectors():
            pass
    except DeltaError as error:
        if "not found" in str(error).lower():
            return True
        raise
    return False


def first_content(progress: TableProgress, batches: Batches) -> Content | None:
    """Returns the content of a version by the progress that it records; None if it has nothing yet."""
    state, base, there = progress.state, progress.state.base, not progress.state.dropped
    since = base.epoch if base else 0
    places = [(epoch, end) for epoch, end in progress.ends.items() if epoch >= since]
    places += [(base.epoch, base.low)] if base else []
    places += [state.followed] if state.followed else []
    if not places:
        return None
    epoch, at = max(places)
    if base is not None and (base.epoch, base.low) == (epoch, at):
        return Content(epoch, at, max(at, base.high), there)
    server = batches.server(epoch)
    if any(batches.server(one) != server for one, _ in places):
        return Content(epoch, at, None, there)
    high = [base.high] if base else []
    return Content(epoch, at, max([at, *(end for _, end in places), *high]), there)
