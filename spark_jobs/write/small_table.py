"""Writes one commit of one small table by delta-rs: the rows that Spark's MERGE would make of the same changes.

The commit has the app id, version and user metadata of a batch. delta-rs does not skip a version that the table has,
so it is read first; if another run commits after that reading, delta-rs refuses the commit, as Delta refuses Spark's.
Spark's workers import this module, so it does without Spark's client, which takes a second to import.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_jobs.changes.columns import DELETE, EPOCH, NTH, OP, UPDATE_BEFORE, VERSION
from spark_jobs.changes.net import ANEW, GONE
from spark_jobs.changes.versions import CURRENT, KIND, VALID_FROM, VALID_TO
from spark_jobs.lake.kept_tables import KeptTables
from spark_jobs.lake.own_columns import DELETED
from spark_jobs.lake.queries import identifier
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.state import FENCE
from spark_jobs.lake.statistics import exact_statistics_of
from spark_jobs.lake.types import COUNT
from spark_jobs.stores import check_root
from spark_jobs.write.order import MOST_BYTES, MOST_FILE_ROWS, Form, Order, Outcome, writable
from spark_jobs.write.order_changes import Unfit, changes_of
from spark_jobs.write.rewrite import rewritable, rewritten

_GONE = f"s.{identifier(GONE)}"
_PANIC = "PanicException"  # the error of delta-rs when its own code fails
_OUTCOME = pa.schema(
    [("place", pa.int64())]
    + [(name, pa.int64()) for name in ("version", "inserted", "updated", "deleted", "sources")]
    + [("why", pa.string())]
)
OUTCOME_DDL = ", ".join(f"{field.name} {'string' if field.name == 'why' else 'bigint'}" for field in _OUTCOME)


def written_by_task(orders: Sequence[Order], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes, in a task of Spark, the orders at these places, and yields their outcomes."""
    for batch in batches:
        for place in batch.column(0).to_pylist():
            row = {"place": place, **asdict(_tried(orders[place]))}
            yield pa.RecordBatch.from_pylist([row], schema=_OUTCOME)


def _tried(order: Order) -> Outcome:
    try:
        return written(order)
    except BaseException as error:  # Spark's statement tries again, and reports what is wrong
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        return Outcome(why=f"{type(error).__name__}: {' '.join(str(error).split())[:500]}")


def written(order: Order) -> Outcome:
    """Writes the order, and returns its outcome. Raises Unfit if nothing was written, and what Flight and delta-rs
    raise."""
    check_root(order.path, {**os.environ, **order.storage})
    with _tables(tuple(sorted(order.storage.items()))).newest(order.path) as table:
        _check(order, table)
        if order.form is Form.INSERTED:
            return _appended(order, table, _fitting(changes_of(order), table))
        files = _files(table)
        changes = _fitting(changes_of(order), table)
        if rewritable(order, table, files, changes):
            return rewritten(order, table, files, changes)
        match order.form:
            case Form.COPIES:
                return _merged(order, table, _copies(order, table, changes), _copied(order))
            case Form.VERSIONS:
                return _merged(order, table, changes, _opened(order))
            case _:
                return _merged(order, table, changes, _upserted(order, table))


@lru_cache(maxsize=2)
def _tables(storage: tuple[tuple[str, str], ...]) -> KeptTables:
    """Returns the tables that this process has opened before, with these options."""
    return KeptTables(dict(storage))


def _check(order: Order, table: DeltaTable) -> None:
    if table.metadata().configuration.get(FENCE) != order.token:
        raise Unfit("another run has taken the table over")
    if (table.transaction_version(order.app) or -1) >= order.version:
        raise Unfit("the table has that version")
    if not writable(table.protocol().writer_features or (), table.metadata().configuration):
        raise Unfit("the table has a feature that delta-rs does not write")


def _files(table: DeltaTable) -> pa.Table:
    """Returns the table's files. Raises Unfit if they are too large."""
    files = pa.table(table.get_add_actions())
    size, rows = (int(pc.sum(files.column(name)).as_py() or 0) for name in ("size_bytes", "num_records"))
    if size > MOST_BYTES or rows > MOST_FILE_ROWS:
        raise Unfit("the table has grown")
    return files


def _fitting(changes: pa.Table, table: DeltaTable) -> pa.Table:
    """Returns the changes in the table's own types."""
    types = {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
    for index, column in enumerate(changes.column_names):
        if column not in types:
            continue
        try:
            changes = changes.set_column(index, column, changes.column(index).cast(types[column]))
        except pa.ArrowException as error:
            raise Unfit(f"column {column} does not fit") from error
    return changes


def _had(table: DeltaTable, rows: pa.Table) -> np.ndarray:
    """Returns the number of copies that the table has of each of the rows."""
    names, place, one = rows.column_names, "_sluice_place", "_sluice_one"
    there = table.to_pyarrow_table(columns=names).cast(rows.schema)
    wanted = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
    wanted = wanted.append_column(one, pa.array(np.zeros(rows.num_rows, np.int64)))
    there = there.append_column(place, pa.nulls(there.num_rows, pa.int64()))
    there = there.append_column(one, pa.array(np.ones(there.num_rows, np.int64)))
    found = pa.concat_tables([wanted, there]).group_by(names).aggregate([(place, "max"), (one, "sum")])
    found = found.filter(pc.is_valid(found.column(f"{place}_max"))).sort_by(f"{place}_max")
    return np.asarray(found.column(f"{one}_sum"))


def _appended(order: Order, table: DeltaTable, changes: pa.Table) -> Outcome:
    counts = changes.column(COUNT).to_numpy()
    rows = changes.select(order.columns).take(pa.array(np.repeat(np.arange(changes.num_rows), counts)))
    _append(order, table, rows)
    return Outcome(table.version(), inserted=rows.num_rows, sources=rows.num_rows)


def _append(order: Order, table: DeltaTable, rows: pa.Table) -> None:
    """Appends the rows, also if there are none: the commit carries the version. Columns that the source has dropped are
    NULL."""
    schema = pa.schema(table.schema().to_arrow())
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    rows = rows.select(schema.names)
    how = exact_statistics_of(rows, table, order.key)
    write_deltalake(table, rows, mode="append", writer_properties=how, commit_properties=_properties(order))


def _copies(order: Order, table: DeltaTable, changes: pa.Table) -> pa.Table:
    """Returns the source of a MERGE: a row that loses copies loses all of them, and gets the rest back."""
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
    goes = np.repeat([True, False], [gone.num_rows, there.num_rows])
    return pa.concat_tables([gone, there]).append_column(GONE, pa.array(goes))


@dataclass(frozen=True, slots=True)
class _Clauses:
    """The clauses of a MERGE, in SQL. `on`: which rows match; `insert`: the columns of a new row; `update`: those of a
    matched row, empty to leave it alone; `delete`: which matched rows are deleted instead; `inserts`: which source rows
    become new rows, all for None."""

    on: str
    insert: Mapping[str, str]
    update: Mapping[str, str]
    delete: str | None = None
    inserts: str | None = None


def _upserted(order: Order, table: DeltaTable) -> _Clauses:
    """Returns the clauses of changes by key. With soft deletes a deleted row stays, marked."""
    values = _values((*order.columns, *order.own.names))
    on = " AND ".join(f"t.{identifier(column)} = s.{identifier(column)}" for column in order.key)
    update = values | _left_out(order, table)
    return _Clauses(on, values, update) if order.own.soft else _Clauses(on, values, update, _GONE, f"NOT {_GONE}")


def _copied(order: Order) -> _Clauses:
    """Returns the clauses of copies: rows that are equal to a `GONE` one are deleted, the other ones are added."""
    alike = (f"(t.{identifier(column)} IS NOT DISTINCT FROM s.{identifier(column)})" for column in order.columns)
    return _Clauses(" AND ".join([_GONE, *alike]), _values(order.columns), {}, _GONE, f"NOT {_GONE}")


def _opened(order: Order) -> _Clauses:
    """Returns the clauses of versions. A closed version that the history lacks is inserted if its row was there before
    the change."""
    closes, ops = f"s.{identifier(KIND)} = 0", ", ".join(f"'{op}'" for op in (DELETE, UPDATE_BEFORE))
    keys = (f"t.{identifier(column)} = s.{identifier(column)}" for column in order.key)
    on = " AND ".join([f"t.{identifier(CURRENT)} = true", closes, *keys])
    update = {identifier(VALID_TO): f"s.{identifier(VALID_TO)}", identifier(CURRENT): "false"}
    values = _values((*order.columns, VALID_FROM, VALID_TO, CURRENT, EPOCH, VERSION, NTH))
    return _Clauses(on, values, update, inserts=f"NOT ({closes}) OR s.{identifier(OP)} IN ({ops})")


def _merged(order: Order, table: DeltaTable, source: pa.Table, clauses: _Clauses) -> Outcome:
    opened, how = table.version(), exact_statistics_of(source, table, order.key)
    merge = table.merge(
        source, clauses.on, source_alias="s", target_alias="t", streamed_exec=False, writer_properties=how,
        commit_properties=_properties(order),
    )  # fmt: skip
    if clauses.delete:
        merge = merge.when_matched_delete(clauses.delete)
    if clauses.update:
        merge = merge.when_matched_update(dict(clauses.update))
    done = merge.when_not_matched_insert(dict(clauses.insert), clauses.inserts).execute()
    if table.version() == opened:  # nothing changed, so there was no commit
        _append(order, table, source.select(order.columns).slice(0, 0))
    inserted, updated, deleted = (int(done[f"num_target_rows_{one}"]) for one in ("inserted", "updated", "deleted"))
    return Outcome(table.version(), inserted, updated, deleted, source.num_rows)


def _values(columns: Iterable[str]) -> dict[str, str]:
    return {identifier(column): f"s.{identifier(column)}" for column in columns}


def _left_out(order: Order, table: DeltaTable) -> dict[str, str]:
    """Returns the values of columns that the source has dropped: NULL in a row that came anew."""
    there, known = (field.name for field in table.schema().fields), {*order.columns, *order.own.names}
    inserted = f"s.{identifier(ANEW)}"
    if order.own.soft:
        inserted = f"({inserted} OR (t.{identifier(DELETED)} AND NOT s.{identifier(GONE)}))"
    kept = (identifier(column) for column in there if column not in known)
    return {column: f"CASE WHEN {inserted} THEN NULL ELSE t.{column} END" for column in kept}


def _properties(order: Order) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"userMetadata": order.note},
        app_transactions=app_versions({order.app: order.version}),
    )
