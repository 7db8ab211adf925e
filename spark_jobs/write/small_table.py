"""One commit of one small table by delta-rs: what Spark's MERGE would make of the same net changes.

The commit has the app id, version and user metadata of a batch. delta-rs does not skip a version that the table has,
so it is read first; what another run commits after that reading makes delta-rs refuse the commit, as Spark's would be.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.client.changes import RowsDoor
from spark_jobs.lake.state import FENCE
from spark_jobs.lake.statistics import exact_statistics
from spark_jobs.lake.types import COUNT, OP
from spark_jobs.stores import check_root
from spark_jobs.write.order import MOST_BYTES, MOST_FILE_ROWS, SENT_BYTES, UNWRITABLE, Form, Order, Outcome

_UPSERT, _DELETE = 1, 2  # what OP says of a key


class Unfit(Exception):
    """The table is not for delta-rs after all, or not this run's: Spark's statement says what is wrong."""


def written(order: Order) -> Outcome:
    """Writes the order. Raises Unfit where nothing was written; what Flight and delta-rs raise."""
    check_root(order.path, {**os.environ, **order.storage})
    table = DeltaTable(order.path, storage_options=dict(order.storage) or None)
    _check(order, table)
    changes = _fitting(_pulled(order.door, order.tickets), table, order.columns)
    if order.form is Form.INSERTED:
        return _appended(order, table, changes)
    if order.form is Form.COPIES:
        return _merged(order, table, _copies(order, table, changes), ())
    return _merged(order, table, changes.select([*order.columns, OP]), order.key)


def _check(order: Order, table: DeltaTable) -> None:
    if table.metadata().configuration.get(FENCE) != order.token:
        raise Unfit("another run has taken the table over")
    if (table.transaction_version(order.app) or -1) >= order.version:
        raise Unfit("the table has that version")
    if UNWRITABLE.intersection(table.protocol().writer_features or ()):  # it would write some, and lose their rows
        raise Unfit("the table has a feature that delta-rs does not write")
    if order.form is Form.INSERTED:
        return
    files = pa.table(table.get_add_actions())
    size, rows = (int(pc.sum(files.column(name)).as_py() or 0) for name in ("size_bytes", "num_records"))
    if size > MOST_BYTES or rows > MOST_FILE_ROWS:
        raise Unfit("the table has grown")


def _fitting(changes: pa.Table, table: DeltaTable, columns: Sequence[str]) -> pa.Table:
    """The changes in the table's own types."""
    types = {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
    for column in columns:
        index = changes.schema.get_field_index(column)
        try:
            changes = changes.set_column(index, column, changes.column(index).cast(types[column]))
        except pa.ArrowException as error:
            raise Unfit(f"column {column} does not fit") from error
    return changes


def _had(table: DeltaTable, rows: pa.Table) -> np.ndarray:
    """How many copies of each of the rows the table has."""
    names, place, one = rows.column_names, "_sluice_place", "_sluice_one"
    there = table.to_pyarrow_table(columns=names).cast(rows.schema)
    wanted = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
    wanted = wanted.append_column(one, pa.array(np.zeros(rows.num_rows, np.int64)))
    there = there.append_column(place, pa.nulls(there.num_rows, pa.int64()))
    there = there.append_column(one, pa.array(np.ones(there.num_rows, np.int64)))
    found = pa.concat_tables([wanted, there]).group_by(names).aggregate([(place, "max"), (one, "sum")])
    found = found.filter(pc.is_valid(found.column(f"{place}_max"))).sort_by(f"{place}_max")
    return np.asarray(found.column(f"{one}_sum"))


def _pulled(door: RowsDoor, tickets: Sequence[bytes]) -> pa.Table:
    """All rows behind the tickets, with plain values in place of dictionaries."""
    parts, size = list[pa.RecordBatch](), 0
    with door.connect() as rows:
        for ticket in tickets:
            for part in rows.split(ticket):
                parts.append(part)
                size += part.nbytes
                if size > SENT_BYTES:
                    raise Unfit("its changes are too many bytes")
    found = pa.Table.from_batches(parts).replace_schema_metadata(None)
    for index, field in enumerate(found.schema):
        if pa.types.is_dictionary(field.type):
            plain = found.column(index).cast(field.type.value_type)
            found = found.set_column(index, field.name, plain)
    return found


def _appended(order: Order, table: DeltaTable, changes: pa.Table) -> Outcome:
    counts = changes.column(COUNT).to_numpy()
    rows = changes.select(order.columns).take(pa.array(np.repeat(np.arange(changes.num_rows), counts)))
    _append(order, table, rows)
    return Outcome(table.version(), inserted=rows.num_rows)


def _append(order: Order, table: DeltaTable, rows: pa.Table) -> None:
    """Also of no row: the commit has the version all the same. Columns that the source has no more are NULL."""
    schema = pa.schema(table.schema().to_arrow())
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    how = exact_statistics(schema, order.key)
    rows = rows.select(schema.names)
    write_deltalake(table, rows, mode="append", writer_properties=how, commit_properties=_properties(order))


def _copies(order: Order, table: DeltaTable, changes: pa.Table) -> pa.Table:
    """The source of a MERGE: a row that loses copies loses all of them, and gets the rest back."""
    names = list(order.columns)
    net = changes.group_by(names).aggregate([(COUNT, "sum")]).rename_columns([*names, COUNT])
    net = net.filter(pc.not_equal(net.column(COUNT), 0))
    counts = net.column(COUNT).to_numpy()
    have = _had(table, net.select(names)) if (counts < 0).any() else 0
    left = np.where(counts < 0, have + counts, counts)
    if (left < 0).any():
        raise Unfit("the lake has fewer copies of a row than the source deleted")
    rows = net.select(names)
    gone = rows.take(pa.array(np.flatnonzero(counts < 0)))
    there = rows.take(pa.array(np.repeat(np.arange(net.num_rows), left)))
    ops = np.repeat(np.array([_DELETE, _UPSERT], np.int8), [gone.num_rows, there.num_rows])
    return pa.concat_tables([gone, there]).append_column(OP, pa.array(ops))


def _merged(order: Order, table: DeltaTable, source: pa.Table, key: Sequence[str]) -> Outcome:
    """With a key rows are upserted; without one, rows that are equal to one with `_DELETE` go, the others come."""
    values = {_name(column): f"s.{_name(column)}" for column in order.columns}
    op = f"s.{_name(OP)}"
    if key:
        on = " AND ".join(f"t.{_name(column)} = s.{_name(column)}" for column in key)
    else:
        alike = (f"(t.{_name(column)} IS NOT DISTINCT FROM s.{_name(column)})" for column in order.columns)
        on = " AND ".join([f"{op} = {_DELETE}", *alike])
    opened, how = table.version(), exact_statistics(source.schema, key)
    merge = table.merge(
        source, on, source_alias="s", target_alias="t", streamed_exec=False, writer_properties=how,
        commit_properties=_properties(order),
    )  # fmt: skip
    merge = merge.when_matched_delete(f"{op} = {_DELETE}")
    if key:
        merge = merge.when_matched_update(values)
    done = merge.when_not_matched_insert(values, f"{op} = {_UPSERT}").execute()
    if table.version() == opened:  # nothing changed, so there was no commit
        _append(order, table, source.select(order.columns).slice(0, 0))
    inserted, updated, deleted = (int(done[f"num_target_rows_{one}"]) for one in ("inserted", "updated", "deleted"))
    return Outcome(table.version(), inserted, updated, deleted)


def _properties(order: Order) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"userMetadata": order.note},
        app_transactions=[Transaction(order.app, order.version)],
    )


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
