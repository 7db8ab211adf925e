"""A table's net changes as a view of one Spark session: small ones sent along with the statement, others pulled.

A small plan that Spark's workers pull costs two Python processes, one to plan and one to read, and Spark does not know
how few rows it has. Both ways give the same rows however often Spark reads them, as long as the claim is held.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_core.client.changes import TableRead, read_split
from spark_jobs.source import pack_tickets
from spark_jobs.types import quote, spark_type

_LOCAL_BYTES = 32 << 20  # of Arrow, a table: Spark's driver holds them as rows until the statement ends


def load(spark: SparkSession, read: TableRead, view: str, url: str, token: str, local_rows: int) -> None:
    """Makes `view`. Plans of more than `local_rows` rows, or of many bytes, are pulled from the service by Spark; so
    are those without a key: rows that are pulled are refused to a statement whose claim is gone, rows sent along are
    not, and only by key is a batch that such a statement adds late the same again."""
    local = _local(read, url, token) if read.table.primary_key and read.rows <= local_rows else None
    if local is not None:
        types = from_arrow_schema(local.schema, prefer_timestamp_ntz=True)
        spark.createDataFrame(local, types).createOrReplaceTempView(view)
        return
    schema = ", ".join(f"{quote(field.name)} {spark_type(field.type)}" for field in read.schema)
    reader = spark.read.format("sluice").schema(schema).option("url", url)
    reader = reader.option("tickets", pack_tickets(read.tickets))
    if token:
        reader = reader.option("token", token)  # a name that Spark redacts
    reader.load().createOrReplaceTempView(view)


def _local(read: TableRead, url: str, token: str) -> pa.Table | None:
    """All changes of the plan, None when they are more bytes than is good for the driver."""
    parts: list[pa.RecordBatch] = []
    size = 0
    for ticket in read.tickets:
        for part in read_split(url, ticket, token=token or None):
            parts.append(part)
            size += part.nbytes
            if size > _LOCAL_BYTES:
                return None
    return pa.Table.from_batches(parts, read.schema.remove_metadata())
