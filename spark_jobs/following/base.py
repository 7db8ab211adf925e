"""Finds what a table is reloaded from: an earlier version or nothing, and the rows of its log after that. No Spark.

It refuses a base that would give other rows than the table should have: if the log is not complete after it, or if the
table has changed since by other ways than its log: statements, batches that were merged directly, copies, repairs.
Commits of other programs since are undone, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from cdc_core.errors import LakeError, TableStopped
from spark_jobs.following.files import log_files
from spark_jobs.following.pending import Follows
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.progress import TableProgress
from spark_jobs.lake.record import Began, Marks
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import UPKEEP, DeltaCommit, TableState, cascade_id
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.landing.unfollowed import Unfollowed

_TRUNCATE = "truncate"
_WAYS = {"counts": "merged a batch directly", "copy": "copied the table", "repair": "repaired rows"}
_OF_ROWS = ("WRITE", "MERGE", "UPDATE", "DELETE", "RESTORE", "TRUNCATE", "CREATE OR REPLACE", "REPLACE")
_NOTED = ("counts", "copy", "repair", "ddl", "log", "remade", UPKEEP)
_LOOKS = 5  # versions after a copy's rows, of which one has its properties


@dataclass(frozen=True, slots=True)
class LogRange:
    """The log's rows of `epoch` after version `after` up to `upto`, as far as the table has them."""

    epoch: int
    after: int | None
    upto: int


@dataclass(frozen=True, slots=True)
class RebuildBase:
    """`version` of the merged table, or None to begin without rows. `stretches` are applied to it in order, at most
    `rows` rows of the log; the table is at `place` (epoch, version) before and after it. `truncated`: the place of the
    last statement since that emptied the table. `undone`: commits of other programs since, which the reload loses."""

    table: str
    version: int | None
    now: TableState
    log: OpenedLog
    stretches: tuple[LogRange, ...]
    place: tuple[int, int]
    rows: int
    key: tuple[str, ...]
    truncated: tuple[int, int] | None = None
    undone: tuple[str, ...] = ()


def copied_version(follows: Follows, table: str) -> int:
    """Returns the version of the table that its last copy or snapshot made. Raises LakeError if it is not known."""
    path = follows.path(table)
    now = _now(follows, table)
    for commit in follows.lake.commits(path):
        if "copy" in commit.note:
            for version in range(commit.version, min(commit.version + _LOOKS, now.version) + 1):
                state = follows.lake.state(path, "", version)
                if state is not None and state.copied == now.copied:
                    return version
            break
    hint = f"Name a version, or begin from nothing. {copy_hint(follows.destination, table)}"
    raise LakeError("the table's history has no copy or snapshot of it", place=path, hint=hint)


def base_of(follows: Follows, table: str, version: int | None) -> RebuildBase:
    """Returns the base of a reload. Raises LakeError, with the remedy, if the table cannot be reloaded from that
    version; and what reading a lake raises."""
    now, log = _now(follows, table), _log(follows, table)
    before = None if version is None else _earlier(follows, table, version, now)
    began = Began.of(log.properties)
    if began is None:
        message, hint = (
            "its change log does not record from where it is complete",
            copy_hint(follows.destination, table),
        )
        raise LakeError(f"the table cannot be rebuilt from it: {message}", place=log.log.path, hint=hint)
    if before is None and now.version <= began.version:
        raise _refused(follows, table, "the table is not the one for which its change log began")
    if before is None and not began.empty:
        raise _refused(follows, table, "the table had rows before its change log began")
    since = before.version if before else began.version
    commits = [one for one in follows.lake.commits(follows.path(table)) if one.version > since]
    followed = before.followed if before else began.followed
    if Marks.of(now.properties).by_epoch and min((one.version for one in commits), default=since + 1) > since + 1:
        raise _refused(follows, table, "its history no longer shows whether its rows were repaired since")
    truncated = _check_ways(follows, table, commits, followed, now)
    _check_same(follows, table, before, now, log)
    Unfollowed(follows.lake, follows.destination, follows.client_id).check(table, now, follows.path(table))
    stretches = tuple(_stretches(follows, table, version, began, now, log))
    place = _place(follows, table, log, now)
    rows = sum(one.rows for one in log_files(log.table) if any(_has(one.epochs, one.high, part) for part in stretches))
    key = log.definition.primary_key
    others = takewhile(lambda one: "remade" not in one.note, commits)  # earlier ones are undone already
    undone = tuple(f"version {one.version}: {one.operation}" for one in others if _is_anothers(one))
    return RebuildBase(table, version, now, log, stretches, place, rows, key, truncated, undone)


def _now(follows: Follows, table: str) -> TableState:
    path = follows.path(table)
    state = follows.lake.state(path, "")
    if state is None:
        hint = "The job that merges logs creates it if its log is complete."
        raise LakeError("the lake has no such table", place=path, hint=hint)
    state.check_owner(follows.destination, table, path)
    state.check_form(table)
    if state.dropped:
        raise LakeError("the source no longer has the table", place=path, hint="No action needed.")
    if state.own:
        message = f"the table has columns besides the source's ({', '.join(state.own.names)})"
        raise LakeError(f"{message}, which cannot be rebuilt", place=path, hint=copy_hint(follows.destination, table))
    return state


def _log(follows: Follows, table: str) -> OpenedLog:
    opened = TableLog(follows.lake, follows.destination, follows.client_id, table).open()
    if opened is None:
        raise _refused(follows, table, "the table has no change log")
    opened.check_owner()
    return opened


def _earlier(follows: Follows, table: str, version: int, now: TableState) -> TableState:
    path = follows.path(table)
    if not 0 <= version <= now.version:
        raise LakeError(f"the table has no version {version}", place=path, hint=f"Its newest is {now.version}.")
    try:
        state = follows.lake.state(path, "", version)
    except TableStopped as error:
        raise _refused(follows, table, f"version {version} cannot be read any more: {first_line(error)}") from error
    assert state is not None
    return state


def _check_ways(
    follows: Follows, table: str, commits: list[DeltaCommit], followed: tuple[int, int] | None, now: TableState
) -> tuple[int, int] | None:
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
            raise _refused(
                follows,
                table,
                f"version {commit.version} of the table {way}, which its log does not have",
                commit.version,
            )
    if now.followed != followed and now.followed not in truncated:
        raise _refused(follows, table, "the table has followed statements since that its history no longer has")
    return max(truncated, default=None)


def _check_same(follows: Follows, table: str, before: TableState | None, now: TableState, log: OpenedLog) -> None:
    """Raises LakeError for other columns, another copy, or values that were written without a note."""
    if (before.copied if before else None) != now.copied:
        raise _refused(follows, table, "the table was copied from the source since")
    if before is not None and _types(before) != _types(now):
        raise _refused(follows, table, "the table's columns have changed since")
    if now.unfilled or (before is not None and before.unfilled):
        raise _refused(follows, table, "old rows have no values in an added column yet")
    if before is None and now.unfilled_number:
        raise _refused(follows, table, "old rows were given the values of an added column, which its log does not have")
    own = {column.name for column in log.definition.columns}
    if gone := [name for name, _ in _types(now) if name not in own]:
        raise _refused(follows, table, f"rows keep their values of column {gone[0]}, which the source has dropped")
    there = {(column.name, column.type) for column in log.columns}
    missing = [name for name, kind in _types(now) if (name, kind) not in there]
    if missing:
        raise _refused(follows, table, f"its log does not have the column {missing[0]}")


def _stretches(
    follows: Follows, table: str, version: int | None, began: Began, now: TableState, log: OpenedLog
) -> Iterator[LogRange]:
    """Yields the log's ranges between the base and the table's place. Raises LakeError if the log lacks some of
    them."""
    path, newest = follows.path(table), _newest(follows, log, now)
    present = follows.progress(table, newest)
    there = follows.progress(table, newest, version) if version is not None else None
    if present is None:
        return
    for epoch in range(newest + 1):
        if now.copied is not None and epoch < now.copied.epoch:
            continue
        app, upto = follows.app(table, epoch), present.ends.get(epoch)
        had = there.ends.get(epoch) if there else began.at.get(epoch) if version is None else None
        cascaded = [follows.lake.open(path, one).transaction_version(cascade_id(app)) for one in (version, None)]
        if cascaded[1] != (cascaded[0] if version is not None else None):
            raise _refused(follows, table, "a foreign key changed its rows since")
        if upto is None or (had is not None and had >= upto):
            continue
        end, lacks = log.end(epoch), log.lacks_to(epoch)
        if end is None or end < upto:
            raise _refused(follows, table, f"changes of epoch {epoch} were merged without being landed")
        followed = present.inherited(log.epoch(epoch))
        again = _left_out(follows, table, epoch, present, log)
        after = max((one for one in (had, followed, again) if one is not None), default=None)
        if lacks is not None and (after is None or after < lacks):
            raise _refused(follows, table, f"its log is complete only after version {lacks} of epoch {epoch}")
        if after is None or after < upto:
            yield LogRange(epoch, after, upto)


def _left_out(follows: Follows, table: str, epoch: int, present: TableProgress, log: OpenedLog) -> int | None:
    """Returns, for a table without a key, the version up to which it has the epoch's rows by earlier epochs, or None.
    Raises LakeError if that is unknown."""
    end = log.end(epoch)
    if log.has_key or end is None:
        return None
    try:
        return follows.comes_again(log, log_files(log.table), epoch, end, None, present)
    except TableStopped as error:
        raise _refused(follows, table, error.message) from error


def _place(follows: Follows, table: str, log: OpenedLog, now: TableState) -> tuple[int, int]:
    """Returns the epoch and the version at which the table is."""
    progress = follows.progress(table, _newest(follows, log, now))
    if progress is not None and progress.ends:
        newest = max(progress.ends)
        return newest, progress.ends[newest]
    raise LakeError(
        "nothing was merged into the table yet", place=follows.path(table), hint="Start the job that merges."
    )


def _newest(follows: Follows, log: OpenedLog, now: TableState) -> int:
    """Returns the last epoch of which there may be changes."""
    known = follows.ledger.stretches()
    followed = now.followed[0] if now.followed else 0
    return max([followed, *known, *(file.epochs[1] for file in log_files(log.table))])


def _has(epochs: tuple[int, int], high: int, part: LogRange) -> bool:
    return epochs[0] <= part.epoch <= epochs[1] and (part.after is None or high > part.after)


def _types(state: TableState) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in state.columns]


def _is_anothers(commit: DeltaCommit) -> bool:
    return commit.operation.startswith(_OF_ROWS) and not any(name in commit.note for name in _NOTED)


def _refused(follows: Follows, table: str, why: str, later: int | None = None) -> LakeError:
    hint = f"Begin from version {later} or a later one. " if later is not None else "Begin from a later version. "
    return LakeError(
        f"the table cannot be rebuilt from there: {why}",
        place=follows.path(table),
        hint=hint + copy_hint(follows.destination, table),
    )
