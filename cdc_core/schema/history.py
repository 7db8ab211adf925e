"""Definitions of tables as of any position: Canal's TableMetaTSDB as one value.

For each table it has versions, each from a position on. A position is a number here, `EntryPosition.version()`. The
default collation of a database is kept as a table without name and columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_core.schema.table import TableSchema

Name = tuple[str, str]  # database and table


@dataclass(frozen=True, slots=True)
class Version:
    """A table's definition from `start` on; `schema` None: it is not known, or the table was `dropped`.

    It was read from the catalogue when the binlog ended at `sure`, so statements between the two may be in it already;
    0 for what follows from the text of a statement. `time` is when it began, in seconds since the epoch."""

    start: int
    schema: TableSchema | None = None
    sure: int = 0
    dropped: bool = False
    time: int = 0

    def to_list(self, name: Name) -> list[Any]:
        schema = self.schema.to_dict() if self.schema else None
        return [*name, self.start, self.sure, self.dropped, self.time, schema]

    @staticmethod
    def from_list(fields: list[Any]) -> tuple[Name, Version]:
        """Raises TypeError, KeyError or ValueError for another form."""
        database, table, start, sure, dropped, time, schema = fields
        known = TableSchema.from_dict(schema) if schema else None
        return (str(database), str(table)), Version(int(start), known, int(sure), bool(dropped), int(time))


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """`tables`: the versions of each table, in the order of their positions."""

    tables: Mapping[Name, tuple[Version, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.tables.values()))

    def __repr__(self) -> str:
        return f"<SchemaHistory tables={len(self.tables)} versions={len(self)}>"

    def at(self, name: Name, position: int) -> Version | None:
        """The version that holds at a position; None before the first."""
        return self.before(name, position + 1)

    def before(self, name: Name, position: int) -> Version | None:
        """The version that holds in front of what happens at a position."""
        versions = self.tables.get(name, ())
        found = bisect_left(versions, position, key=lambda version: version.start)
        return versions[found - 1] if found else None

    def exact(self, name: Name, position: int) -> TableSchema | None:
        """The definition in front of a position, where no statement may be in it that comes later."""
        version = self.before(name, position)
        return version.schema if version and version.sure <= position else None

    def names(self, database: str) -> list[Name]:
        return [name for name in self.tables if name[0] == database]

    def versions(self) -> Iterator[tuple[Name, Version]]:
        return ((name, version) for name, versions in self.tables.items() for version in versions)

    def with_versions(self, added: Iterable[tuple[Name, Version]]) -> SchemaHistory:
        """With further versions; one at the same position takes the other's place."""
        tables = dict(self.tables)
        for name, version in added:
            others = [one for one in tables.get(name, ()) if one.start != version.start]
            tables[name] = tuple(sorted([*others, version], key=lambda one: one.start))
        return SchemaHistory(tables)

    def trimmed(self, oldest: int, since: int) -> SchemaHistory:
        """Without versions that another one replaced before the position `oldest` and before the time `since`."""
        kept = {name: _trimmed(versions, oldest, since) for name, versions in self.tables.items()}
        return SchemaHistory({name: versions for name, versions in kept.items() if versions})


def _trimmed(versions: tuple[Version, ...], oldest: int, since: int) -> tuple[Version, ...]:
    old = [i for i, version in enumerate(versions) if version.start <= oldest and version.time < since]
    kept = versions[old[-1] :] if old else versions
    return () if len(kept) == 1 and old and kept[0].dropped else kept
