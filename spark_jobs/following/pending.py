"""Finds the rows of a log that its merged table lacks: by Delta's logs of both and the statistics of files. No row is
read.

The rows of an epoch count if they are after the version that the merged table has of it. Earlier epochs come first;
epochs before a copy of the table never count. A part ends where a file ends, so that a backlog becomes commits of
bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition, split_version
from spark_jobs.apply.commits import log_note
from spark_jobs.changes.table_changes import Changes
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import ALWAYS, TableProgress, is_over
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import TableState
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.landing.files import LogFile, epochs_of, log_files
from spark_jobs.landing.log import OpenedLog

PART_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class Part(VersionRange):
    """A range of a log: at most `rows` rows, the oldest landed at `since`. `whole`: it is the last part of the
    epoch."""

    rows: int
    since: float
    whole: bool = True

    def note(self, owner: Ledger, table: str, run_id: str) -> str:
        """Returns Delta's user metadata for the commit that merges it."""
        return log_note(owner, table, self.epoch, max(self.after or 4, 4), self.upto, run_id)


@dataclass(frozen=True, slots=True)
class Pending:
    """The first part of a log that the merged table lacks, and the sum of what it lacks: `rows` up to version `end` of
    the last epoch, the oldest landed at `since`. `log` is as it was read; `state` is the merged table's for the part's
    epoch."""

    table: str
    part: Part
    rows: int
    since: float
    end: int
    log: OpenedLog
    state: TableState | None

    @property
    def changes(self) -> Changes:
        """Returns the part's changes. Raises TableStopped if the log does not have the table's definition."""
        return self.log.changes(self.part, self.part.rows)


@dataclass(frozen=True, slots=True)
class PendingRange:
    """The rows of `epoch` after version `after`, None for all, up to version `end`. `ends`: no row after `end` will
    ever count. `state` is the merged table's, None if there is no table."""

    epoch: int
    after: int | None
    end: int
    state: TableState | None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Follows(ClientTables):
    """Finds what the merged tables lack of their logs, in parts of about `part_rows` rows."""

    part_rows: int = PART_ROWS

    def pending(self, table: str) -> Pending | None:
        """Returns what the merged table lacks, or None if it has all of its log, or no log. Raises LakeError;
        TableStopped for a damaged log, and for a log without changes that the table lacks."""
        log = self.log(table)
        if log is None:
            return None
        found: list[tuple[Part, TableState | None]] = []
        files = log_files(log.table)
        try:
            for one in self.lacked(log, files, epochs_of(files)):
                self._check_whole(log, one.epoch, one.after)
                left = parts(files, one.epoch, one.after, one.end, self.part_rows, stops=one.ends)
                found += [(part, one.state) for part in left]
        except TableStopped:
            if not found or log.has_key:
                raise
        self._check_gone(log, files)
        if not found:
            return None
        (first, state), rows = found[0], sum(part.rows for part, _ in found)
        since, end = min(part.since for part, _ in found), found[-1][0].upto
        return Pending(table, first, rows, since, end, log, state)

    def lacked(
        self, log: OpenedLog, files: Sequence[LogFile], epochs: Sequence[int], version: int | None = None
    ) -> Iterator[PendingRange]:
        """Yields the rows of these epochs that the merged table, or a version of it, lacks, in the order of merging.

        With a key, rows that a later epoch repeats are merged again. Without one they are left out, up to where the log
        of the earlier epochs goes: these are merged first. Raises TableStopped at the first epoch for which it is
        unknown what the table lacks, perhaps after other epochs."""
        keyed, table = log.has_key, log.log.name
        there = self.progress(table, max(epochs, default=0), version)
        progress = there or TableProgress.nothing(self.ledger, table)
        for epoch in epochs:
            end = log.end(epoch)
            if end is None or is_over(progress.state, epoch):
                continue  # a compacted file spans the epoch, and has no row of it
            after, ends = self.merged_to(log, there, epoch), False
            if not keyed:
                left = log.left(epoch)
                ends = left is not None and left < end and (after or 0) <= left
                end = left if ends and left is not None else end
                again = self.comes_again(log, files, epoch, end, after, progress)
                after = max((one for one in (after, again) if one is not None), default=None)
                will = {**progress.ends, epoch: max(end, after or 0)}  # by the time that later epochs are merged
                progress = replace(progress, ends=will)
            state = replace(there.state, applied=there.ends.get(epoch)) if there else None
            yield PendingRange(epoch, after, end, state, ends)

    def _check_gone(self, log: OpenedLog, files: Sequence[LogFile]) -> None:
        """Raises TableStopped if the log has no row left of an epoch that the table lacks."""
        there = epochs_of(files)
        gone = set(range(max(there, default=0) + 1)) - {*there}
        for epoch in sorted(one for one in gone if log.lacks_to(one) is not None):
            progress = self.progress(log.log.name, epoch)
            if progress is None or not is_over(progress.state, epoch):
                self._check_whole(log, epoch, self.merged_to(log, progress, epoch))

    def _check_whole(self, log: OpenedLog, epoch: int, after: int | None) -> None:
        lacked = log.lacks_to(epoch)
        if lacked is not None and (after is None or after < lacked):
            what = "has none of its changes" if after is None else f"is at version {after}"
            message = (
                f"the merged table {what}, and its change log is complete only after version {lacked} of epoch {epoch}"
            )
            raise TableStopped(message, place=log.path, hint=copy_hint(self.destination, log.log.name))

    def merged_to(self, log: OpenedLog, progress: TableProgress | None, epoch: int) -> int | None:
        """Returns the version up to which the merged table has the epoch's rows, or None. For an epoch without a row in
        the log, only the table's commits say so."""
        if progress is None or epoch not in log.epochs:
            return progress.ends.get(epoch) if progress else None
        return progress.after(log.epoch(epoch))


def parts(
    files: Sequence[LogFile], epoch: int, after: int | None, end: int | None, most: int, *, stops: bool = False
) -> list[Part]:
    """Returns what a merged table at `after` lacks of one epoch, in parts of about `most` rows. `end`: the log's, after
    which it has no row of the epoch; or, if it `stops` there, no row that counts."""
    floor, last = -1 if after is None else after, ALWAYS if end is None else end
    own = (file for file in files if file.epochs[0] <= epoch <= file.epochs[1] and not (stops and file.low > last))
    highs = [(min(file.high, last), file) for file in own]
    left = sorted(((high, file) for high, file in highs if high > floor), key=lambda one: (one[0], one[1].low))
    found: list[Part] = []
    taken: list[LogFile] = []
    for number, (high, file) in enumerate(left):
        taken.append(file)
        whole = number == len(left) - 1
        rows = sum(one.rows for one in taken)
        if whole or (rows >= most and left[number + 1][0] > high):
            start, since = found[-1].upto if found else after, min(one.written for one in taken)
            upto = max(high, end or 0) if whole else high
            found.append(Part(epoch, start, upto, rows, since, whole))
            taken = []
    return found


def place_of(version: int) -> EntryPosition:
    """Returns the position of a version, in a journal of which only the number is known."""
    number, offset = split_version(version)
    return EntryPosition(f"journal.{number:06d}", offset)
