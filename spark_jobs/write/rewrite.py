"""Writes the changes of a very small table by key: all of its rows go into one new file, in place of its files.

The rows are those that a MERGE of delta-rs would leave, which takes four times as long for a table of a hundred rows.
The commit is refused if anybody has committed since the table was read. It has no metrics, so its note has the counts
of rows.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSystem

from spark_jobs.changes.net import GONE
from spark_jobs.lake.features import BY_DELTA_RS, takes_any_files
from spark_jobs.lake.kept_tables import folder_at
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.state import WROTE
from spark_jobs.lake.statistics import new_file
from spark_jobs.write.order import Form, Order, Outcome
from spark_jobs.write.order_changes import Unfit

MOST_BYTES = 1 << 20  # of a table's files: more are read and written by a MERGE of delta-rs in less time
MOST_ROWS = 20_000
MOST_MEMORY = 64 << 20  # bytes of its rows: a small file may have a long value many times
_VALUE = 16  # bytes of a value that is no text, at most
_PLAIN, _CODES = {"PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY"}, {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_NAME = re.compile(r"[\w.-]+")  # of a file in the table's own folder
_FORMAT: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,
    "write_statistics": False,  # all rows are read anyway
    "store_decimal_as_integer": True,
    "store_schema": False,
}


@dataclass(frozen=True, slots=True)
class Result:
    """A table's `rows` after its changes, and how many of them the changes inserted, updated and deleted."""

    rows: pa.Table
    inserted: int
    updated: int
    deleted: int


def rewritable(order: Order, table: DeltaTable, files: pa.Table, changes: pa.Table) -> bool:
    """Whether the order can be written so: by key, into columns that the changes all have, in a table that needs no
    more of a file than its name, and whose `files` are small. A change whose key is NULL in part meets no row."""
    if order.form is not Form.KEYED or not takes_any_files(table, BY_DELTA_RS):
        return False
    if any(changes.column(name).null_count for name in order.key):
        return False
    if {field.name for field in table.schema().fields} != {*order.columns, *order.own.names}:
        return False
    if files.column("num_records").null_count or not all(map(_NAME.fullmatch, files.column("path").to_pylist())):
        return False
    size, rows = (int(pc.sum(files.column(name)).as_py() or 0) for name in ("size_bytes", "num_records"))
    return size <= MOST_BYTES and rows <= MOST_ROWS


def rewritten(order: Order, table: DeltaTable, files: pa.Table, changes: pa.Table) -> Outcome:
    """Writes the order. Raises Unfit for rows that take too much memory, what `merged`, pyarrow and delta-rs raise, and
    CommitFailedError if somebody committed meanwhile."""
    folder = folder_at(order.path, order.storage)
    schema = pa.schema(table.schema().to_arrow())
    there, room = [], MOST_MEMORY
    for path in files.column("path").to_pylist():
        rows, taken = _read(folder, path, schema, room)
        there.append(rows)
        room -= taken
    found = merged(pa.concat_tables([schema.empty_table(), *there]), changes, order.key, soft=order.own.soft)
    added: list[AddAction | RemoveAction] = [_written(folder, found.rows)] if found.rows.num_rows else []
    counts = [found.inserted, found.updated, found.deleted]
    properties = CommitProperties(
        custom_metadata={"userMetadata": json.dumps({**json.loads(order.note), WROTE: counts})},
        max_commit_retries=0,
        app_transactions=app_versions({order.app: order.version}),
    )
    table.create_write_transaction(added, "overwrite", table.schema(), commit_properties=properties)
    return Outcome(table.version() + 1, found.inserted, found.updated, found.deleted, changes.num_rows)


def merged(there: pa.Table, changes: pa.Table, key: tuple[str, ...], *, soft: bool = False) -> Result:
    """Returns the rows of a table after its changes: a changed row stays at its place, new ones come last. With `soft`
    a row that is `GONE` stays, marked in the columns that the change has. Raises Unfit for two changes of one key,
    which a MERGE refuses."""
    count, both = there.num_rows, pa.concat_tables([there, changes.select(there.column_names).cast(there.schema)])
    changed = _matches(both.select(key), count)
    gone = np.zeros(changes.num_rows, bool) if soft else changes.column(GONE).to_numpy()
    met = changed >= 0
    deleted = met & gone[changed] if changes.num_rows else met
    updated = met & ~deleted
    new = ~gone
    new[changed[met]] = False
    places = np.arange(count)
    places[updated] = count + changed[updated]
    places = np.concatenate([places[~deleted], count + np.flatnonzero(new)])
    return Result(both.take(pa.array(places)), int(new.sum()), int(updated.sum()), int(deleted.sum()))


def _matches(keys: pa.Table, count: int) -> np.ndarray:
    """Returns, for each of the table's `count` keys, the place of its change among the keys after them, or -1."""
    codes = np.zeros(keys.num_rows, np.int64)  # the same for the same key
    for column in keys.columns:
        encoded = column.combine_chunks().dictionary_encode("encode")
        values = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * len(encoded.dictionary) + values, return_inverse=True)
    place_of = np.full(keys.num_rows + 1, -1, np.int64)
    place_of[codes[count:]] = np.arange(keys.num_rows - count)
    if np.count_nonzero(place_of >= 0) < keys.num_rows - count:
        raise Unfit("there are two changes of one key")
    return place_of[codes[:count]]


def _read(folder: FileSystem, path: str, schema: pa.Schema, room: int) -> tuple[pa.Table, int]:
    """Returns a file's rows with the table's columns, of which those that it lacks are NULL, and the bytes that they
    take. Raises Unfit if these are more than `room`."""
    with folder.open_input_file(path) as file:
        about = pq.read_metadata(file)
        taken, coded = _memory(about)
        if taken > room:
            raise Unfit("its rows take too much memory")
        reader = pq.ParquetFile(file, metadata=about, coerce_int96_timestamp_unit="us", read_dictionary=[*coded])
        found = reader.read(use_threads=False)
    taken += sum(_length(found.column(name)) for name in coded)
    if taken > room:
        raise Unfit("its rows take too much memory")
    columns = [
        found.column(field.name).cast(field.type)
        if field.name in found.column_names
        else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema), taken


def _memory(about: pq.FileMetaData) -> tuple[int, set[str]]:
    """Returns the bytes that a file's values take at most, and the names of columns whose texts come on top: the file
    has codes of them, so they are read as codes first."""
    taken, coded = 0, set[str]()
    chunks = (
        about.row_group(one).column(nth) for one in range(about.num_row_groups) for nth in range(about.num_columns)
    )
    for chunk in chunks:
        size, encodings = chunk.total_uncompressed_size, set(chunk.encodings)
        taken += size + _VALUE * chunk.num_values
        if chunk.physical_type != "BYTE_ARRAY" or encodings <= _PLAIN:
            continue
        if encodings <= _PLAIN | _CODES and "." not in chunk.path_in_schema:
            coded.add(chunk.path_in_schema)
        else:  # each value may be all that the file has
            taken += size * chunk.num_values
    return taken, coded


def _length(column: pa.ChunkedArray) -> int:
    """Returns the bytes of a column's texts, of which it has codes."""
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return sum(int(pc.sum(one).as_py() or 0) for one in lengths)


def _written(folder: FileSystem, rows: pa.Table) -> AddAction:
    """Writes a file of these rows, and returns its entry for the commit."""
    name = f"{uuid.uuid4().hex}.parquet"
    with folder.open_output_stream(name) as sink:
        pq.write_table(rows, sink, row_group_size=max(1, rows.num_rows), **_FORMAT)
        size = sink.tell()
    return new_file(name, size, json.dumps({"numRecords": rows.num_rows}))
