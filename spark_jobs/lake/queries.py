"""Queries of one Delta table by delta-rs, in DataFusion's SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError


def identifier(name: str) -> str:
    """Returns an identifier, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def identifiers(names: Iterable[str]) -> str:
    """Returns them as in a SELECT."""
    return ", ".join(map(identifier, names))


def selected(table: DeltaTable, name: str, question: str) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a query in which the table has this name. Raises DeltaError, OSError."""
    with _classed():
        for batch in QueryBuilder().register(name, table).execute(question):
            yield pa.record_batch(batch)


def selected_table(table: DeltaTable, name: str, question: str) -> pa.Table:
    """Returns the same as a table. Raises DeltaError, OSError."""
    with _classed():
        return pa.table(QueryBuilder().register(name, table).execute(question).read_all())


@contextmanager
def _classed() -> Iterator[None]:
    """Gives the class DeltaError to an error of a query that reads a file: delta-rs has none for it."""
    try:
        yield
    except (DeltaError, OSError):
        raise
    except Exception as error:
        raise DeltaError(str(error)) from error
