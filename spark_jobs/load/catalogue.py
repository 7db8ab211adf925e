"""The server's catalogue of many tables before they are read: estimated sizes, and definitions of the small tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc_core.schema.information_schema import definitions
from cdc_core.schema.table import TableSchema
from spark_jobs.load.small_reader import MOST_BYTES, MOST_ROWS
from spark_jobs.load.view import whole_images
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.source import Source

TOGETHER = 200  # tables that one query asks for, or that are read at one place
_SIZES = "SELECT table_name, table_rows, data_length FROM information_schema.tables WHERE table_schema = %s"

Name = tuple[str, str]
"""Database and table."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The estimated rows of each table, and the definitions of the small tables."""

    rows: Mapping[Name, int]
    small: Mapping[Name, TableSchema]


def catalogue(source: Source, names: Sequence[Name]) -> Catalogue:
    """Returns the catalogue of these tables. No table counts as small if row images leave columns out. Raises
    SourceError and SourceUnavailable."""
    with asked(source, "the catalogue") as connection:
        sizes: dict[Name, tuple[int, int]] = {}
        for database in {database for database, _ in names}:
            with connection.cursor() as cursor:
                cursor.execute(_SIZES, (database,))
                sizes |= {(database, str(name)): (rows, size or 0) for name, rows, size in cursor if rows is not None}
        wanted = [name for name in names if name in sizes and _is_small(*sizes[name])]
        wanted = wanted if whole_images(connection) else []
        found: dict[Name, TableSchema] = {}
        for low in range(0, len(wanted), TOGETHER):
            found |= definitions(connection, wanted[low : low + TOGETHER])
    small = {name: schema for name, schema in found.items() if schema.columns and not schema.is_sequence}
    return Catalogue({name: sizes[name][0] for name in names if name in sizes}, small)


def _is_small(rows: int, size: int) -> bool:
    return rows <= MOST_ROWS and size <= MOST_BYTES
