"""The form in which a table records its progress: see `progress`, which reads it.

The txnVersion of a commit, by the app id of the epoch, changes with the rows. The rest are properties. Each property
has one kind of writer, so that no writer has to repeat another one's:

    sluice.progress   the number of this form
    sluice.copied     the copy that the table was made from
    sluice.followed   the last DDL statement that it followed, as `epoch:version`
    sluice.begun      the last statement after which it has no earlier row, or all rows of another table: likewise
    sluice.dropped    the position of the statement after which the source has no such table
    sluice.marks      by epoch, which txnVersions mean an earlier one

A change log says besides, and in the txnVersion of `whole_app_id` up to where it lacks changes of an epoch:

    sluice.log_began  how far the merged table was when the log began
    sluice.epoch.N    where the epoch N began, of each of which it has rows

Marks: a copy, a repair, a table reloaded and the comparison of a history replace rows at the place where the table is.
Their commits need their own txnVersion, by which Delta skips or refuses them when a batch came in between. No
event ends within the bytes of the one before it, so the numbers after a place are free: they mean that place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from deltalake import Transaction  # noqa: TID251

from cdc_core.contract.claim import Claim
from cdc_core.position import EntryPosition

FORM = "1"
PROGRESS, COPIED, FOLLOWED = "sluice.progress", "sluice.copied", "sluice.followed"
BEGUN, DROPPED, MARKS = "sluice.begun", "sluice.dropped", "sluice.marks"
LOG_BEGAN, EPOCHS = "sluice.log_began", "sluice.epoch."
ROOM = 18  # numbers after a place: an event has 19 bytes at least
REPAIRS = 12  # of them for repairs, so that room is left for a copy


def app_versions(versions: Mapping[str, int]) -> list[Transaction]:
    """Returns what a commit of delta-rs records: the txnVersion of each app id, and when. Spark drops a record without
    a time from a table for which somebody has set `delta.setTransactionRetentionDuration`."""
    now = int(time.time() * 1000)
    return [Transaction(app, version, now) for app, version in versions.items()]


@dataclass(frozen=True, slots=True)
class CopyNote:
    """The table has every row of the source up to version `low`, read in `epoch`; it may have rows up to `high`, which
    then come again."""

    epoch: int
    low: int
    high: int

    def has(self, place: tuple[int, int]) -> bool:
        """Whether the copy has all up to a place: epoch and version."""
        return place <= (self.epoch, self.low)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> CopyNote | None:
        """Returns the note in a table's properties, or None if the table was not made from a copy."""
        text = properties.get(COPIED)
        if not text:
            return None
        fields = json.loads(text)
        return cls(fields["epoch"], fields["low"], fields["high"])


@dataclass(frozen=True, slots=True)
class Mark:
    """The txnVersions of an epoch after `at` up to `upto` mean that the table is at `at`, 0 before the first batch.
    `upto` is the txnVersion of the commit that the mark is for."""

    epoch: int
    at: int
    upto: int

    @classmethod
    def next(cls, epoch: int, at: int, last: int | None, room: int = ROOM) -> Mark | None:
        """Returns the mark for one more commit at the place `at`, for a table whose last txnVersion of the epoch is
        `last`; None if `room` commits were made there."""
        upto = max(at, last or 0) + 1
        return cls(epoch, at, upto) if upto <= at + room else None

    def meaning(self, version: int) -> int | None:
        """Returns the table's place for a txnVersion of the epoch."""
        return (self.at or None) if self.at < version <= self.upto else version


@dataclass(frozen=True, slots=True)
class Marks:
    """The last mark of each epoch."""

    by_epoch: Mapping[int, Mark]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Marks:
        fields = json.loads(properties.get(MARKS) or "{}")
        return cls({int(epoch): Mark(int(epoch), at, upto) for epoch, (at, upto) in fields.items()})

    def with_mark(self, mark: Mark) -> Marks:
        return Marks({**self.by_epoch, mark.epoch: mark})

    def to_json(self) -> str:
        return json.dumps({str(epoch): [mark.at, mark.upto] for epoch, mark in sorted(self.by_epoch.items())})

    def applied(self, app: str, version: int | None) -> int | None:
        """Returns the table's place for its last txnVersion of an epoch's app id; None before the first batch."""
        epoch = app.rpartition(":")[2]
        mark = self.by_epoch.get(int(epoch)) if epoch.isdecimal() else None
        return version if version is None or mark is None else mark.meaning(version)


@dataclass(frozen=True, slots=True)
class Began:
    """The merged table when its log began: by epoch, the version up to which it had the changes, and the last statement
    that it had followed, as epoch and version. `version` is Delta's, -1 for none. `empty`: it had no row, or was not
    there."""

    empty: bool
    at: Mapping[int, int]
    followed: tuple[int, int] | None = None
    version: int = -1

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"followed": place_text(self.followed)})

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Began | None:
        """None for a log that does not say it."""
        text = properties.get(LOG_BEGAN)
        if text is None:
            return None
        fields = json.loads(text)
        at = {int(epoch): int(version) for epoch, version in fields["at"].items()}
        return cls(fields["empty"], at, place_from(fields["followed"]), fields["version"])


def place_text(place: tuple[int, int] | None) -> str:
    """Returns epoch and version as text, "" for None."""
    return f"{place[0]}:{place[1]}" if place else ""


def place_from(text: str) -> tuple[int, int] | None:
    """Returns the place that `place_text` wrote."""
    epoch, _, version = text.partition(":")
    return (int(epoch), int(version)) if version else None


def new_properties() -> dict[str, str]:
    """Returns the properties of a table that has nothing yet."""
    return {PROGRESS: FORM}


def copied_properties(note: CopyNote, mark: Mark) -> dict[str, str]:
    """Returns the properties of a table that a copy made: without the statements and places of the rows before it."""
    marks = Marks({mark.epoch: mark}).to_json()
    return {**new_properties(), COPIED: note.to_json(), MARKS: marks, FOLLOWED: "", BEGUN: ""}


def followed_property(place: tuple[int, int]) -> dict[str, str]:
    """Returns the property of a table that followed a statement."""
    return {FOLLOWED: place_text(place)}


def begun_properties(place: tuple[int, int]) -> dict[str, str]:
    """Returns the properties of a table that followed a statement before which its rows do not count."""
    return {**followed_property(place), BEGUN: place_text(place)}


def dropped_property(position: EntryPosition) -> dict[str, str]:
    """Returns the further property of a table that a statement dropped or renamed."""
    return {DROPPED: str(position)}


def marked_property(properties: Mapping[str, str], mark: Mark) -> dict[str, str]:
    """Returns the property that a table with these properties gets before the commit that the mark is for."""
    return {MARKS: Marks.of(properties).with_mark(mark).to_json()}


def said(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns those of the properties that record the table's progress."""
    return {name: properties.get(name, "") for name in (COPIED, MARKS, FOLLOWED, BEGUN, DROPPED)}


def epoch_property(claim: Claim) -> dict[str, str]:
    """What a log says that takes rows of the claim's epoch."""
    began = {"moved": claim.moved, "seamless": [list(one) for one in claim.seamless]}
    return {f"{EPOCHS}{claim.epoch}": json.dumps(began)}


def epochs_said(properties: Mapping[str, str]) -> list[int]:
    """The epochs of which a log says where they began, in order."""
    return sorted(int(name.removeprefix(EPOCHS)) for name in properties if name.startswith(EPOCHS))


def epoch_said(properties: Mapping[str, str], epoch: int) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """What the claims of an epoch said, `moved` and `seamless`; None where the log does not have it."""
    text = properties.get(f"{EPOCHS}{epoch}")
    if text is None:
        return None
    fields = json.loads(text)
    return int(fields["moved"]), tuple((int(one), int(left)) for one, left in fields["seamless"])
