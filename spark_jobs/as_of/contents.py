"""What each version of a table holds: from which place on and up to which it is the source's table. Pure.

A version is exact at a place if it has all of the table's rows up to there and none after it. A batch's commit is exact
at the batch's end, and as long as no later batch has rows of the table. The notes of commits say where their rows
begin. After a rewind rows go back in time: a table is exact again when it has come to where it was before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from cdc_core.position import EntryPosition
from spark_jobs.as_of.batches import Batches, NotedBatch, Place
from spark_jobs.lake.record import CopyNote

_ANEW = ("create", "create_filled", "drop", "drop_database", "truncate", "rename")
_SAME = ("repair", "remade", "undo", "upkeep", "retention")  # notes of commits that keep the table's place
_KEEPS = (
    *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "OPTIMIZE", "VACUUM", "REORG", "CLUSTER BY", "COMPUTE STATS"),
    *("UPGRADE PROTOCOL", "ADD FEATURE", "DROP FEATURE", "FSCK"),
)  # how operations begin that change neither rows nor columns
_OF_ROWS = ("WRITE", "MERGE", "UPDATE", "DELETE", "STREAMING UPDATE")  # without a note: of another program
_RESTORE = "RESTORE"
NEVER = 1 << 62  # above each version of a place
Range = tuple[Place, Place]  # closed
_NO_ENDS: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Content:
    """The rows of a version: those of the source at version `at` of `epoch`. They are exact from version `since` on,
    None: never. `there`: the source has the table. `lacks`: changes before `at` are missing, because somebody restored
    the table."""

    epoch: int
    at: int
    since: int | None
    there: bool = True
    lacks: bool = False


@dataclass(frozen=True, slots=True)
class Advance:
    """A commit that brings the table from one place to another: its rows lie after version `start` of `epoch`, None if
    it replaces all rows, and are up to `at`. They are exact from `since` on. `anew`: no earlier row counts. `there`:
    the source has the table after it. `logged`: the rows are those of the table's change log."""

    epoch: int
    start: int | None
    at: int
    since: int
    anew: bool = False
    there: bool = True
    logged: bool = False


@dataclass(frozen=True, slots=True)
class NotedCommit:
    """A commit of a table: its Delta `version`, `operation`, and `note`, empty without one. `restored`: the version to
    which a RESTORE went. `dropped`: the source has no such table after it. `copied`: what the table says of the copy
    that the commit made."""

    version: int
    note: Mapping[str, Any] = field(default_factory=dict)
    operation: str = "SET TBLPROPERTIES"
    restored: int | None = None
    dropped: bool = False
    copied: CopyNote | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """The versions of a table with the same rows. `version` is the newest of them that has the source's columns too;
    `exact`: the ranges of places at which it is exact; `limit`: why they end where they do. `change`: what made these
    rows, if a note says so; `begun`: the place up to which the table was as before it. `unlogged`: the next change that
    the table's change log does not have."""

    version: int
    content: Content | None
    exact: tuple[Range, ...] = ()
    limit: str = ""
    change: Advance | None = None
    begun: Place | None = None
    unlogged: Advance | None = None


def stretches(
    owner: Mapping[str, Any],
    commits: Sequence[NotedCommit],
    first: Content | None,
    batches: Batches,
    landed: Mapping[int, int] = _NO_ENDS,
) -> list[Stretch]:
    """Returns the stretches of a table, the oldest first. `owner`: the destination, the client and the table, as in the
    notes; `commits`: those that the table's log has, in order, without a gap; `first`: the content of the first.
    `landed`: by epoch, the version up to which the table's change log has its changes."""
    runs, seen = list[_Run](), dict[int, int]()
    for number, commit in enumerate(commits):
        change = _change(commit, owner)
        before = runs[-1].content if runs else None
        if not number:
            runs.append(_Run(commit.version, first, change))
        elif commit.operation.startswith(_RESTORE) and change is None:
            origin = seen.get(-1 if commit.restored is None else commit.restored)
            runs.append(_restored(commit.version, runs, origin))
        elif change is not None:
            runs.append(_Run(commit.version, after(before, change, batches), change))
        elif _is_foreign(commit, owner):
            runs.append(_Run(commit.version, None if before is None else replace(before, since=None), None))
        elif not _is_neutral(commit):
            runs[-1].blurred = True
        elif not runs[-1].blurred:
            runs[-1].version = commit.version
        seen[commit.version] = len(runs) - 1
    known = Known(batches, batches.missed_by(str(owner["table"])), landed)
    return _closed(runs, known)


@dataclass(slots=True)
class _Run:
    """A stretch that goes on. `change`: what it began with; `blurred`: its columns have changed since, and the commit
    that says why has yet to come; `origin`: the stretch to which a RESTORE went."""

    version: int
    content: Content | None
    change: Advance | None
    blurred: bool = False
    origin: int | None = None


def _restored(version: int, runs: list[_Run], origin: int | None) -> _Run:
    there = runs[origin].content if origin is not None else None
    before = runs[-1].content
    if there is None or before is None:
        return _Run(version, None if before is None else Content(before.epoch, 0, None, lacks=True), None)
    lacks = before.lacks or (there.epoch, there.at) != (before.epoch, before.at)
    return _Run(version, replace(there, lacks=lacks), None, origin=origin)


def _closed(runs: Sequence[_Run], known: Known) -> list[Stretch]:
    found = list[Stretch]()
    for run, (later, unlogged) in zip(runs, _followed(runs), strict=True):
        if run.origin is not None and run.content is not None and run.content.lacks:
            exact, limit = found[run.origin].exact, "somebody restored it to an earlier version"
        else:
            exact, limit = known.exact_ranges(run.content, later)
        begun = _begun(run.change, known.batches) if run.change else None
        found.append(Stretch(run.version, run.content, exact, limit, run.change, begun, unlogged))
    return found


def _followed(runs: Sequence[_Run]) -> list[tuple[Advance | None, Advance | None]]:
    """Returns for each run the next change after it, and the next one that is not in the change log."""
    found, later, unlogged = list[tuple[Advance | None, Advance | None]](), None, None
    for run in reversed(runs):
        found.append((later, unlogged))
        if run.change is not None:
            later, unlogged = run.change, unlogged if run.change.logged else run.change
    return found[::-1]


def _begun(change: Advance, batches: Batches) -> Place:
    return batches.place(change.epoch, change.at - 1 if change.start is None else change.start)


def _change(commit: NotedCommit, owner: Mapping[str, Any]) -> Advance | None:
    """Returns the change that a commit's note says, or None."""
    note = commit.note
    if not owner.items() <= note.items():
        return None
    epoch, at = int(note.get("epoch", 0)), int(note.get("version", 0))
    if "counts" in note:
        return Advance(epoch, max(note.get("after") or 0, note.get("low") or 0), at, at)
    if "log" in note:
        return Advance(epoch, int(note["log"]["after"]), at, at, logged=True)
    if "cascade" in note:
        high = note["cascade"]["high"]
        return Advance(epoch, int(note["low"]), at, NEVER if high is None else max(at, int(high)))
    if "copy" in note and "has" in note["copy"]:
        low, high = int(note["copy"]["has"]), int(note["copy"]["may_have"])
        return Advance(epoch, None, low, max(low, high), anew=True)
    if "copy" in note and commit.copied is not None:  # of an earlier version
        copied = commit.copied
        return Advance(epoch, None, copied.low, max(copied.low, copied.high), anew=True)
    if "copy" in note:
        return Advance(epoch, None, at, max(at, _version(note["copy"].get("high", ""))), anew=True)
    if "ddl" in note:
        return Advance(epoch, at - 1, at, at, anew=note["ddl"] in _ANEW, there=not commit.dropped)
    return None


def says_place(commit: NotedCommit, owner: Mapping[str, Any]) -> bool:
    """Whether the commit's note says a place of the table."""
    return _change(commit, owner) is not None


def _version(position: str) -> int:
    journal, _, offset = position.rpartition(":")
    return EntryPosition(journal, int(offset)).version() if journal else 0


def _is_foreign(commit: NotedCommit, owner: Mapping[str, Any]) -> bool:
    """Whether the commit is of another client's batch."""
    note = commit.note
    return {"destination", "client_id"} <= note.keys() and not owner.items() <= note.items()


def _is_neutral(commit: NotedCommit) -> bool:
    """Whether the table has the same place and the same columns after the commit."""
    if any(name in commit.note for name in _SAME):
        return True
    return commit.operation.startswith(_KEEPS) or commit.operation in _OF_ROWS


def after(before: Content | None, change: Advance, batches: Batches) -> Content:
    """Returns the content after a change. A table of which nothing was known begins with it."""
    made = Content(change.epoch, change.at, change.since, change.there)
    if before is None or change.anew or not before.there:
        return made
    same = batches.server(change.epoch) == batches.server(before.epoch)
    if before.lacks:
        if change.epoch == before.epoch or not same or (change.start or 0) > before.at or before.since is None:
            return Content(change.epoch, before.at, None, lacks=True)
        return replace(made, since=max(change.since, before.since))
    if before.since is None or change.epoch < before.epoch:
        return replace(made, since=None)
    if same:
        return replace(made, since=max(change.since, before.since, before.at))
    return made if carries(before, change.epoch, batches) else replace(made, since=None)


def carries(before: Content, epoch: int, batches: Batches) -> bool:
    """Whether the rows go on at the server of `epoch` without a repetition: each move since began exactly after the
    cursor, and the table was not ahead of it."""
    at: int | None = max(before.at, before.since or 0)
    for number in range(before.epoch + 1, epoch + 1):
        if batches.server(number) == batches.server(number - 1):
            continue
        left = batches.seamless.get(number)
        if left is None or (at is not None and at > left):
            return False
        at = None
    return True


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a table besides its commits: the batches, those that it `missed`, and by epoch how far its
    change log is."""

    batches: Batches
    missed: Sequence[NotedBatch] = ()
    landed: Mapping[int, int] = field(default_factory=dict)

    def exact_ranges(self, content: Content | None, later: Advance | None) -> tuple[tuple[Range, ...], str]:
        """Returns the ranges of places at which a content is exact, up to the `later` change of the table or the first
        batch that it missed; and why they end."""
        if content is None or content.since is None:
            return (), ""
        batches, found, why = self.batches, list[Range](), ""
        low, high, server, at = content.since, content.at, batches.server(content.epoch), content.at
        for epoch in range(content.epoch, max(content.epoch, later.epoch if later else batches.newest) + 1):
            span = batches.spans.get(epoch)
            if epoch > content.epoch:
                if span is None:
                    continue
                if batches.server(epoch) != server:
                    found += _range(server, low, high)
                    left = batches.seamless.get(epoch)
                    if left is None or max(low, at) > left:
                        return tuple(found), "reading moved to another server, and its rows may have come again there"
                    low = high = at = span[0]
                    server = batches.server(epoch)
                elif span[0] > high:  # a rewind left changes out
                    found += _range(server, low, high)
                    low, high = max(low, span[0]), span[0]
            end, why = self._end(epoch, at, later)
            high = end if epoch == content.epoch else max(high, end)
            if why:
                break
        return (*found, *_range(server, low, high)), why

    def _end(self, epoch: int, at: int, later: Advance | None) -> tuple[int, str]:
        """Returns the version up to which a table that is at `at` has no other rows in an epoch; and what follows
        there, "" if the epoch ends."""
        end, why = max(self.batches.spans.get(epoch, (at, at))[1], at), ""
        if self.landed.get(epoch, 0) > at:
            end, why = at, "later rows are in its change log"
        if later is not None and later.epoch == epoch:
            end = at if later.start is None else later.start
            why = f"one commit brought its rows up to {self._text(epoch, later.at)}"
        for one in self.missed:
            if one.epoch == epoch and one.end > at and max(one.start, at) <= end:
                end = max(one.start, at)
                why = f"it was stopped at {self._text(epoch, end)}"
        return end, why

    def _text(self, epoch: int, version: int) -> str:
        return self.batches.text(self.batches.place(epoch, version))


def _range(server: int, low: int, high: int) -> Iterator[Range]:
    if low <= high:
        yield Place(server, low), Place(server, high)


def without(ranges: Collection[Range], doubtful: Collection[Range]) -> tuple[Range, ...]:
    """Returns what is left of closed ranges without what lies between the ends of `doubtful` ones."""
    left = tuple(ranges)
    for begun, end in doubtful:
        parts = [part for low, high in left for part in ((low, min(high, begun)), (max(low, end), high))]
        left = tuple(dict.fromkeys((low, high) for low, high in parts if low <= high))
    return left


def is_in(place: Place, ranges: Collection[Range]) -> bool:
    """Whether the place is in one of the closed ranges."""
    return any(low <= place <= high for low, high in ranges)
