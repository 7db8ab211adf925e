"""Rows of a snapshot that a foreign key changed at the source while they were read, looked up there by their own key.

They name a key that left the parent (`lost`). What they are at the source goes behind the changes of the log, so that
the switch takes it. The source may be ahead of the stream: later events of the same rows change nothing then. Doing it
again adds the same once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from cdc_core.rows.columns.cells import ZeroDates
from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import DELETE, INSERT, OP
from spark_jobs.copy.result import Broken
from spark_jobs.lake.equality import references
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import LakeColumn
from spark_jobs.snapshot.foreign_keys import ForeignKey
from spark_jobs.snapshot.source_rows import Touched, Unproven, touched

MOST = 200_000  # rows; with more of them the table is read once more
_ROWS, _LOST = "sluice_read", "sluice_lost"


def looked_up(
    spark: SparkSession,
    connection: pymysql.Connection[Any],
    rows: DataFrame,
    schema: TableSchema,
    columns: Sequence[LakeColumn],
    key: ForeignKey,
    lost: str,
    zero_dates: ZeroDates,
) -> pa.Table | None:
    """Those of `rows` that name a key in the table at `lost` and are otherwise at the source: as they are there, and
    in `OP` what became of them. The columns of all have numbers for names. None where there are none.

    Raises Broken where they cannot be looked up, and pymysql's errors.
    """
    found = _candidates(spark, rows, columns, key, lost, zero_dates)
    if not found.num_rows:
        return None
    if found.num_rows > MOST or not schema.primary_key:
        why = f"more than {MOST:,} of its rows are concerned" if schema.primary_key else "it has no primary key"
        raise _broken(key, why)
    names = [column.name for column in columns]
    named = found.rename_columns(names)
    try:
        there = touched(connection, key, schema.primary_key, named, names, zero_dates)
    except Unproven as error:
        raise _broken(key, str(error)) from error
    return _changed(found, names, key, there) if there.rows else None


def _candidates(
    spark: SparkSession,
    rows: DataFrame,
    columns: Sequence[LakeColumn],
    key: ForeignKey,
    lost: str,
    zero_dates: ZeroDates,
) -> pa.Table:
    names = [column.name for column in columns]
    rows.createOrReplaceTempView(_ROWS)
    parts = []
    for number, name in enumerate(key.columns):
        at = names.index(name)
        child, parent = f"r.{quote(str(at))}", f"k.{quote(str(number))}"
        parts.append(references(child, parent, columns[at].type, zero_dates=zero_dates == "null"))
    keys = f"(SELECT DISTINCT * FROM delta.{quote(lost)})"  # noqa: S608
    found = f"SELECT r.* FROM {_ROWS} r LEFT SEMI JOIN {keys} k ON {' AND '.join(parts)} LIMIT {MOST + 1}"  # noqa: S608
    return spark.sql(found).toArrow()


def _changed(found: pa.Table, names: Sequence[str], key: ForeignKey, there: Touched) -> pa.Table:
    """The rows with the source's values. One that is gone keeps its own, but for a foreign key that became NULL."""
    rows = found.take(pa.array(there.rows, pa.int64()))
    for name in there.values.column_names:
        at = names.index(name)
        kept = there.gone if name in key.columns else [not one for one in there.there]
        values = pc.if_else(pa.array(kept, pa.bool_()), rows.column(at), there.values[name])
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows.append_column(OP, pa.array([DELETE if gone else INSERT for gone in there.gone], pa.string()))


def _broken(key: ForeignKey, why: str) -> Broken:
    child, parent = full_name(*key.child), full_name(*key.parent)
    reason = f"the source changed its rows by a foreign key to {parent}, which is in no binlog, and {why}"
    return Broken(reason, place=child, hint="Begin again when its parent rests, or reload the table (sluice copy).")
