"""The form in which a table says how far it is, and why nothing more counts: see `progress`, which answers by it.

What changes with the rows is the txnVersion of their commit, by the app id of the epoch. The rest are properties, each
of which has one kind of writer, so that nobody has to repeat what another one noted:

    sluice.progress   the number of this form
    sluice.copied     the copy that the table was made from
    sluice.followed   the last DDL statement that it followed, as `epoch:version`
    sluice.begun      the last statement behind which it has nothing of before, or all of another table: likewise
    sluice.dropped    the position of the statement after which the source has no such table
    sluice.marks      by epoch, which txnVersions mean an earlier one

Marks: a copy, a repair, a table reloaded and the comparison of a history replace rows at the place where the table is.
Their commits need a txnVersion of their own, by which Delta skips or refuses them when a batch came in between. No
event ends within the bytes of the one before it, so that the numbers behind a place are free: they mean that place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from cdc_core.position import EntryPosition

FORM = "1"
PROGRESS, COPIED, FOLLOWED = "sluice.progress", "sluice.copied", "sluice.followed"
BEGUN, DROPPED, MARKS = "sluice.begun", "sluice.dropped", "sluice.marks"
ROOM = 18  # numbers behind a place: an event has 19 bytes at least
REPAIRS = 12  # of them for repairs, so that a copy is left as their remedy


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
        """None for a table that was not made from a copy."""
        text = properties.get(COPIED)
        if not text:
            return None
        fields = json.loads(text)
        return cls(fields["epoch"], fields["low"], fields["high"])


@dataclass(frozen=True, slots=True)
class Mark:
    """The txnVersions of an epoch behind `at` up to `upto` mean that the table is at `at`, 0 for before the first
    batch. `upto` is that of the commit which the mark is for."""

    epoch: int
    at: int
    upto: int

    @classmethod
    def behind(cls, epoch: int, at: int, last: int | None, room: int = ROOM) -> Mark | None:
        """The mark for one more commit at the place `at`, where the table's last txnVersion of the epoch is `last`;
        None where `room` commits were made there."""
        upto = max(at, last or 0) + 1
        return cls(epoch, at, upto) if upto <= at + room else None

    def meaning(self, version: int) -> int | None:
        """How far the table is by a txnVersion of the epoch."""
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
        """How far the table is, by its last txnVersion of an epoch's app id; None before the first batch."""
        epoch = app.rpartition(":")[2]
        mark = self.by_epoch.get(int(epoch)) if epoch.isdecimal() else None
        return version if version is None or mark is None else mark.meaning(version)


def place_text(place: tuple[int, int] | None) -> str:
    """Epoch and version as text, "" for None."""
    return f"{place[0]}:{place[1]}" if place else ""


def place_from(text: str) -> tuple[int, int] | None:
    """What `place_text` made a text of."""
    epoch, _, version = text.partition(":")
    return (int(epoch), int(version)) if version else None


def new_properties() -> dict[str, str]:
    """What a table says that has nothing yet."""
    return {PROGRESS: FORM}


def copied_properties(note: CopyNote, mark: Mark) -> dict[str, str]:
    """What a table says that a copy made: nothing of the statements and places of the rows before it."""
    marks = Marks({mark.epoch: mark}).to_json()
    return {**new_properties(), COPIED: note.to_json(), MARKS: marks, FOLLOWED: "", BEGUN: ""}


def followed_property(place: tuple[int, int]) -> dict[str, str]:
    """What a table says that followed a statement."""
    return {FOLLOWED: place_text(place)}


def begun_properties(place: tuple[int, int]) -> dict[str, str]:
    """What a table says that followed a statement, and whose rows of before do not count."""
    return {**followed_property(place), BEGUN: place_text(place)}


def dropped_property(position: EntryPosition) -> dict[str, str]:
    """What a table says besides that a statement dropped or renamed."""
    return {DROPPED: str(position)}


def marked_property(properties: Mapping[str, str], mark: Mark) -> dict[str, str]:
    """What a table with these properties says before the commit that the mark is for."""
    return {MARKS: Marks.of(properties).with_mark(mark).to_json()}


def said(properties: Mapping[str, str]) -> dict[str, str]:
    """All that the properties say of the table's progress."""
    return {name: properties.get(name, "") for name in (COPIED, MARKS, FOLLOWED, BEGUN, DROPPED)}
