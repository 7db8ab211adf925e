"""Which keys left a parent: the view of those that its children's rows may still reference."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import TableRead, flight_info
from cdc_core.rows.system_columns import BEFORE, OP
from cdc_core.schema.names import full_name
from cdc_core.session.claim import TableRange
from spark_jobs.apply.cascade_sql import KEYS
from spark_jobs.apply.table import Batch
from spark_jobs.apply.view import create_view
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.equality import references
from spark_jobs.lake.own_columns import NO_OWN, living_now
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.foreign_keys import ForeignKey

_PARENT = "sluice_parent"
MOST = (
    200_000  # keys that one claim may lose, and rows of one table that it may cascade to; beyond it a copy is cheaper
)


@dataclass(frozen=True, slots=True)
class Lost:
    """Which keys left a parent: those that rows of `table` lost in the claim, those of `rows` that a cascade took, or
    with neither all that no row of the parent has."""

    table: TableRange | None = None
    rows: pa.Table | None = None


def create_keys(spark: SparkSession, batch: Batch, key: ForeignKey, lost: Lost) -> bool:
    """Makes the view. False when no key can have left. Raises CopyNeeded where the claim does not have them."""
    if lost.rows is not None:
        spark.createDataFrame(lost.rows).createOrReplaceTempView(KEYS)
        return True
    return _of_orphans(spark, batch.lake, key) if lost.table is None else _of_claim(spark, batch, lost.table, key)


def may_lose(batch: Batch, key: ForeignKey, lost: Lost) -> bool:
    """Whether any key can have left, without a look at the rows."""
    return lost.table is None or _loses_keys(_net(batch, lost.table), lost.table, key)


def _of_claim(spark: SparkSession, batch: Batch, table: TableRange, key: ForeignKey) -> bool:
    """The keys that may have left the parent in the claim. One whose columns have other names by now is looked at when
    the claim with their renaming comes."""
    if not {column.name for column in table.schema.columns} >= set(key.referenced):
        return False
    net, in_key = _net(batch, table), _in_key(table, key)
    if not _loses_keys(net, table, key):
        return False
    if not in_key and net.counts.partial:
        raise needs_copy(key, "row images leave out the columns that it references (binlog_row_image)")
    token, ca = batch.token or None, batch.ca
    read = net if in_key else flight_info(batch.flight_url, batch.claim, table.name, mode="changes", token=token, ca=ca)
    create_view(spark, read, _PARENT, batch.flight_url, batch.token, batch.sent_rows, ca=ca)
    listed = ", ".join(quote(name) for name in key.referenced)
    where = "" if in_key else f" WHERE {OP} IN ({', '.join(map(literal, BEFORE))})"
    spark.sql(f"SELECT DISTINCT {listed} FROM {_PARENT}{where}").createOrReplaceTempView(KEYS)  # noqa: S608
    return True


def _net(batch: Batch, table: TableRange) -> TableRead:
    return flight_info(batch.flight_url, batch.claim, table.name, token=batch.token or None, ca=batch.ca)


def _in_key(table: TableRange, key: ForeignKey) -> bool:
    return set(key.referenced) <= set(table.schema.primary_key)


def _loses_keys(net: TableRead, table: TableRange, key: ForeignKey) -> bool:
    """Whether referenced keys may have left the parent, by what the service counted."""
    counts = net.counts
    moved = counts.raw_updates and (counts.raw_inserts or not _in_key(table, key))
    return bool(counts.raw_deletes or counts.deletes or moved)


def _of_orphans(spark: SparkSession, lake: Lake, key: ForeignKey) -> bool:
    """The keys that rows of the child reference and no row of the parent has. False where the lake lacks a table or a
    column."""
    kinds, living = [], []
    for table, names in ((key.child, key.columns), (key.parent, key.referenced)):
        state = lake.state(lake.path(*table), "")
        there = {} if state is None or state.dropped else {column.name: column.type for column in state.columns}
        if not there.keys() >= set(names):
            return False
        kinds.append([there[name] for name in names])
        living.append(living_now(lake.path(*table), state.own if state else NO_OWN))
    pairs = list(zip(key.columns, key.referenced, kinds[0], strict=True))
    reference = " AND ".join(references(f"c.{quote(a)}", f"p.{quote(b)}", kind) for a, b, kind in pairs)
    listed = ", ".join(f"c.{quote(a)} AS {quote(b)}" for a, b, _ in pairs)
    given = " AND ".join(f"c.{quote(a)} IS NOT NULL" for a, _, _ in pairs)
    child, parent = living
    spark.sql(
        f"SELECT DISTINCT {listed} FROM {child} c LEFT ANTI JOIN {parent} p ON {reference} WHERE {given}"  # noqa: S608
    ).createOrReplaceTempView(KEYS)
    return True


def needs_copy(key: ForeignKey, why: str) -> CopyNeeded:
    reason = (
        f"the source changed its rows by a foreign key to {full_name(*key.parent)}, which is in no binlog, and {why}"
    )
    return CopyNeeded(reason, full_name(*key.child))
