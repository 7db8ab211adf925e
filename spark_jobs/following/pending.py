"""Which rows of a log its merged table lacks: by the logs of both and the statistics of files, without reading a row.

The rows of an epoch count behind the version that the merged table has of it. Earlier epochs come first, and those
before a copy of the table never. A part ends where a file ends, so that a backlog becomes commits of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError, TableStopped
from cdc_core.position import EntryPosition, split_version
from cdc_core.schema.names import split_name
from spark_jobs.apply.epochs import ALWAYS, followed_to
from spark_jobs.following.files import LogFile, epochs_of, log_files
from spark_jobs.following.lacked import Lacked, lacked
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import LOG, TableState, app_id
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
class Follows:
    """The merged tables of one client of one destination, and their logs."""

    lake: Lake
    destination: str
    client_id: int
    part_rows: int = PART_ROWS

    def app(self, table: str, epoch: int) -> str:
        return app_id(self.destination, self.client_id, table, epoch)

    def path(self, table: str) -> str:
        return self.lake.path(*split_name(table))

    def log_path(self, table: str) -> str:
        return self.lake.log_path(*split_name(table))

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
        """What the merged table, or a version of it, lacks of these epochs: see `lacked.lacked`."""
        states = self.lake.states(self.path(table), [self.app(table, epoch) for epoch in epochs], version)
        return lacked(self, log, table, files, epochs, dict(zip(epochs, states, strict=False)))

    def is_over(self, state: TableState, epoch: int) -> bool:
        return is_over(state, epoch)

    def lacks_to(self, log: DeltaTable, table: str, epoch: int) -> int | None:
        """The version up to which the epoch's changes are not all in the log, None for nothing."""
        return lacks_to(log, self.destination, self.client_id, table, epoch)

    def _check_gone(self, log: DeltaTable, table: str, files: Sequence[LogFile]) -> None:
        """Raises TableStopped where the log has no row left of an epoch that the table lacks."""
        there = epochs_of(files)
        for epoch in set(range(max(there, default=0) + 1)) - {*there}:
            if self.lacks_to(log, table, epoch) is not None:
                state = self.lake.state(self.path(table), self.app(table, epoch))
                if state is None or not is_over(state, epoch):
                    self._check_whole(log, table, epoch, self.merged_to(log, state, epoch))

    def _check_whole(self, log: DeltaTable, table: str, epoch: int, after: int | None) -> None:
        lacked = self.lacks_to(log, table, epoch)
        if lacked is not None and (after is None or after < lacked):
            what = "has none of its changes" if after is None else f"is at version {after}"
            message = f"the merged table {what}, and its change log is whole behind version {lacked} of epoch {epoch}"
            raise TableStopped(message, place=log.table_uri, hint=copy_hint(self.destination, table))

    def merged_to(self, log: DeltaTable, state: TableState | None, epoch: int) -> int | None:
        """The version up to which the merged table has the epoch's rows, None for nothing. Of an epoch of which the
        log has no row, its commits alone tell."""
        if state is None or f"{EPOCHS}{epoch}" not in log.metadata().configuration:
            return state.applied if state else None
        followed = followed_to(self.stands_for(log, epoch), state)
        known = [version for version in (state.applied, followed) if version is not None]
        return max(known, default=None)

    def stands_for(self, log: DeltaTable, epoch: int, part: Part | None = None) -> Claim:
        """A claim in the place of those whose rows a part of the log has: its epoch, and its range."""
        start, end = (part.after or 4, part.upto) if part else (4, 4)
        return replace(self.starting(log, epoch, start), end=place_of(end))

    def starting(self, log: DeltaTable, epoch: int, start: int) -> Claim:
        """The same of those whose rows begin behind version `start`."""
        moved, seamless = epoch_began(log.metadata().configuration, epoch, log.table_uri)
        begin = place_of(max(start, 4))
        return Claim(
            self.destination, self.client_id, 0, begin, begin, (), 0, 0, 0, (), epoch, "", 0.0,
            moved=moved, seamless=seamless,
        )  # fmt: skip


def is_over(state: TableState, epoch: int) -> bool:
    """Whether rows of the epoch count no more: the table was copied since, or followed a statement, before which
    its log was merged, or by which its rows went."""
    places = [state.followed[0] if state.followed else 0, state.copied.epoch if state.copied else 0]
    return epoch < max(places)


def opened(lake: Lake, path: str) -> DeltaTable | None:
    """The log at a path, None for none, or for a table of that name. Raises TableStopped for a damaged one, LakeError
    for one that is away."""
    try:
        found = lake.open(path)
        return found if LOG in found.metadata().configuration else None
    except TableNotFoundError:
        return None
    except DeltaError as error:
        hint = "Restore its _delta_log. If that cannot be: move the log away, and make the table anew (sluice copy)."
        raise TableStopped(f"the change log is damaged: {first_line(error)}", place=path, hint=hint) from error
    except OSError as error:
        hint = "See that the lake can be read; nothing is lost meanwhile."
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
