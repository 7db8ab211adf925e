"""Which tables of the source are one table in the lake: plain values of the configuration.

A shard is a table of the source whose rows belong to a union: a table of the lake with the rows of all its shards. Each
shard keeps a Delta table of its own, in the union's folder. The union names the shards' files and says in its
partition columns whose rows they are (`spark_jobs.union`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from cdc_core.errors import ConfigError, TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.lake.folders import LONGEST, folder_of

SHARDS = "_sluice_shards"  # the folder of the shards in the union's; no table has such a folder
_PLACE = "into"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_CORRECT = "Correct `into` in defs.yaml."


@dataclass(frozen=True, slots=True)
class Union:
    """`table` (`database.table`) has the rows of the source's tables whose whole names `pattern` fits. `columns`: the
    names of its columns with the pattern's groups, in their order. `destination`: the name of the column with the
    destination's name; "" for none."""

    table: str
    pattern: str
    columns: tuple[str, ...] = ()
    destination: str = ""

    @property
    def partitions(self) -> tuple[str, ...]:
        """The columns that say whose a row is: they are part of each row's key."""
        return (*((self.destination,) if self.destination else ()), *self.columns)

    def values(self, table: str, destination: str) -> dict[str, str] | None:
        """Returns what these columns have for the rows of `database.table`; None for a table that is no shard. Raises
        TableStopped where a group has no value."""
        found = re.fullmatch(self.pattern, table)
        if found is None:
            return None
        for name, value in zip(self.columns, found.groups(), strict=True):
            if not value:
                message = f"it goes into {self.table}, whose column {name} has no value for it"
                hint = f"Have the group match at least one character. {_CORRECT}"
                raise TableStopped(message, place=table, hint=hint)
        own = {self.destination: destination} if self.destination else {}
        values = own | dict(zip(self.columns, found.groups(), strict=True))
        for name, value in values.items():
            if len(_folder(name, value)) > LONGEST:
                message = f"it goes into {self.table}, whose column {name} has a folder of more than {LONGEST} bytes"
                hint = f"Give the column a shorter name, or have the group match less. {_CORRECT}"
                raise TableStopped(message, place=table, hint=hint)
        return values

    def check(self) -> None:
        """Raises ConfigError for a union that no lake can have."""
        if wrong := self._wrong():
            raise ConfigError(wrong, place=f"{_PLACE}, {self.table}", hint=_CORRECT)

    def _wrong(self) -> str | None:
        try:
            split_name(self.table)
            groups = re.compile(self.pattern).groups
        except ValueError as error:
            return str(error)
        except (re.error, RecursionError, OverflowError) as error:
            return f"{self.pattern!r} is not a regular expression: {error}"
        if groups != len(self.columns):
            return f"{self.pattern!r} has {groups} groups, and columns names {len(self.columns)}"
        if not self.partitions:
            return "no column says whose a row is: give the pattern a group, or name a column for the destination"
        if re.fullmatch(self.pattern, self.table):
            return f"{self.pattern!r} fits the table itself"
        names = [name.lower() for name in self.partitions]
        if twice := [name for name in names if names.count(name) > 1]:
            return f"the column {twice[0]} is named twice"
        if odd := [name for name in self.partitions if not _NAME.fullmatch(name)]:
            return f"{odd[0]!r} is not a valid name for a column; use letters, digits and underscores"
        return None


@dataclass(frozen=True, slots=True)
class Shard:
    """A table of the source, `database.table`, whose rows go into a union. `values`: what they have in the columns that
    say so."""

    table: str
    union: Union
    values: Mapping[str, str]

    @property
    def folder(self) -> str:
        """Returns the innermost folders of its table, which say whose its rows are: readers that look into paths, such
        as Polars, take the columns from there."""
        return "/".join(_folder(name, value) for name, value in self.values.items())


def _folder(name: str, value: str) -> str:
    return f"{name}={folder_of(value)}"


@dataclass(frozen=True, slots=True)
class Unions:
    """The unions of a `destination`. Falsy without any."""

    destination: str = ""
    all: tuple[Union, ...] = ()
    _known: dict[str, Shard | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.all)

    def of(self, table: str) -> Shard | None:
        """Returns the shard that `database.table` is; None for one that is a table of its own. Raises TableStopped for
        a table of two unions, and for one that gives a column no value."""
        if table not in self._known:
            self._known[table] = self._found(table)
        return self._known[table]

    def _found(self, table: str) -> Shard | None:
        fits = [(one, values) for one in self.all if (values := one.values(table, self.destination)) is not None]
        if len(fits) > 1:
            message = f"it goes into {fits[0][0].table} and into {fits[1][0].table}"
            raise TableStopped(message, place=table, hint=f"Have one pattern fit it. {_CORRECT}")
        return Shard(table, *fits[0]) if fits else None

    def among(self, tables: Iterable[str]) -> list[Union]:
        """Returns the unions that some of these tables go into, as far as that is known."""
        found = dict[str, Union]()
        for table in tables:
            with suppress(TableStopped):
                if shard := self.of(table):
                    found[shard.union.table] = shard.union
        return list(found.values())

    def check(self) -> None:
        """Raises ConfigError for unions that no lake can have."""
        for one in self.all:
            one.check()
        for one, other in combinations(self.all, 2):
            if one.table.lower() == other.table.lower():
                place = f"{_PLACE}, {other.table}"
                raise ConfigError("the table is named twice", place=place, hint=_CORRECT)
            for shard, union in ((one.table, other), (other.table, one)):
                if re.fullmatch(union.pattern, shard):
                    message = f"{union.pattern!r} fits {shard}, which has shards of its own"
                    raise ConfigError(message, place=f"{_PLACE}, {union.table}", hint=_CORRECT)

    def check_tables(self, tables: Iterable[str]) -> None:
        """Raises ConfigError if these tables of the source cannot be distinguished in their unions, or if one has a
        union's name."""
        owners: dict[tuple[str, frozenset[tuple[str, str]]], str] = {}
        names = {one.table.lower(): one.table for one in self.all}
        for table in sorted(tables):
            if table.lower() in names:
                message = f"the source has a table {table}, and the lake one of its shards"
                hint = "Give the union another name, or leave the source's table out."
                raise ConfigError(message, place=f"{_PLACE}, {names[table.lower()]}", hint=hint)
            if (shard := self.of(table)) is None:
                continue
            place = (shard.union.table, frozenset(shard.values.items()))
            if (other := owners.setdefault(place, table)) != table:
                said = ", ".join(f"{name} = {value}" for name, value in shard.values.items())
                message = f"{other} and {table} would both have {said}"
                hint = f"Give the pattern a group that distinguishes them. {_CORRECT}"
                raise ConfigError(message, place=f"{_PLACE}, {shard.union.table}", hint=hint)


NO_UNIONS = Unions()


def unions_json(unions: Unions) -> str:
    """Returns the unions as text, for a configuration."""
    return json.dumps([unions.destination, [asdict(one) for one in unions.all]]) if unions else "{}"


def unions_from(text: str) -> Unions:
    """Returns the unions that `unions_json` wrote; none for an empty object."""
    node: Any = json.loads(text)
    if not node:
        return NO_UNIONS
    destination, found = node
    return Unions(destination, tuple(Union(**{**one, "columns": tuple(one["columns"])}) for one in found))


def idle(unions: Unions, tables: Collection[str]) -> list[str]:
    """Returns the unions that none of the source's tables goes into: a pattern may be misspelled."""
    found = unions.among(tables)
    return [one.table for one in unions.all if one not in found]
