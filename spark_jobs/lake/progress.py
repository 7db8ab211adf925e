"""The record of a table's progress: which part of which epoch it has. Nothing else decides what the table lacks.

A position is a version (`EntryPosition.version()`). An epoch is a client's reading between two rewinds or moves: the
same rows may come again in a later one. Three questions are asked:

    after(epoch)    the version up to which the table has everything of the epoch; rows after it are to be written
    repeats(range)  the version up to which rows of the range may be rows that the table has already
    has(range)      whether nothing of the range is left to write

The facts that give the answers, each written together with the thing it describes:

    ends       by epoch, the txnVersion of the table's last commit: it changes with the rows
    copied     the place of the copy that made the table: no earlier epoch counts, and rows up to its end come again
    followed   the last DDL statement: rows of earlier epochs up to it have the older columns, and do not count
    begun      the last statement after which the table has no earlier row, or all rows of another table: CREATE, DROP,
               TRUNCATE, a RENAME to its name. It counts as a copy at its place
    dropped    the source has no such table

A row with a primary key may come again: its MERGE changes nothing, only its counts differ. A row without a key would
be there twice, so the rows that the table has are left out. It must be certain that it has them: the epochs' batches,
by the ledger, must reach without a gap from the range's start to the table's place. If there is a gap, the table stops.
It also stops after a move to another server, whose positions cannot be compared with the first one's; unless reading
continued there by GTID, which repeats nothing, and the table had no more than the cursor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.state import DESTINATION, LOG, TABLE, TableState, app_id, log_app_id

ALWAYS = 1 << 63  # beyond every version
_REBUILD = "Reload the table (sluice copy): without a primary key, repeated rows look like new ones."


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of a client, by its number. `moved`: the first epoch of its server; positions of earlier ones belong to
    another server. `seamless`: ((epoch, version), ...), each epoch that began at another server exactly after the
    cursor of the epoch before, which had that version."""

    number: int
    moved: int = 0
    seamless: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, claim: Claim) -> Epoch:
        return cls(claim.epoch, claim.moved, claim.seamless)

    def unrepeated(self, ends: Mapping[int, int]) -> set[int]:
        """Returns the earlier epochs whose rows do not come again: every epoch since then began seamlessly, and the
        table was not ahead of the cursor that it left. `ends`: by epoch, how far the table had come."""
        left, found = dict(self.seamless), set[int]()
        for number in reversed(range(self.number)):
            if number + 1 not in left:
                break
            if ends.get(number, 0) <= left[number + 1]:
                found.add(number)
        return found


@dataclass(frozen=True, slots=True)
class Range:
    """The changes after version `start` up to version `end`, in one epoch."""

    epoch: Epoch
    start: int
    end: int

    @classmethod
    def of(cls, claim: Claim) -> Range:
        return cls(Epoch.of(claim), claim.start.version(), claim.end.version())


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far `database.table` is for one client, at one version of it. `ends`: by epoch, the version up to which its
    own commits have the changes. `keyed`: rows that come again change nothing."""

    ledger: Ledger
    table: str
    state: TableState
    ends: Mapping[int, int]
    keyed: bool

    @classmethod
    def read(cls, ledger: Ledger, table: str, upto: int, version: int | None = None) -> TableProgress | None:
        """Returns the progress that the table, or a version of it, records for the epochs up to `upto`; None if there
        is no table. Raises TableStopped if it is damaged, LakeError if it cannot be read."""
        apps = [app_id(ledger.destination, ledger.client_id, table, number) for number in range(upto + 1)]
        states = ledger.lake.states(ledger.lake.path(*split_name(table)), apps, version)
        if not states:
            return None
        ends = {number: state.applied for number, state in enumerate(states) if state.applied is not None}
        return cls(ledger, table, states[-1], ends, keyed=bool(states[-1].primary_key))

    @classmethod
    def nothing(cls, ledger: Ledger, table: str) -> TableProgress:
        """Returns the progress of a table that does not exist yet."""
        return cls(ledger, table, TableState(-1, None, (), {}), {}, keyed=True)

    def after(self, epoch: Epoch) -> int | None:
        """Returns the version up to which the table has everything of the epoch, rows and statements; None if it has
        nothing. Raises CopyNeeded if that is not known."""
        known = (self.ends.get(epoch.number), self.inherited(epoch))
        return max((version for version in known if version is not None), default=None)

    def inherited(self, epoch: Epoch) -> int | None:
        """Returns the version up to which the table has everything, because in an earlier epoch it followed a statement
        there, or was copied there: rows up to it have the older columns. None if there was no such statement or copy.

        Raises CopyNeeded if that epoch was another server's, so that the statement may come again unnoticed.
        """
        base = self.state.base
        places = (self.state.followed, (base.epoch, base.low) if base else None)
        number, version = max((one for one in places if one and one[0] < epoch.number), default=(0, None))
        if version is None:
            return None
        if number >= epoch.moved:
            return version
        if self.state.dropped and number not in epoch.unrepeated({number: version}):
            raise CopyNeeded("it was dropped or renamed on another server, and its rows come again", self.table)
        return None

    def has(self, wanted: Range) -> bool:
        """Whether nothing of the range is left to write. Raises what `after` and `repeats` raise."""
        known = (self.after(wanted.epoch), None if self.keyed else self.repeats(wanted))
        return max((version for version in known if version is not None), default=0) >= wanted.end

    def repeats(self, wanted: Range) -> int | None:
        """Returns the version up to which rows of the range may be rows that the table has already, or None.

        Raises TableStopped for a table without a key if that is not certain.
        """
        earlier, base = self._repeats_earlier(wanted), self.state.base
        if base is None or base.epoch != wanted.epoch.number or base.high == base.low:
            return earlier
        return max(base.high, earlier or 0)

    def end(self, number: int) -> int:
        """Returns the version up to which the table has the epoch's changes: `ALWAYS` for an epoch that a copy ended, 0
        if it has nothing."""
        copied = self.state.copied
        if copied is not None and copied.epoch > number:
            return ALWAYS
        return max(self.ends.get(number, 0), copied.low if copied is not None and copied.epoch == number else 0)

    def crosses(self, epoch: Epoch) -> bool:
        """Whether changes that the table has from another server may come again, at places that do not show it."""
        return min(self._repeated(epoch), default=epoch.moved) < epoch.moved

    def _repeated(self, epoch: Epoch) -> dict[int, int]:
        """Returns how far the table has each earlier epoch whose rows may come again."""
        base = self.state.base
        since = base.epoch if base else 0
        ends = {number: end for number, end in self.ends.items() if end and since <= number < epoch.number}
        if base and base.epoch in ends:
            ends[base.epoch] = max(ends[base.epoch], base.high)
        unrepeated = epoch.unrepeated(ends)
        return {number: end for number, end in ends.items() if number not in unrepeated}

    def _repeats_earlier(self, wanted: Range) -> int | None:
        """Returns the answer of `repeats` for rows of earlier epochs."""
        ends, other_server = self._repeated(wanted.epoch), self.crosses(wanted.epoch)
        if not ends:
            return None
        if self.keyed:
            return ALWAYS if other_server else max(ends.values())
        path = self.ledger.lake.path(*split_name(self.table))
        if other_server:
            message = "the destination moved to another server, and it is unknown which of its rows the lake has"
            raise TableStopped(message, place=path, hint=_REBUILD)
        end, base = max(ends.values()), self.state.base
        if wanted.start < end:
            begun = self.ledger.stretches()
            ranges = [(begun[number].start, at) for number, at in ends.items() if number in begun]
            if base:
                ranges.append((0, ends.get(base.epoch, 0)))  # all that counts from the beginning
            if not is_covered(wanted.start, end, ranges):
                message = "the destination was rewound, and it is unknown which of the repeated rows the lake has"
                raise TableStopped(message, place=path, hint=_REBUILD)
        return end


def is_over(state: TableState, number: int) -> bool:
    """Whether rows of the epoch no longer count: the table was copied since, or followed a statement that removed its
    rows, or before which its log was merged."""
    places = [state.followed[0] if state.followed else 0, state.copied.epoch if state.copied else 0]
    return number < max(places)


def is_covered(start: int, end: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether the ranges, joined, reach from `start` to `end`."""
    for low, high in sorted(ranges):
        if low <= start < high:
            start = high
    return start >= end


def check_commits(
    ledger: Ledger, opened: DeltaTable | None, table: str, state: TableState | None, wanted: Range
) -> None:
    """Raises CopyNeeded for a table whose last commit is torn, and for a table without commits that the `opened` ledger
    has noted, if their rows do not come again in the range. A power cut can leave a local lake so, and somebody may
    replace a table by an older copy. Delta itself reads an empty commit file as a commit that changed nothing."""
    path = ledger.lake.path(*split_name(table))
    if state is not None and ledger.lake.is_torn(path, state.version):
        raise CopyNeeded(f"its commit {state.version} is empty: the lake lost its last write", table)
    noted = ledger.merged(table, wanted.epoch.number, opened)
    if not noted:
        return
    found = TableProgress.read(ledger, table, wanted.epoch.number)
    since = state.copied.epoch if state and state.copied else 0
    for number, end in noted.items():
        there = found.ends.get(number, 0) if found else 0
        again = wanted.epoch.moved <= number and wanted.start <= there
        if number >= since and there < end and not again:
            raise CopyNeeded("acked commits of it are missing: the lake lost its last writes", table)


def landed_ends(ledger: Ledger, table: str, upto: int) -> dict[int, int]:
    """Returns, by epoch up to `upto`, the version up to which the change log of `table` has its changes; empty without
    a readable log. Raises LakeError."""
    apps = [log_app_id(ledger.destination, ledger.client_id, table, number) for number in range(upto + 1)]
    try:
        states = ledger.lake.states(ledger.lake.log_path(*split_name(table)), apps)
    except TableStopped:
        return {}
    wanted = {DESTINATION: ledger.destination, TABLE: table, LOG: "true"}
    if not states or not wanted.items() <= states[0].properties.items():
        return {}
    return {number: state.applied for number, state in enumerate(states) if state.applied is not None}
