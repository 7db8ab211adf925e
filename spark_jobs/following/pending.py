"""Which rows of a log its merged table lacks: by the logs of both and the statistics of files, without reading a row.

The rows of an epoch count behind the version that the merged table has of it. Earlier epochs come first, and those
before a copy of the table never. A part ends where a file ends, so that a backlog becomes commits of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.errors import LakeError, TableStopped
from cdc_core.position import EntryPosition, split_version
from cdc_core.schema.names import split_name
from spark_jobs.apply.commits import log_note
from spark_jobs.following.files import LogFile, epochs_of, log_files
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import ALWAYS, Epoch, Range, TableProgress, is_over
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import LOG, TableState, app_id, log_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.definition import EPOCHS, epoch_began, has_key
from spark_jobs.landing.whole import lacks_to

PART_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of `epoch` behind version `after` up to `upto`: at most `rows`, the oldest landed at `since`. `whole`:
    nothing of the epoch is left behind it."""

    epoch: int
    after: int | None
    upto: int
    rows: int
    since: float
    whole: bool = True

    def note(self, owner: Ledger, table: str, run_id: str) -> str:
        """Delta's user metadata of the commit that merges it."""
        return log_note(owner, table, self.epoch, max(self.after or 4, 4), self.upto, run_id)


@dataclass(frozen=True, slots=True)
class Pending:
    """The first part of a log that the merged table lacks, and all that it lacks: `rows` up to version `end` of the
    last epoch, the oldest landed at `since`. `log` is the version of the log that was read; `state` is the merged
    table's for the part's epoch."""

    table: str
    part: Part
    rows: int
    since: float
    end: int
    log: DeltaTable
    state: TableState | None


@dataclass(frozen=True, slots=True)
class Lacked:
    """The rows of `epoch` behind version `after`, None for all, up to version `end`. `ends`: nothing behind `end` will
    ever count. `state` is the merged table's, None where there is no table."""

    epoch: int
    after: int | None
    end: int
    state: TableState | None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Follows:
    """The merged tables of one client of one destination, and their logs."""

    lake: Lake
    destination: str
    client_id: int
    part_rows: int = PART_ROWS

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.lake, self.destination, self.client_id)

    def app(self, table: str, epoch: int) -> str:
        return app_id(self.destination, self.client_id, table, epoch)

    def path(self, table: str) -> str:
        return self.lake.path(*split_name(table))

    def log_path(self, table: str) -> str:
        return self.lake.log_path(*split_name(table))

    def progress(self, table: str, upto: int, version: int | None = None) -> TableProgress | None:
        """How far the merged table, or a version of it, is in the epochs up to `upto`; None where there is none."""
        return TableProgress.read(self.ledger, table, upto, version)

    def pending(self, table: str) -> Pending | None:
        """None where the merged table has all of its log, or where there is none. Raises LakeError; TableStopped for a
        damaged log, and for one that lacks changes which the table has not."""
        log = opened(self.lake, self.log_path(table))
        if log is None:
            return None
        found: list[tuple[Part, TableState | None]] = []
        files = log_files(log)
        try:
            for one in self.lacked(log, table, files, epochs_of(files)):
                self._check_whole(log, table, one.epoch, one.after)
                left = parts(files, one.epoch, one.after, one.end, self.part_rows, stops=one.ends)
                found += [(part, one.state) for part in left]
        except TableStopped:
            if not found or has_key(log.metadata().configuration):
                raise
        self._check_gone(log, table, files)
        if not found:
            return None
        (first, state), rows = found[0], sum(part.rows for part, _ in found)
        since, end = min(part.since for part, _ in found), found[-1][0].upto
        return Pending(table, first, rows, since, end, log, state)

    def lacked(
        self, log: DeltaTable, table: str, files: Sequence[LogFile], epochs: Sequence[int], version: int | None = None
    ) -> Iterator[Lacked]:
        """What the merged table, or a version of it, lacks of these epochs, in the order in which they are merged.

        With a key, what comes again in a later epoch is merged again. Without one it is left out, up to where the log
        of the epochs before it goes: these are merged first. Raises TableStopped at the first epoch of which nobody
        knows what the table lacks; it may come behind others."""
        keyed = has_key(log.metadata().configuration)
        there = self.progress(table, max(epochs, default=0), version)
        progress = there or TableProgress.nothing(self.ledger, table)
        for epoch in epochs:
            end = log.transaction_version(log_app_id(self.destination, self.client_id, table, epoch))
            if end is None or is_over(progress.state, epoch):
                continue  # a file that was compacted spans the epoch, and has no row of it
            after, ends = self.merged_to(log, there, epoch), False
            if not keyed:
                left = _left(log, epoch)
                ends = left is not None and left < end and (after or 0) <= left
                end = left if ends and left is not None else end
                again = self.comes_again(log, files, epoch, end, after, progress)
                after = max((one for one in (after, again) if one is not None), default=None)
                will = {**progress.ends, epoch: max(end, after or 0)}  # when later epochs are merged
                progress = replace(progress, ends=will)
            state = replace(there.state, applied=there.ends.get(epoch)) if there else None
            yield Lacked(epoch, after, end, state, ends)

    def comes_again(
        self,
        log: DeltaTable,
        files: Sequence[LogFile],
        epoch: int,
        end: int,
        after: int | None,
        progress: TableProgress,
    ) -> int | None:
        """Up to where a table without a key has the epoch's rows by earlier epochs; None for nothing, also where it is
        at `after`, beyond what they brought. `end`: the log's. Raises TableStopped."""
        earlier = [version for number, version in progress.ends.items() if number < epoch]
        if not any(earlier) or (after is not None and after >= max(earlier)):
            return None
        start = max(self._begins(files, epoch, end), after or 0)
        return replace(progress, keyed=False).repeats(Range(self.epoch(log, epoch), start, end))

    def _begins(self, files: Sequence[LogFile], epoch: int, end: int) -> int:
        """The highest known lower bound of the epoch's rows, those still to come included."""
        own = [file.low - 1 for file in files if file.epochs[0] <= epoch <= file.epochs[1]]
        noted = self.ledger.stretches().get(epoch)
        return max(min(own, default=end), noted.start if noted else 0)

    def lacks_to(self, log: DeltaTable, table: str, epoch: int) -> int | None:
        """The version up to which the epoch's changes are not all in the log, None for nothing."""
        return lacks_to(log, self.destination, self.client_id, table, epoch)

    def _check_gone(self, log: DeltaTable, table: str, files: Sequence[LogFile]) -> None:
        """Raises TableStopped where the log has no row left of an epoch that the table lacks."""
        there = epochs_of(files)
        gone = set(range(max(there, default=0) + 1)) - {*there}
        for epoch in sorted(one for one in gone if self.lacks_to(log, table, one) is not None):
            progress = self.progress(table, epoch)
            if progress is None or not is_over(progress.state, epoch):
                self._check_whole(log, table, epoch, self.merged_to(log, progress, epoch))

    def _check_whole(self, log: DeltaTable, table: str, epoch: int, after: int | None) -> None:
        lacked = self.lacks_to(log, table, epoch)
        if lacked is not None and (after is None or after < lacked):
            what = "has none of its changes" if after is None else f"is at version {after}"
            message = (
                f"the merged table {what}, and its change log is complete only after version {lacked} of epoch {epoch}"
            )
            raise TableStopped(message, place=log.table_uri, hint=copy_hint(self.destination, table))

    def merged_to(self, log: DeltaTable, progress: TableProgress | None, epoch: int) -> int | None:
        """The version up to which the merged table has the epoch's rows, None for nothing. Of an epoch of which the
        log has no row, its commits alone tell."""
        if progress is None or f"{EPOCHS}{epoch}" not in log.metadata().configuration:
            return progress.ends.get(epoch) if progress else None
        return progress.after(self.epoch(log, epoch))

    def epoch(self, log: DeltaTable, number: int) -> Epoch:
        """How the epoch began. Raises TableStopped for a log that does not say it."""
        return Epoch(number, *epoch_began(log.metadata().configuration, number, log.table_uri))


def _left(log: DeltaTable, epoch: int) -> int | None:
    """The version at which reading left the epoch for another server, which sends again what lies behind it; None where
    it did not, or where nobody knows. A batch that was landed there and not acked is such."""
    properties = log.metadata().configuration
    later = [int(key.removeprefix(EPOCHS)) for key in properties if key.startswith(EPOCHS)]
    for one in (one for one in later if one > epoch):
        _, seamless = epoch_began(properties, one, log.table_uri)
        if (left := dict(seamless).get(epoch + 1)) is not None:
            return left
    return None


def opened(lake: Lake, path: str) -> DeltaTable | None:
    """Returns the log at a path; None if there is none, or it is a table. Raises TableStopped for a damaged one,
    LakeError for one that cannot be read."""
    try:
        found = lake.open(path)
        return found if LOG in found.metadata().configuration else None
    except TableNotFoundError:
        return None
    except DeltaError as error:
        hint = "Restore its _delta_log. If that is impossible, move the log away, and reload the table (sluice copy)."
        raise TableStopped(f"the change log is damaged: {first_line(error)}", place=path, hint=hint) from error
    except OSError as error:
        hint = "Make the lake readable; nothing is lost meanwhile."
        raise LakeError(f"the change log cannot be opened: {first_line(error)}", place=path, hint=hint) from error


def parts(
    files: Sequence[LogFile], epoch: int, after: int | None, end: int | None, most: int, *, stops: bool = False
) -> list[Part]:
    """What a merged table at `after` lacks of one epoch, in parts of about `most` rows. `end`: the log's, behind which
    it has no row of the epoch; or, where it `stops` there, none that counts."""
    behind, last = -1 if after is None else after, ALWAYS if end is None else end
    own = (file for file in files if file.epochs[0] <= epoch <= file.epochs[1] and not (stops and file.low > last))
    highs = [(min(file.high, last), file) for file in own]
    left = sorted(((high, file) for high, file in highs if high > behind), key=lambda one: (one[0], one[1].low))
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
    """The position of a version, in a journal whose name is not known but for its number."""
    number, offset = split_version(version)
    return EntryPosition(f"journal.{number:06d}", offset)
