"""Reloads a table in one Delta commit: rows, columns, comments and properties.

Under a transaction's settings the commit carries its version, and Delta skips it if the table has that version. The
table's history stays, and so do the versions of all app ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.connect.functions import col, expr
from pyspark.sql.connect.session import SparkSession

from spark_jobs.lake.failures import layout_errors
from spark_jobs.lake.features import MAPPING
from spark_jobs.lake.layout import Layout
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.sql import literal, quote, table_at
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn, needs_mapping

_ROWS = "_sluice_rows"  # a view of the session


def replace_table(
    path: str, rows: DataFrame, columns: Sequence[LakeColumn], properties: Mapping[str, str], comment: str
) -> None:
    """Replaces all rows of the table at `path` by these, or creates it. `rows` has the columns by name, and may read an
    older version of the same table. Columns of Sluice's that the properties name, and `rows` lacks, say that all rows
    live."""
    shown = [col(quote(c.name)).alias(c.name, metadata={"comment": c.comment} if c.comment else {}) for c in columns]
    if own := Own.of(properties):
        there = set(rows.columns)
        initial = {c.name: "false" if c.name == DELETED else f"CAST(NULL AS {c.type})" for c in own.columns}
        shown += [expr(quote(name) if name in there else initial[name]).alias(name) for name in own.names]
    whole = dict(properties)
    if needs_mapping(columns):
        whole[MAPPING] = "name"
    if any(column.type == "timestamp_ntz" for column in columns):
        whole["delta.feature.timestampNtz"] = "supported"  # otherwise an existing table without the type refuses it
    layout = Layout.of(properties).among({column.name: column.type for column in columns})
    with layout_errors(path, properties):
        if layout.cluster_by:
            _replace_clustered(path, rows.select(*shown), layout, whole, comment)
            return
        writer = rows.select(*shown).writeTo(f"delta.{quote(path)}").using("delta")
        if layout.partition_by:
            writer = writer.partitionedBy(*(col(quote(name)) for name in layout.partition_by))
        for key, value in (whole | ({"comment": comment} if comment else {})).items():
            writer = writer.tableProperty(key, value)
        writer.createOrReplace()


def _replace_clustered(path: str, rows: DataFrame, layout: Layout, properties: Mapping[str, str], comment: str) -> None:
    """Does it by SQL: Spark Connect's writer cannot create a clustered table."""
    rows.createOrReplaceTempView(_ROWS)
    said = f" COMMENT {literal(comment)}" if comment else ""
    listed = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    rows.sparkSession.sql(
        f"CREATE OR REPLACE TABLE delta.{quote(path)} USING delta{layout.clause}{said} "  # noqa: S608
        f"TBLPROPERTIES ({listed}) AS SELECT * FROM {_ROWS}"
    ).collect()


def no_rows(spark: SparkSession, columns: Sequence[LakeColumn]) -> DataFrame:
    """Returns these columns without a row."""
    return spark.sql(f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {quote(c.name)}' for c in columns)} WHERE false")


def rows_of(spark: SparkSession, path: str, version: int, where: str = "true") -> DataFrame:
    """Returns the rows of one version of a table."""
    return spark.sql(f"SELECT * FROM {table_at(path, version)} WHERE {where}")  # noqa: S608


def emptied_rows(spark: SparkSession, path: str, state: TableState, place: str, time: str | None) -> DataFrame:
    """Returns the rows that are left of the table in `state` when all are deleted: no row, or each row marked. `place`
    and `time`, in SQL, are the statement's."""
    if not state.own.soft or DELETED not in state.own.names:
        return rows_of(spark, path, state.version, "false")
    last = state.own.last_change("delete", place, time)
    listed = [quote(column.name) for column in state.columns]
    listed += [f"IF({DELETED}, {name}, {value}) AS {name}" for name, value in last.items()]
    return spark.sql(f"SELECT {', '.join(listed)} FROM {table_at(path, state.version)}")  # noqa: S608
