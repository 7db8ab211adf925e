"""Brings a catalog to what the lake has: one pass over all tables of a destination.

It is never part of a batch. What a pass could not do, the next one does: all of it is derived from the lake and the
catalog. The notes only say which names were given, and that there is nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cdc_core.errors import LakeError
from spark_jobs.catalog.notes import CatalogNotes, NamedPlace, Standing
from spark_jobs.catalog.plan import CatalogPlan, Entry, Given, Key, Stale, Wanted, compared
from spark_jobs.catalog.session_catalog import SessionCatalog
from spark_jobs.catalog.standing import Found, folder_at, found
from spark_jobs.lake.catalog_names import CatalogName, CatalogRules
from spark_jobs.lake.tables import Lake
from spark_jobs.stores import location


@dataclass(slots=True)
class Registrar:
    """One pass: `look`, `begin`, what the plan says, `settle`."""

    lake: Lake
    notes: CatalogNotes
    rules: CatalogRules
    catalog: SessionCatalog
    clock: Callable[[], float] = time.time
    plan: CatalogPlan = field(init=False)
    _found: Found = field(init=False)
    _noted: Standing = field(init=False)
    _given: dict[NamedPlace, dict[CatalogName, Given]] = field(init=False)
    _entries: Mapping[Key, Entry] = field(init=False)
    _dropped: set[Key] = field(default_factory=set)
    _done: set[str] = field(default_factory=set)

    def look(self) -> CatalogPlan:
        """Returns what is to be done. Raises LakeError for a lake or a catalog that does not answer."""
        self._noted = self.notes.read()  # first: a statement that comes meanwhile is owed still
        self._found = found(self.lake, self.notes.destination, self.rules)
        former = self._former_root()
        self._given = {place: {one.name: one for one in self._names(place, former)} for place in self._noted.names}
        given = [one for names in self._given.values() for one in names.values()]
        databases = {
            name.database for name in (*(one.name for one in self._found.wanted), *(one.name for one in given))
        }
        self._entries = self.catalog.entries(databases)
        self.plan = compared(self._found.wanted, self._entries, given, self._found.unreadable)
        return self.plan

    def begin(self) -> None:
        """Notes the names that are about to be given: what a killed pass has made is known. Raises LakeError."""
        before = self._noted.names
        names = {one: before.get(one, frozenset()) | found for one, found in self._wanted(self.plan.missing).items()}
        self._note(names, self._noted.root or location(self.lake.root))

    def register(self, table: Wanted) -> None:
        """Registers one. Raises LakeError."""
        self.catalog.register(table)
        self._done.add(table.table)

    def drop(self, stale: Stale) -> None:
        """Drops what is no longer right. Raises LakeError."""
        self.catalog.drop(stale.entry)
        self._dropped.add(stale.entry.name.key)

    def settle(self) -> bool:
        """Notes the names that tables and views have now, and that nothing is owed if all was done. Returns whether it
        was; a view that is missing is no reason to begin again."""
        tables = {one.table for one in self.plan.missing if not one.is_view}
        whole = {one.entry.name.key for one in self.plan.stale} <= self._dropped
        done, noted = whole and tables <= self._done, self._noted
        names = {place: frozenset(self._kept(place)) for place in self._given}
        for place, given in self._wanted((*self.plan.right, *self.plan.missing)).items():
            names[place] = names.get(place, frozenset()) | given
        self._note(names, location(self.lake.root) if whole else noted.root)
        if done:
            self.notes.settle(self.rules, self._found.folders, noted.owed)
        else:
            self.notes.postpone(self.rules, self._found.folders, noted.owed, noted.pause, self.clock())
        return done

    def _note(self, names: Mapping[NamedPlace, frozenset[CatalogName]], root: str) -> None:
        """Notes what is not noted yet."""
        noted = self._noted
        new = {one: found for one, found in names.items() if noted.names.get(one, frozenset()) != found}
        self.notes.rename(new, root if root != noted.root else "")
        self._noted = replace(noted, names={**noted.names, **new}, root=root)

    def _former_root(self) -> str:
        """Returns where the lake was when the names were given, or "" if it has not moved. A lake that is still there
        keeps its names: this one is a copy of it, with a catalog that both use."""
        noted = self._noted.root
        if not noted or noted == location(self.lake.root):
            return ""
        if self.catalog.is_in(self.lake.root):
            return noted
        there = Lake(noted, storage=self.lake.storage)
        try:
            return "" if replace(self.notes, lake=there).read().root else noted
        except LakeError:
            return ""

    def _names(self, place: NamedPlace, former: str) -> Iterator[Given]:
        """Yields the names that were given in this catalog."""
        for name in self._noted.names[place]:
            if name.catalog == self.rules.catalog:
                was = f"{former}/{place.folder}" if former else ""
                yield Given(name, location(f"{self.lake.root}/{place.folder}"), place.view, was)

    def _kept(self, place: NamedPlace) -> Iterator[CatalogName]:
        """Yields the names that a place still has, as far as this pass knows."""
        for name in self._noted.names[place]:
            given, entry = self._given[place].get(name), self._entries.get(name.key)
            if given is None or given.path in self._found.unreadable:
                yield name  # it is unknown
            elif entry and name.key not in self._dropped and given.is_for(entry):
                yield name  # it is there

    def _wanted(self, wanted: Iterable[Wanted]) -> dict[NamedPlace, frozenset[CatalogName]]:
        return {NamedPlace(folder_at(self.lake, one.path), one.is_view): frozenset([one.name]) for one in wanted}
