"""The tables of one source as its catalogue has them, their columns as the destination is configured to read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc_core.config.models import InstanceConfig
from cdc_core.position import EntryPosition
from cdc_core.schema.conventions import Conventions, read_conventions
from cdc_core.schema.information_schema import complete, definition, list_tables, read_databases, table_names
from cdc_core.schema.table import TableSchema
from cdc_core.source.connection import connect, connected
from cdc_core.source.journals import current_end
from cdc_core.source.settings import SourceSettings
from cdc_core.stream.online_ddl import is_helper

_TRIES = 3  # for a moment in which nothing is written


@dataclass(frozen=True, slots=True)
class CatalogueSnapshot:
    """All captured tables and the databases' collations, read while the binlog grew from `low` to `high`."""

    tables: tuple[TableSchema, ...]
    databases: dict[str, str]
    low: EntryPosition
    high: EntryPosition


@dataclass(frozen=True, slots=True)
class Catalogue:
    """`accept`: whether the filter captures a table, by database and name. Each call connects again."""

    config: InstanceConfig
    settings: SourceSettings
    accept: Callable[[str, str], bool]

    def complete(self, schema: TableSchema) -> TableSchema:
        """A definition from the binlog, with what the catalogue adds. Raises SchemaError, SourceError."""
        return self.as_configured(complete(schema, lambda: connect(self.settings)))

    def tables(self) -> list[TableSchema]:
        """The captured tables as the server has them now, no helpers of online schema changes. Raises SourceError."""
        with connect(self.settings) as conn:
            found = list_tables(conn, self.accept)
        names = {(schema.database, schema.table) for schema in found}
        return [
            self.as_configured(schema)
            for schema in found
            if not is_helper(schema.database, schema.table, lambda *name: name in names)
        ]

    def names(self) -> set[tuple[str, str]]:
        """Database and name of all tables that the server has now, captured or not. Raises SourceError."""
        with connected(self.settings) as conn:
            return table_names(conn)

    def conventions(self) -> Conventions:
        """Raises SourceError."""
        with connected(self.settings) as conn, conn.cursor() as cursor:
            return read_conventions(cursor)

    def table(self, database: str, table: str) -> tuple[TableSchema | None, EntryPosition]:
        """A table as the server has it now, and where the binlog ended after that. Raises SourceError."""
        with connected(self.settings) as conn:
            return definition(conn, database, table, hidden=True), current_end(conn)

    def snapshot(self) -> CatalogueSnapshot:
        """Tries for a moment in which nothing is written; on a busy server `low` and `high` differ.

        Raises SourceError."""
        with connected(self.settings) as conn:
            for _ in range(_TRIES):
                low = current_end(conn)
                tables, databases = list_tables(conn, self.accept), read_databases(conn)
                found = CatalogueSnapshot(tuple(tables), databases, low, current_end(conn))
                if found.low == found.high:
                    break
            return found

    def end(self) -> EntryPosition:
        """Where the binlog ends. Raises SourceError."""
        with connected(self.settings) as conn:
            return current_end(conn)

    def as_configured(self, schema: TableSchema) -> TableSchema:
        return schema.as_read(self.config.zero_dates)
