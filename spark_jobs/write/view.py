"""Creates a temporary view of a table's net changes in one Spark session: few rows are sent along, many are staged as a
file, others are pulled.

A small plan that Spark's workers pull costs two Python processes, one to plan and one to read, and Spark does not know
how few rows it has. Either way gives the same rows however often Spark reads them, as long as the claim is held.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_core.client.changes import RowsDoor, TableRead
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import spark_type
from spark_jobs.source import pack_tickets
from spark_jobs.write.order import SENT_BYTES


def create_view(
    spark: SparkSession,
    read: TableRead,
    view: str,
    door: RowsDoor,
    sent_rows: int,
    file: str | None = None,
) -> None:
    """Creates `view` over `file`, which has the plan's rows; without a file, a plan of at most `sent_rows` rows, and of
    few bytes, is sent along.

    A plan without a primary key is always pulled. When its claim is gone, the service refuses rows that are pulled,
    but rows sent along would still be added; by key alone such a late statement changes nothing.
    """
    if file is not None:
        create_file_view(spark, read.schema, view, file)
        return
    schema = _schema(read.schema)
    sent = _all_rows(read, door) if read.table.primary_key and read.rows <= sent_rows else None
    if sent is not None:
        create_sent_view(spark, sent, view)
        return
    reader = spark.read.format("sluice").schema(schema).option("url", door.url)
    reader = reader.option("tickets", pack_tickets(read.tickets))
    if door.token:
        reader = reader.option("token", door.token)  # Spark redacts an option of this name
    if door.ca:
        reader = reader.option("ca", door.ca)
    reader.load().createOrReplaceTempView(view)


def create_sent_view(spark: SparkSession, rows: pa.Table, view: str) -> None:
    """Creates `view` of rows that are sent along."""
    types = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    spark.createDataFrame(rows, types).createOrReplaceTempView(view)


def create_file_view(spark: SparkSession, schema: pa.Schema, view: str, file: str) -> None:
    """Creates `view` over a Parquet file of Sluice's."""
    days = spark.read.schema(_schema(schema)).option("datetimeRebaseMode", "CORRECTED")  # as they are, also before 1582
    days.parquet(file).createOrReplaceTempView(view)


def _schema(schema: pa.Schema) -> str:
    return ", ".join(f"{quote(field.name)} {spark_type(field.type)}" for field in schema)


def _all_rows(read: TableRead, door: RowsDoor) -> pa.Table | None:
    """Returns all rows of the plan, or None when they are more bytes than the driver should hold."""
    parts: list[pa.RecordBatch] = []
    size = 0
    for ticket in read.tickets:
        for part in door.split(ticket):
            parts.append(part)
            size += part.nbytes
            if size > SENT_BYTES:
                return None
    return pa.Table.from_batches(parts, read.schema.remove_metadata())
