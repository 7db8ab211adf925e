"""The base of a remake: an earlier version of the table or nothing, and the rows of its log after that. No Spark.

It refuses a base that would give other rows than the table should have: if the log is not complete after it, or if the
table has changed since by other ways than its log: statements, batches that were merged directly, copies, repairs.
Commits of other programs since are undone, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from cdc_core.errors import LakeError, TableStopped
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.progress import TableProgress
from spark_jobs.lake.record import Began, Marks
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.seen_columns import changed_rules, noted_rules
from spark_jobs.lake.state import UPKEEP, DeltaCommit, TableState, cascade_id
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.landing.files import log_files
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.landing.unfollowed import Unfollowed

_TRUNCATE = "truncate"
_WAYS = {
    "counts": "merged a batch directly",
    "copy": "copied the table",
    "repair": "repaired rows",
    "undo": "has rows of an undo",
}
_OF_ROWS = ("WRITE", "MERGE", "UPDATE", "DELETE", "RESTORE", "TRUNCATE", "CREATE OR REPLACE", "REPLACE")
_NOTED = ("cascade", "counts", "copy", "repair", "undo", "ddl", "log", "remade", UPKEEP)
_LOOKS = 5  # versions after a copy's rows, of which one has its properties


@dataclass(frozen=True, slots=True)
class RebuildBase:
    """`version` of the merged table, or None to begin without rows. `stretches` are applied to it in order, at most
    `rows` rows of the log; the table is at `place` (epoch, version) before and after it. `truncated`: the place of the
    last statement since that emptied the table. `undone`: commits of other programs since, which the reload loses."""

    table: str
    version: int | None
    now: TableState
    log: OpenedLog
    stretches: tuple[VersionRange, ...]
    place: tuple[int, int]
    rows: int
    key: tuple[str, ...]
    truncated: tuple[int, int] | None = None
    undone: tuple[str, ...] = ()


def copied_version(tables: ClientTables, table: str) -> int:
    """Returns the version of the table that its last copy or snapshot made. Raises LakeError if it is not known."""
    path, now = tables.path(table), _now(tables, table)
    for commit in tables.lake.commits(path):
        if "copy" in commit.note:
            for version in range(commit.version, min(commit.version + _LOOKS, now.version) + 1):
                state = tables.lake.state(path, "", version)
                if state is not None and state.copied == now.copied:
                    return version
            break
    hint = f"Name a version, or begin from nothing. {copy_hint(tables.destination, table)}"
    raise LakeError("the table's history has no copy or snapshot of it", place=path, hint=hint)


def base_of(tables: ClientTables, table: str, version: int | None) -> RebuildBase:
    """Returns the base of a reload. Raises LakeError, with the remedy, if the table cannot be reloaded from that
    version; and what reading a lake raises."""
    now, log = _now(tables, table), _log(tables, table)
    began = Began.of(log.properties)
    if began is None:
        message = "the table cannot be rebuilt from it: its change log does not record from where it is complete"
        raise LakeError(message, place=log.path, hint=copy_hint(tables.destination, table))
    return _Search(tables, table, version, now, log, began, _earlier(tables, table, version, now)).base()


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks whether `table` can be reloaded from `version`. `now` is its state, `before` its state at that version,
    None for nothing; `began` says from where its log is complete."""

    tables: ClientTables
    table: str
    version: int | None
    now: TableState
    log: OpenedLog
    began: Began
    before: TableState | None

    def base(self) -> RebuildBase:
        """Returns the base. Raises LakeError."""
        tables, table, now, began = self.tables, self.table, self.now, self.began
        if self.before is None and now.version <= began.version:
            raise self._refused("the table is not the one for which its change log began")
        if self.before is None and not began.empty:
            raise self._refused("the table had rows before its change log began")
        since = self.before.version if self.before else began.version
        commits = [one for one in tables.lake.commits(tables.path(table)) if one.version > since]
        if Marks.of(now.properties).by_epoch and min((one.version for one in commits), default=since + 1) > since + 1:
            raise self._refused("its history no longer shows whether its rows were repaired since")
        truncated = self._check_ways(commits)
        self._check_same()
        Unfollowed(tables.lake, tables.destination, tables.client_id).check(table, now, tables.path(table))
        newest = self._newest()
        stretches = tuple(self._stretches(newest))
        files = log_files(self.log.table)
        rows = sum(one.rows for one in files if any(part.meets(one.epochs, one.low, one.high) for part in stretches))
        key = self.log.definition.primary_key
        others = takewhile(lambda one: "remade" not in one.note, commits)  # earlier ones are undone already
        undone = tuple(f"version {one.version}: {one.operation}" for one in others if _is_anothers(one))
        place = self._place(newest)
        return RebuildBase(table, self.version, now, self.log, stretches, place, rows, key, truncated, undone)

    def _check_ways(self, commits: list[DeltaCommit]) -> tuple[int, int] | None:
        """Returns the place of the last TRUNCATE among the commits, or None. Raises LakeError for changes that no log
        has."""
        truncated = []
        for commit in commits:
            noted = commit.note
            way = next((text for name, text in _WAYS.items() if name in noted), "")
            if noted.get("ddl") == _TRUNCATE:
                truncated.append((int(noted["epoch"]), int(noted["version"])))
            elif "ddl" in noted:
                way = f"followed a statement ({str(noted.get('text', ''))[:60]})"
            if way:
                why = f"version {commit.version} of the table {way}, which its log does not have"
                raise self._refused(why, commit.version)
        followed = self.before.followed if self.before else self.began.followed
        if self.now.followed != followed and self.now.followed not in truncated:
            raise self._refused("the table has followed statements since that its history no longer has")
        return max(truncated, default=None)

    def _check_same(self) -> None:
        """Raises LakeError for other columns, another copy, other rules, or values that were written without a note."""
        before, now = self.before, self.now
        if (before.copied if before else None) != now.copied:
            raise self._refused("the table was copied from the source since")
        if before is not None and _types(before) != _types(now):
            raise self._refused("the table's columns have changed since")
        if before is not None and noted_rules(before) != noted_rules(now):
            raise self._refused("the rules of the table have changed since")
        if why := changed_rules(noted_rules(now), {name for name, _ in _types(now)}, self.log.definition):
            raise self._refused(f"its log has rows by other rules: {why}")
        if now.unfilled or (before is not None and before.unfilled):
            raise self._refused("old rows have no values in an added column yet")
        if before is None and now.unfilled_number:
            raise self._refused("old rows were given the values of an added column, which its log does not have")
        if why := self.log.lacks_values(now.columns):
            raise self._refused(why)
        there = {(column.name, column.type) for column in self.log.columns}
        missing = [name for name, kind in _types(now) if (name, kind) not in there]
        if missing:
            raise self._refused(f"its log does not have the column {missing[0]}")

    def _stretches(self, newest: int) -> Iterator[VersionRange]:
        """Yields the log's ranges between the base and the table's place, in the epochs up to `newest`. Raises
        LakeError if the log lacks some of them."""
        tables, log, path = self.tables, self.log, self.tables.path(self.table)
        present = tables.progress(self.table, newest)
        there = tables.progress(self.table, newest, self.version) if self.version is not None else None
        if present is None:
            return
        for epoch in range(newest + 1):
            if self.now.copied is not None and epoch < self.now.copied.epoch:
                continue
            app, upto = tables.app(self.table, epoch), present.ends.get(epoch)
            had = there.ends.get(epoch) if there else self.began.at.get(epoch) if self.version is None else None
            cascaded = [
                tables.lake.open(path, one).transaction_version(cascade_id(app)) for one in (self.version, None)
            ]
            if cascaded[1] != (cascaded[0] if self.version is not None else None):
                raise self._refused("a foreign key changed its rows since")
            if upto is None or (had is not None and had >= upto):
                continue
            end, lacks = log.end(epoch), log.lacks_to(epoch)
            if end is None or end < upto:
                raise self._refused(f"changes of epoch {epoch} were merged without being landed")
            followed = present.inherited(log.epoch(epoch))
            again = self._left_out(epoch, present)
            after = max((one for one in (had, followed, again) if one is not None), default=None)
            if lacks is not None and (after is None or after < lacks):
                raise self._refused(f"its log is complete only after version {lacks} of epoch {epoch}")
            if after is None or after < upto:
                yield VersionRange(epoch, after, upto)

    def _left_out(self, epoch: int, present: TableProgress) -> int | None:
        """Returns, for a table without a key, the version up to which it has the epoch's rows by earlier epochs, or
        None. Raises LakeError if that is unknown."""
        end = self.log.end(epoch)
        if self.log.has_key or end is None:
            return None
        try:
            return self.tables.comes_again(self.log, log_files(self.log.table), epoch, end, None, present)
        except TableStopped as error:
            raise self._refused(error.message) from error

    def _place(self, newest: int) -> tuple[int, int]:
        """Returns the epoch and the version at which the table is."""
        progress, path = self.tables.progress(self.table, newest), self.tables.path(self.table)
        if progress is not None and progress.ends:
            last = max(progress.ends)
            return last, progress.ends[last]
        raise LakeError("nothing was merged into the table yet", place=path, hint="Start the job that merges.")

    def _newest(self) -> int:
        """Returns the last epoch of which there may be changes."""
        followed = self.now.followed[0] if self.now.followed else 0
        known = self.tables.ledger.stretches()
        return max([followed, *known, *(file.epochs[1] for file in log_files(self.log.table))])

    def _refused(self, why: str, later: int | None = None) -> LakeError:
        return _refused(self.tables, self.table, why, later)


def _now(tables: ClientTables, table: str) -> TableState:
    path = tables.path(table)
    state = tables.lake.state(path, "")
    if state is None:
        hint = "The job that merges logs creates it if its log is complete."
        raise LakeError("the lake has no such table", place=path, hint=hint)
    state.check_owner(tables.destination, table, path)
    state.check_form(table)
    if state.dropped:
        raise LakeError("the source no longer has the table", place=path, hint="No action needed.")
    if state.own:
        message = f"the table has columns besides the source's ({', '.join(state.own.names)})"
        raise LakeError(f"{message}, which cannot be rebuilt", place=path, hint=copy_hint(tables.destination, table))
    return state


def _log(tables: ClientTables, table: str) -> OpenedLog:
    opened = TableLog(tables.lake, tables.destination, tables.client_id, table).open()
    if opened is None:
        raise _refused(tables, table, "the table has no change log")
    opened.check_owner()
    return opened


def _earlier(tables: ClientTables, table: str, version: int | None, now: TableState) -> TableState | None:
    """Returns the table's state at a version; None for nothing."""
    if version is None:
        return None
    path = tables.path(table)
    if not 0 <= version <= now.version:
        raise LakeError(f"the table has no version {version}", place=path, hint=f"Its newest is {now.version}.")
    try:
        state = tables.lake.state(path, "", version)
    except TableStopped as error:
        raise _refused(tables, table, f"version {version} cannot be read any more: {first_line(error)}") from error
    assert state is not None
    return state


def _types(state: TableState) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in state.columns]


def _is_anothers(commit: DeltaCommit) -> bool:
    return commit.operation.startswith(_OF_ROWS) and not any(name in commit.note for name in _NOTED)


def _refused(tables: ClientTables, table: str, why: str, later: int | None = None) -> LakeError:
    hint = f"Begin from version {later} or a later one. " if later is not None else "Begin from a later version. "
    return LakeError(
        f"the table cannot be rebuilt from there: {why}",
        place=tables.path(table),
        hint=hint + copy_hint(tables.destination, table),
    )
