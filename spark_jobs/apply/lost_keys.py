"""Finds the keys that left a parent: a view of the keys that its children's rows may still reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import TableRead
from cdc_core.contract.claim import TableRange
from cdc_core.rows.system_columns import BEFORE, OP
from cdc_core.schema.names import full_name
from spark_jobs.apply.cascade_sql import KEYS
from spark_jobs.apply.table import Batch
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.equality import spelled_alike
from spark_jobs.lake.own_columns import NO_OWN, living_now
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.foreign_keys import ForeignKey
from spark_jobs.write.view import create_view

_PARENT, _IMAGES = "sluice_parent", "sluice_images"
MOST = 200_000  # keys that a claim may lose, and rows of a table that it may change; beyond it a copy is cheaper


@dataclass(frozen=True, slots=True)
class Lost:
    """The keys that left a parent: keys that rows of `table` lost in the claim, keys of `rows` that a cascade deleted,
    or with neither all keys that no row of the parent has. `hidden`: also keys that the parent may have lost and got
    again in the claim. `unknown`: the parent's lost keys are unknown, so all keys count that the child's rows name."""

    table: TableRange | None = None
    rows: pa.Table | None = None
    hidden: bool = False
    unknown: bool = False


HIDDEN = Lost(hidden=True)


def hidden(batch: Batch, key: ForeignKey, *, taken: bool) -> Lost | None:
    """Returns the keys that a parent, whose own parents lost keys in the claim, may have lost without a trace; None if
    the lake has its rows as the cascades met them. The lake has other rows if parent or child changed in the claim, or
    if the parent was copied after the claim's start. The keys of a parent that is not in the lake, or is stopped, are
    unknown: it is not `taken`."""
    state = batch.lake.state(batch.lake.path(*key.parent), "")
    if state is None or state.dropped or not taken:
        return replace(HIDDEN, unknown=True)
    copied, begins = state.copied, (batch.claim.epoch, batch.claim.start.version())
    ahead = copied is not None and (copied.epoch, copied.high) > begins
    changed = not {full_name(*key.child), full_name(*key.parent)}.isdisjoint(batch.claim.table_names)
    return HIDDEN if changed or ahead else None


def create_keys(spark: SparkSession, batch: Batch, key: ForeignKey, lost: Lost) -> bool:
    """Makes the view. False when no key can have left. Raises CopyNeeded where the claim does not have them."""
    if lost.rows is not None:
        spark.createDataFrame(lost.rows).createOrReplaceTempView(KEYS)
        return True
    if lost.table is not None:
        return _of_claim(spark, batch, lost.table, key)
    queries = [_of_orphans(batch.lake, key, parent_known=not lost.unknown)]
    return _create(spark, [*queries, *(_of_images(spark, batch, key) if lost.hidden else ())])


def create_known_keys(spark: SparkSession, batch: Batch, key: ForeignKey, lost: Lost) -> bool | None:
    """Makes the view without reading the rows in the lake. Returns None if only these show the keys."""
    if lost.table is not None or lost.rows is not None:
        return create_keys(spark, batch, key, lost)
    parent = next((one for one in batch.claim.tables if one.name == full_name(*key.parent)), None)
    if not lost.hidden or lost.unknown or (parent and not _in_key(parent, key)):
        return None
    return _create(spark, _of_images(spark, batch, key))


def _create(spark: SparkSession, queries: Sequence[str | None]) -> bool:
    there = [query for query in queries if query]
    if there:
        spark.sql(" UNION ".join(there)).createOrReplaceTempView(KEYS)
    return bool(there)


def may_lose(batch: Batch, key: ForeignKey, lost: Lost) -> bool:
    """Whether any key can have left, without a look at the rows."""
    return lost.table is None or _loses_keys(_net(batch, lost.table), lost.table, key)


def _of_claim(spark: SparkSession, batch: Batch, table: TableRange, key: ForeignKey) -> bool:
    """Makes the view of the keys that may have left the parent in the claim. A table with renamed columns waits for the
    claim with their renaming."""
    if not {column.name for column in table.schema.columns} >= set(key.referenced):
        return False
    net, in_key = _net(batch, table), _in_key(table, key)
    if not _loses_keys(net, table, key):
        return False
    if not in_key and net.counts.lacking:
        raise needs_copy(key, "row images leave out the columns that it references (binlog_row_image)")
    read = net if in_key else batch.door.info(batch.claim, table.name, mode="changes")
    create_view(spark, read, _PARENT, batch.door, batch.sent_rows)
    listed = ", ".join(quote(name) for name in key.referenced)
    where = "" if in_key else f" WHERE {OP} IN ({', '.join(map(literal, BEFORE))})"
    spark.sql(f"SELECT DISTINCT {listed} FROM {_PARENT}{where}").createOrReplaceTempView(KEYS)  # noqa: S608
    return True


def _net(batch: Batch, table: TableRange) -> TableRead:
    return batch.door.info(batch.claim, table.name)


def _in_key(table: TableRange, key: ForeignKey) -> bool:
    return set(key.referenced) <= set(table.schema.primary_key)


def _loses_keys(net: TableRead, table: TableRange, key: ForeignKey) -> bool:
    """Whether referenced keys may have left the parent, by what the service counted."""
    counts = net.counts
    moved = counts.raw_updates and (counts.raw_inserts or not _in_key(table, key))
    return bool(counts.raw_deletes or counts.deletes or moved)


def _of_orphans(lake: Lake, key: ForeignKey, *, parent_known: bool) -> str | None:
    """Returns a query for the keys that rows of the child reference and no row of the parent has, spelled alike: a key
    that the source has in other letters counts. None if the lake lacks a table or a column."""
    tables = ((key.child, key.columns), (key.parent, key.referenced))
    kinds, living = [], []
    for table, names in tables if parent_known else tables[:1]:
        state = lake.state(lake.path(*table), "")
        there = {} if state is None or state.dropped else {column.name: column.type for column in state.columns}
        if not there.keys() >= set(names):
            return None
        kinds.append([there[name] for name in names])
        living.append(living_now(lake.path(*table), state.own if state else NO_OWN))
    pairs = list(zip(key.columns, key.referenced, kinds[0], strict=True))
    reference = " AND ".join(spelled_alike(f"c.{quote(a)}", f"p.{quote(b)}", kind) for a, b, kind in pairs)
    listed = ", ".join(f"c.{quote(a)} AS {quote(b)}" for a, b, _ in pairs)
    given = " AND ".join(f"c.{quote(a)} IS NOT NULL" for a, _, _ in pairs)
    without = f" LEFT ANTI JOIN {living[1]} p ON {reference}" if parent_known else ""
    return f"SELECT DISTINCT {listed} FROM {living[0]} c{without} WHERE {given}"  # noqa: S608


def _of_images(spark: SparkSession, batch: Batch, key: ForeignKey) -> list[str]:
    """Returns queries for the keys in the claim's rows of the parent and of the child: keys that left the parent unseen
    may be there again, and new rows may name a key that is gone from a parent that is ahead."""
    queries = []
    for number, (name, names) in enumerate(((key.parent, key.referenced), (key.child, key.columns))):
        table = next((one for one in batch.claim.tables if one.name == full_name(*name)), None)
        if table is None or not {column.name for column in table.schema.columns} >= set(names):
            continue
        read = _net(batch, table)
        if not set(names) <= set(table.schema.primary_key):
            if read.counts.lacking:
                raise needs_copy(key, "row images leave out columns of the foreign key (binlog_row_image)")
            read = batch.door.info(batch.claim, table.name, mode="changes")
        if not read.tickets:
            continue
        view = f"{_IMAGES}_{number}"
        create_view(spark, read, view, batch.door, batch.sent_rows)
        listed = ", ".join(f"{quote(a)} AS {quote(b)}" for a, b in zip(names, key.referenced, strict=True))
        queries.append(f"SELECT DISTINCT {listed} FROM {view}")  # noqa: S608
    return queries


def needs_copy(key: ForeignKey, why: str) -> CopyNeeded:
    parent = full_name(*key.parent)
    reason = f"the source changed its rows by a foreign key to {parent}, which the binlog does not record, and {why}"
    return CopyNeeded(reason, full_name(*key.child))
