"""Rows of a snapshot that a foreign key changed at the source while they were read, looked up there by their own key.

They name a key that left the parent (`lost`). What they are at the source goes behind the changes of the log, so that
the fold takes it. The source may be ahead of the stream: later events of the same rows change nothing then. Doing it
again adds the same once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pymysql
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.copy.changes import GONE
from spark_jobs.copy.result import Broken
from spark_jobs.lake.equality import references
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import LakeColumn
from spark_jobs.snapshot.foreign_keys import ForeignKey
from spark_jobs.snapshot.source_rows import Left, left_by, rows_at_source

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
) -> pa.Table | None:
    """Those of `rows` that name a key in the table at `lost` and are otherwise at the source: as they are there, and
    whether they are gone (`GONE`). The columns of all have numbers for names. None where there are none.

    Raises Broken where they cannot be looked up, and pymysql's errors.
    """
    found = _candidates(spark, rows, columns, key, lost)
    if not found.num_rows:
        return None
    if found.num_rows > MOST or not schema.primary_key:
        why = f"more than {MOST:,} of its rows are concerned" if schema.primary_key else "it has no primary key"
        raise _broken(key, why)
    named = found.rename_columns([column.name for column in columns])
    now = rows_at_source(connection, key.child, schema.primary_key, key.columns, named)
    chosen, gone, values = [], [], []
    for row, old in enumerate(named.select(list(key.columns)).to_pylist()):
        before = tuple(old.values())
        left = left_by(key, schema.primary_key, before, now[row])
        if left is Left.UNKNOWN:
            raise _broken(key, "the cascade may have changed the row's own primary key")
        if left is not Left.SAME:
            chosen.append(row)
            gone.append(left is Left.GONE)
            values.append(before if left is Left.GONE else left)
    return _changed(found, columns, key, chosen, gone, values) if chosen else None


def _candidates(
    spark: SparkSession, rows: DataFrame, columns: Sequence[LakeColumn], key: ForeignKey, lost: str
) -> pa.Table:
    names = [column.name for column in columns]
    rows.createOrReplaceTempView(_ROWS)
    parts = []
    for number, name in enumerate(key.columns):
        at = names.index(name)
        text = columns[at].type == "string"
        parts.append(references(f"r.{quote(str(at))}", f"k.{quote(str(number))}", text=text))
    keys = f"(SELECT DISTINCT * FROM delta.{quote(lost)})"  # noqa: S608
    found = f"SELECT r.* FROM {_ROWS} r LEFT SEMI JOIN {keys} k ON {' AND '.join(parts)} LIMIT {MOST + 1}"  # noqa: S608
    return spark.sql(found).toArrow()


def _changed(
    found: pa.Table,
    columns: Sequence[LakeColumn],
    key: ForeignKey,
    chosen: Sequence[int],
    gone: Sequence[bool],
    values: Sequence[Any],
) -> pa.Table:
    names, rows = [column.name for column in columns], found.take(pa.array(chosen, pa.int64()))
    for number, name in enumerate(key.columns):
        at = names.index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field.name, pa.array([value[number] for value in values], field.type))
    return rows.append_column(GONE, pa.array(gone, pa.bool_()))


def _broken(key: ForeignKey, why: str) -> Broken:
    child, parent = full_name(*key.child), full_name(*key.parent)
    reason = f"the source changed its rows by a foreign key to {parent}, which is in no binlog, and {why}"
    return Broken(reason, place=child, hint="Begin again when its parent rests, or make the table anew (sluice copy).")
