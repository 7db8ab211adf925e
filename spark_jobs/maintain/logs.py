"""`LogUpkeep`: deletes a change log's old rows when their time is over, joins its small files, and deletes old files.

delta-rs does all of it while runs land and merge. It refuses an append that is under way when rows are deleted; the run
does it again. The merged table has had the deleted rows for a week at least, so every version of the table that can be
read still finds in the log the rows that it lacks: merges, views, a table reloaded from an earlier version. Rows that
the table's history lacks stay as well.
The commit that deletes says up to where; from then on a table that lacks such rows is reported, and not merged.
For readers it removes features that no column needs, in a commit that changes nothing for appends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import full_name, split_name
from spark_jobs.changes.columns import EPOCH, TIME, VERSION
from spark_jobs.following.history.standing import Histories
from spark_jobs.following.pending import Follows
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.progress import ALWAYS
from spark_jobs.lake.properties import without_features
from spark_jobs.lake.queries import selected_table
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.state import HISTORY, log_app_id
from spark_jobs.lake.statistics import exact_statistics
from spark_jobs.lake.types import delta_type
from spark_jobs.landing.files import log_files
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.landing.whole import lacking
from spark_jobs.maintain.as_of import as_of, is_younger
from spark_jobs.maintain.readers import needless_features
from spark_jobs.maintain.result import Maintained
from spark_jobs.maintain.retention import LEAST_HOURS, RETENTION, retention_hours
from spark_jobs.maintain.shape import LARGE, shape

_TRIES = 5  # a try is lost to a run that rewrote the same files
_UNKNOWN = "its content of a week ago is no longer known: set delta.logRetentionDuration to more than a week"
_LACKED = "rows that its history lacks are kept; move the history away if nobody needs it"


@dataclass(frozen=True, slots=True)
class Retention:
    """The hours for which a log's rows are kept; None for ever. `alone`: the log has no merged table."""

    hours: int | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class LogUpkeep:
    """For the logs of one client. `view` rebuilds the view of a table, which may read rows that are to go, and says why
    it could not. The clock gives seconds since 1970. `readers`: features that no column needs are removed too."""

    follows: Follows
    clock: Callable[[], float] = time.time
    view: Callable[[str], str] = lambda _: ""
    readers: bool = False

    def log(self, table: str, kept: Retention) -> Maintained:
        """Maintains a table's log. Raises LakeError for a lake that fails. A log that is foreign, gone or damaged is
        left alone."""
        begun = self.clock()
        name = full_name(split_name(table)[0], f"{split_name(table)[1]}__log")
        log = TableLog(self.follows.lake, self.follows.destination, self.follows.client_id, table)
        try:
            opened = log.open()
            if opened is None:
                return Maintained(name, left="the table has no change log")
            opened.check_owner()
            before = shape(log.lake, log.path)
            rows, why = self._delete(opened, kept) if kept.hours is not None else (0, "")
            compacted = _compacted(log)
            changed, lasting = _without_needless(log) if self.readers else ((), ())
            hours = retention_hours(opened.properties)
            deleted = len(_vacuumed(log, hours)) if hours else 0
            after = shape(log.lake, log.path)
        except TableStopped as error:
            return Maintained(name, left=str(error))
        except (DeltaError, OSError) as error:
            hint = "Make the lake readable and writable, then run it again; no row is affected."
            raise LakeError(f"the log cannot be maintained: {first_line(error)}", place=log.path, hint=hint) from error
        unread = "" if hours else f"{RETENTION} is {opened.properties[RETENTION]!r}, which is not understood"
        return Maintained(
            name, before, after, compacted, deleted, hours, self.clock() - begun, kept=unread,
            rows_deleted=rows, rows_kept=why, log_hours=kept.hours, changed=changed, lasting=lasting,
        )  # fmt: skip

    def _delete(self, opened: OpenedLog, kept: Retention) -> tuple[int, str]:
        """Deletes old rows, and returns their number, and why no more could be deleted."""
        assert kept.hours is not None
        had = self._had(opened, kept)
        if isinstance(had, str):
            return 0, had
        limit = datetime.fromtimestamp(self.clock(), UTC) - timedelta(hours=max(kept.hours, LEAST_HOURS))
        taken, why = self._taken(opened, had)
        landed = self.follows.ledger.noted_before(limit)
        upto = _aged(opened.table, taken, limit, landed)
        if upto and not kept.alone and (stale := self.view(opened.log.name)):
            return 0, f"{stale}, and may read rows that would go"
        return _deleted(opened.log, upto) if upto else 0, why

    def _taken(self, opened: OpenedLog, had: Mapping[int, int]) -> tuple[Mapping[int, int], str]:
        """Returns the part of it that the table's history has too, and why that is less."""
        follows, table = self.follows, opened.log.name
        histories = Histories(follows.lake, follows.destination, follows.client_id)
        try:
            state = follows.lake.state(histories.path(table), "")
            if state is None or HISTORY not in state.properties:
                return had, ""
            there = histories.progress(table, max(had, default=0))
            found = {epoch: min(upto, histories.merged_to(opened, there, epoch) or 0) for epoch, upto in had.items()}
        except TableStopped as error:
            return {}, f"it is unknown which rows its history lacks, so all rows are kept: {error.message}"
        return found, _LACKED if found != had else ""

    def _had(self, opened: OpenedLog, kept: Retention) -> dict[int, int] | str:
        """Returns by epoch the version that the merged table had a week ago, or for a log alone the log itself. A text
        says why it is unknown."""
        follows, table = self.follows, opened.log.name
        path = opened.log.path if kept.alone else follows.path(table)
        state = follows.lake.state(path, "")
        if state is None:
            return "the table does not exist, so all rows that it lacks are kept"
        hours = retention_hours(state.properties)
        if hours is None:
            return f"{RETENTION} of the table is not understood"
        moment = datetime.fromtimestamp(self.clock(), UTC) - timedelta(hours=hours)
        there = as_of(follows.lake, path, moment)
        if there is None:
            return "" if is_younger(follows.lake.open(path), moment) else _UNKNOWN
        newest = max((file.epochs[1] for file in log_files(opened.table)), default=-1)
        if kept.alone:
            apps = (log_app_id(follows.destination, follows.client_id, table, epoch) for epoch in range(newest + 1))
            found = dict(enumerate(map(there.transaction_version, apps)))
            return {epoch: version for epoch, version in found.items() if version is not None}
        return self._merged(opened, there.version(), newest)

    def _merged(self, opened: OpenedLog, version: int, newest: int) -> dict[int, int]:
        """Returns the part of each epoch that a version of the merged table had. It needs nothing of epochs before its
        copy."""
        progress, ends = self.follows.progress(opened.log.name, newest, version), opened.ends(newest)
        if progress is None:
            return {}
        copied = progress.state.copied
        over = range(min(copied.epoch, newest + 1) if copied is not None else 0)
        had = dict.fromkeys(over, ALWAYS) | {one: end for one, end in progress.ends.items() if one not in over}
        return {epoch: min(end, ends.get(epoch, 0)) for epoch, end in had.items()}


def _aged(log: DeltaTable, had: Mapping[int, int], limit: datetime, landed: Mapping[int, int]) -> dict[int, int]:
    """Returns by epoch the version, `had` at most, up to which all rows were executed before `limit`; without epochs of
    which the log has no such row. `landed`: by epoch, up to where rows had landed by then, whatever their time says: a
    source's clock may be ahead, or a session may set a time in the future."""
    files, found = log_files(log), dict[int, int]()
    for epoch, upto in had.items():
        if not any(one.epochs[0] <= epoch <= one.epochs[1] and one.low <= upto for one in files):
            continue
        where = f"{EPOCH} = {epoch:d} AND {VERSION} <= {upto:d}"
        later = f"{VERSION} > {landed.get(epoch, -1):d} AND {TIME} >= TIMESTAMP '{limit.isoformat()}'"
        young = _one(log, f"SELECT min({VERSION}) FROM log WHERE {where} AND {later}")  # noqa: S608
        last = _one(log, f"SELECT max({VERSION}) FROM log WHERE {where} AND {VERSION} < {young:d}") if young else upto  # noqa: S608
        if last is not None and _one(log, f"SELECT count(*) FROM log WHERE {where} AND {VERSION} <= {last:d}"):  # noqa: S608
            found[epoch] = last
    return found


def _one(log: DeltaTable, question: str) -> int | None:
    rows = selected_table(log, "log", question)
    value = rows.column(0)[0].as_py()
    return None if value is None else int(value)


def _deleted(log: TableLog, upto: Mapping[int, int]) -> int:
    """Deletes the rows in one commit that notes it. Raises LakeError if runs rewrite the same files again and again."""
    gone = " OR ".join(f"({EPOCH} = {epoch:d} AND {VERSION} <= {version:d})" for epoch, version in upto.items())
    note = json.dumps({"retention": {"table": log.name, "upto": {str(one): version for one, version in upto.items()}}})
    for _ in range(_TRIES):
        opened = log.open()
        if opened is None:
            return 0
        known = {one: opened.lacks_to(one) or 0 for one in upto}
        noted = lacking(log, {one: max(version, known[one]) for one, version in upto.items()})
        properties = CommitProperties(app_transactions=app_versions(noted), custom_metadata={"userMetadata": note})
        try:
            done = opened.table.delete(gone, commit_properties=properties)
        except CommitFailedError:
            continue
        return int(done.get("num_deleted_rows") or 0)
    hint = "Run it again; no row is affected."
    raise LakeError("other runs keep rewriting the log's files", place=log.path, hint=hint)


def _compacted(log: TableLog) -> bool:
    """Whether small files became large ones; a run that does the same at that moment goes first."""
    if not shape(log.lake, log.path).piled_up:
        return False
    try:
        opened = log.lake.open(log.path)
        how = exact_statistics(pa.schema(opened.schema().to_arrow()))
        opened.optimize.compact(target_size=LARGE, max_concurrent_tasks=1, writer_properties=how)
    except CommitFailedError:
        return False
    return True


def _without_needless(log: TableLog) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Removes the features that no column needs, and returns what changed, and what could not be changed."""
    table = log.lake.open(log.path)
    types = [delta_type(field.type) for field in table.schema().fields]
    needless = needless_features(table.protocol().writer_features or (), types)
    if not needless:
        return (), ()
    names = ", ".join(needless)
    try:
        if not without_features(table, needless):
            return (), (f"{names} stays: in an object store a change log keeps its features",)
    except CommitFailedError:
        return (), (f"{names} stays: another run changed the log meanwhile; run it again",)
    return (f"without {names}",), ()


def _vacuumed(log: TableLog, hours: int) -> list[str]:
    table = log.lake.open(log.path)
    return table.vacuum(max(hours, LEAST_HOURS), dry_run=False, full=True)
