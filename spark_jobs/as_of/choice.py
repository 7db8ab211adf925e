"""The version of each table that is exact at one place, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spark_jobs.as_of.batches import Batches, Place
from spark_jobs.as_of.contents import Range, Stretch, is_in, without
from spark_jobs.as_of.logs import KnownLog, LogOf
from spark_jobs.changes.version_range import VersionRange

NOTHING = -1  # the version of a table that is not there yet


@dataclass(frozen=True, slots=True)
class KnownTable:
    """What the lake shows of a table by the batches of its client. Its `stretches` are in order; one of version
    `NOTHING` is the table without a row, before all that its `log` has. `begins`: the first stretch of a version is how
    the table began in the lake. `unreadable`: versions of which files are gone. `partial`: it has earlier versions, of
    earlier places."""

    table: str
    batches: Batches
    stretches: Sequence[Stretch] = ()
    begins: bool = True
    unreadable: Collection[int] = ()
    log: KnownLog | None = None
    partial: bool = False

    def at(self, place: Place) -> Chosen | Absent | NoVersion:
        """Returns the newest version that is exact at the place, or why there is none."""
        if self._begun is not None and place <= self._begun:
            return Absent(self.table, f"the lake has it only from {self.batches.text(self._begun)} on")
        exact = [one for one in reversed(self.stretches) if is_in(place, self._ranges(one))]
        readable = [one for one in exact if one.version not in self.unreadable]
        if not readable and is_in(place, self._uncaptured):
            return Absent(self.table, "it was not captured then")
        if not readable:
            return self._none(place, exact)
        newest = readable[0]
        if newest.content is None or not newest.content.there:
            return Absent(self.table, "the source had no such table then")
        version = None if newest.version == NOTHING else newest.version
        if self.log is None or is_in(place, newest.exact):
            return Chosen(self.table, version)
        later = LogOf(self.table, self.log, self.batches).after(newest, place)
        return Chosen(self.table, version, self.log.version if later or version is None else None, later)

    def floor(self, place: Place) -> Place | None:
        """Returns the last place up to `place` at which the table has a version or is absent; None if there is none."""
        found = [min(high, place) for low, high in (*self._readable, *self._uncaptured) if low <= place]
        if self._begun is not None:
            found.append(min(self._begun, place))
        return max(found, default=None)

    def ceiling(self, place: Place) -> Place | None:
        """Returns the first place from `place` on at which the table has a version or is absent; None if there is
        none."""
        if self._begun is not None and place <= self._begun:
            return place
        known = (*self._readable, *self._uncaptured)
        return min((max(low, place) for low, high in known if high >= place), default=None)

    @property
    def _uncaptured(self) -> Sequence[Range]:
        return self.batches.uncaptured(self.table)

    @property
    def _readable(self) -> list[Range]:
        own = (one for one in self.stretches if one.version not in self.unreadable)
        return [one for stretch in own for one in self._ranges(stretch)]

    @property
    def _begun(self) -> Place | None:
        """The place up to which the lake did not have the table, or None if that is not known."""
        return next((one.begun for one in self.stretches if one.begun is not None), None) if self.begins else None

    def _ranges(self, stretch: Stretch) -> tuple[Range, ...]:
        """Returns the ranges of places at which the version is exact, by itself or with rows of the log."""
        found = stretch.exact
        if self.log is not None:
            found = (*found, *LogOf(self.table, self.log, self.batches).exact(stretch))
        return without(found, self.batches.looked_up.get(self.table, ()))

    def _none(self, place: Place, exact: Sequence[Stretch]) -> NoVersion:
        """Returns why no version can be read that is exact at the place; `exact` cannot be read."""
        if exact:
            return NoVersion(self.table, f"files of its version {exact[0].version} were deleted (VACUUM)", gone=True)
        before = [
            (high, number)
            for number, stretch in enumerate(self.stretches)
            for low, high in self._ranges(stretch)
            if low <= place
        ]
        if not before and not self.begins:
            return NoVersion(self.table, f"its versions before {self.stretches[0].version} are gone", gone=True)
        if not before:
            return NoVersion(self.table, self._never())
        high, number = max(before)
        stretch, following = self.stretches[number], [one.content for one in self.stretches[number + 1 :]]
        never = any(one is not None and (one.since is None or one.lacks) for one in following[:1])
        why = self._never() if never or not stretch.limit else stretch.limit
        which = "without a row it" if stretch.version == NOTHING else f"version {stretch.version}"
        return NoVersion(self.table, f"{which} is of {self.batches.text(high)}, and {why}")

    def _never(self) -> str:
        contents = [one.content for one in self.stretches if one.content is not None]
        if not self.stretches:
            return "the lake has only its change log, which does not have all rows"
        if any(one.lacks for one in contents):
            return "somebody restored it to an earlier version, so that changes are missing"
        return "rows that came again since have not caught up" if contents else "no commit of it says a place"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A table as of a place: its Delta `version`, None for a table without a row; and the rows of its log, at Delta
    version `log_version`, that come after that version."""

    table: str
    version: int | None
    log_version: int | None = None
    later: tuple[VersionRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """A table that the source, or the lake, did not have at the place."""

    table: str
    why: str


@dataclass(frozen=True, slots=True)
class NoVersion:
    """A table that has no version of the place. `gone`: it had one, which cannot be read any more."""

    table: str
    why: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class AsOf:
    """The tables of a destination as of one place. They are of the same transaction if none is `refused`."""

    place: Place
    chosen: tuple[Chosen, ...] = ()
    absent: tuple[Absent, ...] = ()
    refused: tuple[NoVersion, ...] = ()


def as_of_place(tables: Sequence[KnownTable], batches: Batches, place: Place) -> AsOf:
    """Returns each table's version at the place."""
    if batches.is_within_transaction(place):
        why = "the place is within a transaction"
        return AsOf(place, refused=tuple(NoVersion(one.table, why) for one in tables))
    found = [one.at(place) for one in tables]
    refused = tuple(one for one in found if isinstance(one, NoVersion))
    if not refused and not batches.is_end(place) and (moving := _moving(tables, batches, place)):
        why = "it has changes in the batch around the place, which may be within a transaction"
        return AsOf(place, refused=tuple(NoVersion(one.table, why) for one in moving))
    return AsOf(
        place,
        tuple(one for one in found if isinstance(one, Chosen)),
        tuple(one for one in found if isinstance(one, Absent)),
        refused,
    )


def _moving(tables: Sequence[KnownTable], batches: Batches, place: Place) -> list[KnownTable]:
    """Returns nothing if all tables are at the place, which is no end of a batch, as at the end before it, or all as at
    that after it; otherwise those that are not as at either."""
    ends = [one for one in (batches.last_end(place), batches.first_end(place)) if one and one.server == place.server]
    moving = [[one for one in tables if one.at(end) != one.at(place)] for end in ends]
    if not all(moving):
        return []
    return [one for one in tables if all(one in each for each in moving)] or list(tables)


def nearest_before(tables: Sequence[KnownTable], batches: Batches, place: Place) -> Place | None:
    """Returns the last end of a batch up to `place` at which no table is refused, or None."""
    end = batches.last_end(place)
    while end is not None:
        floors = [one.floor(end) for one in tables]
        known = [one for one in floors if one is not None]
        if len(known) < len(floors):
            return None
        least = min(known, default=end)
        if least >= end and not batches.is_within_transaction(end):
            return end
        end = batches.last_end(least if least < end else Place(end.server, end.version - 1))
    return None


def nearest_after(tables: Sequence[KnownTable], batches: Batches, place: Place) -> Place | None:
    """Returns the first end of a batch from `place` on at which no table is refused, or None."""
    end = batches.first_end(place)
    while end is not None:
        ceilings = [one.ceiling(end) for one in tables]
        known = [one for one in ceilings if one is not None]
        if len(known) < len(ceilings):
            return None
        most = max(known, default=end)
        if most <= end and not batches.is_within_transaction(end):
            return end
        end = batches.first_end(most if most > end else Place(end.server, end.version + 1))
    return None
