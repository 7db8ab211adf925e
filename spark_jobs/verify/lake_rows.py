"""The rows of one version of a lake table, as Arrow of the source's types, read by delta-rs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.own_columns import Own
from spark_jobs.verify.row_text import lake_text


def lake_rows(table: DeltaTable, schema: TableSchema, names: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """All living rows, of the columns `names` or of all. Raises Arrow's errors for values that the source's types
    cannot have."""
    fields = [field for field in arrow_fields(schema) if not names or field.name in names]
    listed = ", ".join('"' + field.name.replace('"', '""') + '"' for field in fields)
    own = Own.of_table(table)
    where = f" WHERE {own.living}" if own else ""
    reader = QueryBuilder().register("lake", table).execute(f"SELECT {listed} FROM lake{where}")  # noqa: S608
    for found in reader:
        batch = pa.record_batch(found)
        arrays = [column.cast(field.type) for column, field in zip(batch.columns, fields, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def rows_of_keys(
    batches: Iterator[pa.RecordBatch], schema: TableSchema, keys: Collection[bytes]
) -> dict[bytes, list[tuple[bytes, pa.RecordBatch]]]:
    """By the text of the key, the text of each of its rows and the row itself. Keys without a row are left out."""
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
