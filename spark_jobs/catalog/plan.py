"""Compares what a catalog has with what it should have: pure.

A table in the catalog is known by its path, and a view of Sluice's by a mark that names the change log which it reads.
What is at another path, or has no such mark, is somebody else's and is left alone, unless Sluice itself made it there.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import unquote

from spark_jobs.lake.catalog_names import CatalogName

Key = tuple[str, str]
"""A database and a table in lower case, as `CatalogName.key`."""

NOW = "__now"
"""How the names of views end."""


class Kind(StrEnum):
    """What a Delta table of the lake is; or a view of one, with its change log."""

    TABLE = "table"
    LOG = "log"
    HISTORY = "history"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A Delta table of the lake, `database.table`, and the name that it should have in the catalog. The `path` of a
    view is that of the change log that it reads."""

    table: str
    kind: Kind
    name: CatalogName
    path: str
    comment: str = ""

    @property
    def is_view(self) -> bool:
        """Whether it is no table, but a view."""
        return self.kind is Kind.VIEW


@dataclass(frozen=True, slots=True)
class Entry:
    """What a catalog has by a name: a view with its `mark`, or a table at `location`. `external`: its files outlive a
    DROP TABLE."""

    name: CatalogName
    location: str = ""
    external: bool = False
    view: bool = False
    mark: str = ""

    def stands_for(self, path: str, *, view: bool) -> bool:
        """Whether it is the table at a path; or the view of the change log there, made by Sluice."""
        if self.view or view:
            return self.view and view and self.mark == mark_of(path)
        return bool(self.location) and plain(self.location) in (plain(path), plain(unquote(path)))

    def __str__(self) -> str:
        if self.view:
            return "a view of another table" if self.mark else "a view that Sluice did not make"
        return f"a table at {self.location or 'a place that it does not name'}"


@dataclass(frozen=True, slots=True)
class Given:
    """A name that Sluice gave to the table at a path, or to the view of the change log there. `former`: the path of
    that time, if the lake has another one now."""

    name: CatalogName
    path: str
    view: bool = False
    former: str = ""

    def is_for(self, entry: Entry) -> bool:
        """Whether the name is still that of what Sluice made."""
        return any(entry.stands_for(path, view=self.view) for path in (self.path, self.former) if path)


@dataclass(frozen=True, slots=True)
class Stale:
    """What Sluice made for a path, and is no longer right."""

    path: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class CatalogPlan:
    """`stale` entries are dropped first, then `missing` tables are registered and views made. `right`: those that are
    there. `refused`: why one is not, by table."""

    stale: tuple[Stale, ...] = ()
    missing: tuple[Wanted, ...] = ()
    right: tuple[Wanted, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def compared(
    wanted: Sequence[Wanted],
    entries: Mapping[Key, Entry],
    given: Collection[Given],
    unreadable: Collection[str] = (),
) -> CatalogPlan:
    """Returns what to do. `given`: the names that Sluice gave before. What is for `unreadable` paths stays as it is."""
    stale = _stale(wanted, entries, given, unreadable)
    dropped = [one.entry for one in stale]
    left = {key: entry for key, entry in entries.items() if entry not in dropped}
    same = defaultdict(list)
    for one in wanted:
        same[one.name.key].append(one)
    missing: list[Wanted] = []
    right: list[Wanted] = []
    refused: dict[str, str] = {}
    for one in wanted:
        there, others = left.get(one.name.key), [other.table for other in same[one.name.key] if other is not one]
        if there is not None and there.stands_for(one.path, view=one.is_view):
            right.append(one)
        elif others:
            refused[one.table] = f"{' and '.join(sorted([one.table, *others]))} would both be {one.name}"
        elif there is not None:
            refused[one.table] = f"the catalog has {there} by the name {one.name}"
        else:
            missing.append(one)
    return CatalogPlan(stale, tuple(missing), tuple(right), refused)


def _stale(
    wanted: Sequence[Wanted], entries: Mapping[Key, Entry], given: Collection[Given], unreadable: Collection[str]
) -> tuple[Stale, ...]:
    """Returns the entries that Sluice made for what has another name now, another path, or is gone. An entry that has
    become somebody else's meanwhile is not one of them."""
    names = {(one.path, one.is_view, one.name.key) for one in wanted}
    found: dict[Key, Stale] = {}
    for one in given:
        entry = entries.get(one.name.key)
        if entry is None or one.path in unreadable or not (entry.view or entry.external) or not one.is_for(entry):
            continue
        is_there = entry.stands_for(one.path, view=one.view)
        if not is_there or (one.path, one.view, one.name.key) not in names:
            found[one.name.key] = Stale(one.path, entry)
    return tuple(found.values())


def mark_of(path: str) -> str:
    """Returns what names the change log at a path in the properties of its view. Spark shows paths with some words in
    them to nobody; this it shows."""
    return hashlib.sha256(plain(path).encode()).hexdigest()[:32]


def plain(location: str) -> str:
    """Returns a location in the form that all spellings of it have in common."""
    scheme, colon, rest = location.rstrip("/").partition(":")
    if not colon or "/" in scheme:
        return location.rstrip("/")
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}"
