"""Creates and alters Delta tables: through Spark if delta-rs cannot.

Use these before any transaction setting is on the session: Delta would count a CREATE that carries a batch's version
as that batch, and skip the batch itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.failures import first_line, layout_errors
from spark_jobs.lake.features import MAPPING
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import LAYOUT, Layout
from spark_jobs.lake.own_columns import DELETED, NO_OWN, Own
from spark_jobs.lake.record import new_properties
from spark_jobs.lake.seen_columns import definition_properties
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.state import (
    COMPLETE,
    DESTINATION,
    FENCE,
    KEPT_LOG,
    PRIMARY_KEY,
    TABLE,
    UNFILLED,
    UNFILLED_NUMBER,
    TableState,
    fill_id,
)
from spark_jobs.lake.statistics import INDEXED, INDEXED_COLUMNS, MOST_INDEXED
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import transaction
from spark_jobs.lake.types import LakeColumn, delta_field, lake_columns, needs_mapping
from spark_jobs.session import Sessions

LOG_PROPERTIES = {  # of tables and histories
    "delta.logRetentionDuration": KEPT_LOG,
    "delta.checkpointInterval": "10",  # delta-rs makes one every 100 commits by itself
}


def create_table(
    sessions: Sessions,
    lake: Lake,
    path: str,
    destination: str,
    schema: TableSchema,
    columns: Sequence[LakeColumn],
    token: str,
) -> None:
    """Creates the table with the source's comments; its properties name the owner, the key, and the run's fence."""
    lake.check_writable()
    properties = table_properties(lake, destination, schema, token)
    if make_table(lake, path, columns, properties, schema.comment):
        return
    if needs_mapping(columns):
        properties[MAPPING] = "name"
    comment = f" COMMENT {literal(schema.comment)}" if schema.comment else ""
    body = ", ".join(column.ddl for column in (*columns, *Own.of(properties).columns))
    laid = Layout.of(properties).clause
    made = f"CREATE TABLE delta.{quote(path)} ({body}) USING delta{laid}{comment} TBLPROPERTIES ({listed(properties)})"
    with sessions.take() as spark, layout_errors(path, properties):
        spark.sql(made)


def make_table(
    lake: Lake,
    path: str,
    columns: Sequence[LakeColumn],
    properties: Mapping[str, str],
    comment: str,
    noted: CommitProperties | None = None,
    partitions: Sequence[str] = (),
) -> bool:
    """Creates a table without rows and without Spark; `noted` are its commit's properties, `partitions` the columns by
    which its files are apart. Returns False if delta-rs cannot create it. Raises LakeError, also if another run was
    faster."""
    fields = [delta_field(column) for column in (*columns, *Own.of(properties).columns)]
    if None in fields or needs_mapping(columns) or LAYOUT in properties:
        return False
    try:
        DeltaTable.create(
            path,
            DeltaSchema([field for field in fields if field is not None]),
            description=comment or None,
            partition_by=list(partitions) or None,
            configuration=properties,
            storage_options=lake.storage or None,
            commit_properties=noted,
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        hint = "Make the lake writable and give it room; the batch stays claimable."
        raise LakeError(f"the table cannot be created: {first_line(error)}", place=path, hint=hint) from error
    return True


def table_properties(lake: Lake, destination: str, schema: TableSchema, token: str) -> dict[str, str]:
    """Returns Sluice's own properties of a table: its owner, its key, its definition, the fence of the run that created
    it, the columns that Sluice adds, its layout. Raises TableStopped for a table that cannot have these."""
    own = lake.rules.of(schema.name) if lake.rules else NO_OWN
    own.check(schema.name, schema.primary_key, [column.name for column in schema.columns])
    layout = lake.layout(schema.name)
    if layout.needs_spark:
        columns = lake_columns(pa.schema(arrow_fields(schema)), schema)
        layout.check(schema.name, {column.name: column.type for column in columns})
    return (
        (own.note if own else {})
        | new_properties()
        | {
            DESTINATION: destination,
            TABLE: schema.name,
            PRIMARY_KEY: json.dumps(list(schema.primary_key)),
            **definition_properties(schema),
            COMPLETE: str(lake.complete).lower(),
            FENCE: token,
            **delta_properties(schema),
            **layout.note,
        }
    )


def delta_properties(schema: TableSchema) -> dict[str, str]:
    """Returns Delta's own properties of a new table. Its log keeps commits a little longer than VACUUM keeps files. By
    default Delta has statistics of the first columns alone; here it also has them of the key, so that a MERGE finds the
    files of a key."""
    names = [column.name for column in schema.columns]
    last = max((names.index(name) for name in schema.primary_key if name in names), default=0)
    indexed = last + 1 + sum(column.type_code == ColumnType.GEOMETRY for column in schema.columns[:last])
    return LOG_PROPERTIES | ({INDEXED_COLUMNS: str(indexed)} if INDEXED < indexed <= MOST_INDEXED else {})


def alter_table(spark: SparkSession, fence: Fence, path: str, change: str) -> None:
    """Executes one ALTER TABLE, for a run that entered the table by `fence`.

    Raises LakeError when another run has taken the table over meanwhile. Delta commits an ALTER without a version, so
    it must do no harm when the next run that has the claim repeats it.
    """
    fence.check(path)
    spark.sql(f"ALTER TABLE delta.{quote(path)} {change}")


def add_columns(
    spark: SparkSession,
    fence: Fence,
    path: str,
    schema: TableSchema,
    columns: Sequence[LakeColumn],
    added: Sequence[LakeColumn],
    old_rows: Mapping[str, str],
    number: int,
) -> None:
    """Adds columns in the source's order. `old_rows`, values in SQL by column, is noted first for `fill_old_rows`,
    which writes them; `number` is above that of every earlier note of the table."""
    properties = definition_properties(schema)
    if old_rows:
        properties |= {UNFILLED: json.dumps(old_rows), UNFILLED_NUMBER: str(number)}
    if needs_mapping(added):
        properties[MAPPING] = "name"
    if any(column.type == "timestamp_ntz" for column in added):
        properties["delta.feature.timestampNtz"] = "supported"
    alter_table(spark, fence, path, f"SET TBLPROPERTIES ({listed(properties)})")
    names = [column.name for column in columns]
    placed = []
    for column in added:
        index = names.index(column.name)
        placed.append(f"{column.ddl} {f'AFTER {quote(names[index - 1])}' if index else 'FIRST'}")
    alter_table(spark, fence, path, f"ADD COLUMNS ({', '.join(placed)})")


def with_own_columns(
    sessions: Sessions, lake: Lake, fence: Fence, path: str, table: str, state: TableState, app: str
) -> TableState:
    """Adds the columns of Sluice's that the rules want, and removes soft-deleted rows if the rules want none. Returns
    the table's new state. If it was done in part, it is done again. Raises TableStopped for a table that cannot have
    them."""
    own = lake.rules.widened(table, state.own) if lake.rules else state.own
    own.check(table, state.primary_key, [column.name for column in state.columns])
    if own == state.own:
        return state
    with sessions.take() as spark:
        if state.own.soft and not own.soft and DELETED in state.own.names:
            fence.check(path)
            spark.sql(f"DELETE FROM delta.{quote(path)} WHERE {DELETED}").collect()  # noqa: S608
        alter_table(spark, fence, path, f"SET TBLPROPERTIES ({listed(own.note)})")
        lacking = [column.ddl for column in own.columns if column.name not in state.own.names]
        if lacking:
            alter_table(spark, fence, path, f"ADD COLUMNS ({', '.join(lacking)})")
    return lake.state(path, app) or state


def fill_old_rows(spark: SparkSession, fence: Fence, path: str, state: TableState, app: str) -> None:
    """Gives old rows their values in added columns, then removes the note. `app` is that of the table's batches.

    No batch writes to the columns before that. The statement carries the note's number, so that Delta skips it when it
    is repeated, or late.
    """
    columns = {column.name for column in state.columns}
    sets = [f"{quote(name)} = {text}" for name, text in state.unfilled.items() if name in columns]
    if sets:
        with transaction(spark, fill_id(app), state.unfilled_number):
            spark.sql(f"UPDATE delta.{quote(path)} SET {', '.join(sets)}")  # noqa: S608
    alter_table(spark, fence, path, f"UNSET TBLPROPERTIES IF EXISTS ({literal(UNFILLED)})")


def listed(properties: Mapping[str, str]) -> str:
    """Returns the properties in the form of TBLPROPERTIES."""
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
