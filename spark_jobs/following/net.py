"""A part of a log as Spark reads it: its bounds, its definition, its range of keys."""

from __future__ import annotations

import pyarrow as pa

from cdc_core.client.changes import PlanCounts, TableRead
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import TRUNCATE, VERSION
from spark_jobs.changes.net import within
from spark_jobs.following.files import key_bounds, only_inserted
from spark_jobs.following.pending import Part, Pending
from spark_jobs.lake.types import OP


def bounds(part: Part) -> str:
    """Returns the condition for the rows of a part."""
    return within(part.epoch, part.after, part.upto)


def last_emptying(log: str, part: Part) -> str:
    """Returns a query for the version of the part's last entry that emptied the table."""
    return f"SELECT max({VERSION}) FROM {log} WHERE {bounds(part)} AND {OP} = '{TRUNCATE}'"  # noqa: S608


def read_of(schema: TableSchema, found: Pending) -> TableRead:
    """Returns the part's rows as the service would describe them."""
    rows, key = found.part.rows, schema.primary_key
    part = found.part
    low, high = (
        key_bounds(found.log.table, part.epoch, part.after, part.upto, key[0]) if len(key) == 1 else (None, None)
    )
    only = not key and only_inserted(found.log.table, part.epoch, part.after, part.upto)
    counts = PlanCounts(rows=rows, raw_updates=rows, min_key=low, max_key=high, insert_only=only)
    return TableRead(pa.schema(arrow_fields(schema)), schema, counts, rows, ())
