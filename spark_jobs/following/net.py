"""The SQL of a part of a log: the last row of each key. Pure functions, but for a look at a log's statistics.

The bounds of epoch and version are constants, so that Spark leaves files out by their statistics.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cdc_core.client.changes import PlanCounts, TableRead
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.apply.last_changes import image_op
from spark_jobs.following.files import key_bounds
from spark_jobs.following.pending import Part, Pending
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import OP
from spark_jobs.landing.columns import EPOCH, NTH, TRUNCATE, VERSION

_RANK = "_sluice_rank"


def bounds(part: Part) -> str:
    """The condition for the rows of a part."""
    after = f" AND {VERSION} > {part.after:d}" if part.after is not None else ""
    return f"{EPOCH} = {part.epoch:d}{after} AND {VERSION} <= {part.upto:d}"


def last_rows(log: str, where: str, columns: Sequence[str], key: Sequence[str], rank: str = "") -> str:
    """A query in brackets: of each key of the log's rows that `where` names, the columns of the last row, and `OP`: 1
    for a row that is there now, 2 for one that is gone. `log` is what to read from; `rank` orders the rows."""
    listed, keys = ", ".join(map(quote, columns)), ", ".join(map(quote, key))
    order = rank or f"{VERSION} DESC, {NTH} DESC"
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS {_RANK} FROM {log}"  # noqa: S608
    return f"(SELECT {listed}, {image_op(key)} AS {OP} FROM ({ranked} WHERE {where}) WHERE {_RANK} = 1)"  # noqa: S608


def last_emptying(log: str, part: Part) -> str:
    """A query for the version of the part's last entry by which all rows go."""
    return f"SELECT max({VERSION}) FROM {log} WHERE {bounds(part)} AND {OP} = '{TRUNCATE}'"  # noqa: S608


def read_of(schema: TableSchema, found: Pending) -> TableRead:
    """The log's rows as the service would describe them."""
    rows, key = found.part.rows, schema.primary_key
    part = found.part
    low, high = key_bounds(found.log, part.epoch, part.after, part.upto, key[0]) if len(key) == 1 else (None, None)
    counts = PlanCounts(rows=rows, raw_updates=rows, min_key=low, max_key=high)
    return TableRead(pa.schema(arrow_fields(schema)), schema, counts, rows, ())
