"""`as_of`: the Delta version of each table of a destination, so that all are of one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_core.errors import LakeError
from cdc_core.gtid import Gtid
from spark_jobs.as_of.asked import AskedPlace, Value
from spark_jobs.as_of.batches import Batches, Place
from spark_jobs.as_of.choice import AsOf, Chosen, KnownTable, NoVersion, as_of_place, nearest_after, nearest_before
from spark_jobs.as_of.reading import VersionReader, read_batches
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.landing.client_tables import ClientTables


@dataclass(frozen=True, slots=True)
class TablesAsOf:
    """The tables as of `place`, which is `position` at the source. `absent`: why the others are not there."""

    place: Place
    position: str
    tables: Mapping[str, Chosen]
    absent: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns its JSON form."""
        tables = {
            name: {"version": one.version} | ({"log_version": one.log_version} if one.later else {})
            for name, one in self.tables.items()
        }
        return {"position": self.position, "place": place_text(self.place), "tables": tables, "absent": {**self.absent}}


class NotAsOf(LakeError):
    """Tables have no version of a place: `refused`. `nearest` is the last earlier place that all have, or None."""

    refused: Sequence[NoVersion] = ()
    nearest: str | None = None


def place_text(place: Place) -> str:
    """Returns a place as `as_of` takes it."""
    return f"{place.server}.{place.version}"


def as_of(
    tables: ClientTables, asked: str | Value | Gtid, names: Sequence[str] = (), *, nearest: bool = False
) -> TablesAsOf:
    """Returns the versions of the tables `names`, all that the destination has without them, at the place `asked`: a
    position, GTIDs, a time, the number of a batch, or a text of these, or "latest". With `nearest`, and for the latest
    place: at the last place up to there that all tables have.

    Raises NotAsOf if a table has no version of the place, LakeError for a place that the lake does not have.
    """
    wanted, batches = AskedPlace.of(asked), read_batches(tables.ledger)
    reader = VersionReader(tables, batches)
    place = wanted.place(batches)
    search = _PlaceSearch(reader, batches, [_known(reader, name) for name in names or reader.names()])
    if nearest or wanted.value is None:
        found = search.settled(lambda known: nearest_before(known, batches, place))
        if found is None:
            raise search.refusal(place)
    else:
        found = search.settled(lambda _: place)
        if found is None or found.refused or search.is_beyond(place):
            raise search.refusal(place)
    absent = {one.table: one.why for one in found.absent}
    return TablesAsOf(found.place, batches.text(found.place), {one.table: one for one in found.chosen}, absent)


def _known(reader: VersionReader, name: str) -> KnownTable:
    known = reader.read(name, whole=False)
    if known is None:
        hint = "Name tables as database.table; without a name all tables of the destination are taken."
        raise LakeError("the lake has no such table", place=name, hint=hint)
    return known


def _whole(reader: VersionReader, known: KnownTable) -> KnownTable:
    found = reader.read(known.table)
    return known if found is None else replace(found, unreadable=known.unreadable)


@dataclass(slots=True)
class _PlaceSearch:
    """Looks for places among the `known` tables. Whether files of a version are gone is looked at when it is chosen."""

    reader: VersionReader
    batches: Batches
    known: list[KnownTable]

    def settled(self, place_of: Callable[[list[KnownTable]], Place | None]) -> AsOf | None:
        """Returns the tables at a place, once all that are chosen can be read; None if there is no such place."""
        while True:
            place = place_of(self.known)
            found = None if place is None else as_of_place(self.known, self.batches, place)
            if (found is None or found.refused) and self._widened():
                continue
            if found is None:
                return None
            chosen = {one.table: one.version for one in found.chosen if one.version is not None}
            checked = [
                self.reader.without_files(one, chosen[one.table]) if one.table in chosen else one for one in self.known
            ]
            if checked == self.known:
                return found
            self.known = checked

    def _widened(self) -> bool:
        """Reads all commits of the tables of which only the last ones were read. Returns whether there were such."""
        partial = [one.table for one in self.known if one.partial]
        self.known = [_whole(self.reader, one) if one.partial else one for one in self.known]
        return bool(partial)

    def is_beyond(self, place: Place) -> bool:
        """Whether the lake's batches do not reach from before the place to behind it."""
        reached = self.batches.reached(place.server)
        return reached is None or not reached[0] <= place.version <= reached[1]

    def refusal(self, place: Place) -> NotAsOf:
        """Returns the error for a place that not all tables have."""
        refused = as_of_place(self.known, self.batches, place).refused
        before = self.settled(lambda known: nearest_before(known, self.batches, place))
        after = None if before else self.settled(lambda known: nearest_after(known, self.batches, place))
        near, text = (before or after), self.batches.text(place)
        if self.is_beyond(place):
            message = f"the lake has no batches up to there: its last one ends at {self._last()}"
        else:
            others = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
            message = f"{refused[0].table}{others}: {refused[0].why}" if refused else "no place has all tables"
        hint = f"No place has all tables. {self._remedy(refused)}"
        if near is not None:
            which = "last earlier" if before else "first later"
            hint = f"The {which} place that all tables have is {self.batches.text(near.place)}"
            hint += ": ask for that, or with --nearest." if before else ": ask for that."
        error = NotAsOf(message, place=text, hint=hint)
        error.refused, error.nearest = refused, self.batches.text(before.place) if before else None
        return error

    def _last(self) -> str:
        ends = self.batches.ends
        return self.batches.text(ends[-1]) if ends else "nothing"

    def _remedy(self, refused: Sequence[NoVersion]) -> str:
        if not refused or refused[0].gone:
            return "Name fewer tables, or keep versions for longer (delta.deletedFileRetentionDuration)."
        return f"Name fewer tables. {copy_hint(self.reader.tables.destination, refused[0].table)}"
