"""The rows of one version of a lake table, as Arrow of the source's types, read by delta-rs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from cdc_core.schema.table import TableSchema
from spark_jobs.lake.own_columns import Own
from spark_jobs.lake.queries import identifiers, selected
from spark_jobs.verify.row_text import lake_text


def lake_rows(table: DeltaTable, fields: Sequence[pa.Field], condition: str = "") -> Iterator[pa.RecordBatch]:
    """Yields the living rows that fulfil a condition in SQL, with these columns. Values that the type of a field cannot
    hold have the lake's own type."""
    listed = identifiers(field.name for field in fields)
    own = Own.of_table(table)
    where = " AND ".join(part for part in (own.living if own else "", condition) if part)
    question = f"SELECT {listed} FROM lake" + (f" WHERE {where}" if where else "")  # noqa: S608
    for found in selected(table, "lake", question):
        yield as_fields(found, fields)


def as_fields(batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """Returns these columns of a batch. Values that the type of a field cannot hold keep theirs."""
    arrays = [_as(field.type, batch.column(field.name)) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])


def rows_in(table: DeltaTable) -> int:
    """Returns the number of rows in a table's files."""
    return int(pc.sum(pa.table(table.get_add_actions(flatten=True))["num_records"]).as_py() or 0)


def rows_of_keys(
    batches: Iterable[pa.RecordBatch], schema: TableSchema, keys: Collection[bytes]
) -> dict[bytes, list[tuple[bytes, pa.RecordBatch]]]:
    """Returns by the text of a key the text of each of its rows, and the row. Keys without a row are left out."""
    wanted, found = pa.array(keys, pa.large_binary()), dict[bytes, list[tuple[bytes, pa.RecordBatch]]]()
    names = [column.name for column in schema.shown]
    for batch in batches:
        texts = lake_text(batch, schema.primary_key)
        chosen = pc.is_in(texts, value_set=wanted)
        part = batch.filter(chosen)
        rows = zip(texts.filter(chosen).to_pylist(), lake_text(part, names).to_pylist(), strict=True)
        for number, (key, text) in enumerate(rows):
            found.setdefault(key, []).append((text, part.slice(number, 1)))
    return found


def _as(kind: pa.DataType, values: pa.Array) -> pa.Array:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values
