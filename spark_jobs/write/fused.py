"""Many small tables in one Spark job: its tasks take some tables each and commit them by `small_table`.

A statement of Spark costs 1 to 4 seconds and a second of CPU, whatever it writes. Here a table costs a task some
hundredths. Nothing is decided by what goes wrong: a table without a commit of its order goes by Spark's own statement,
whose errors are the table's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

from spark_jobs.lake.failures import first_line
from spark_jobs.write.order import Order, Outcome
from spark_jobs.write.small_table import written

_PANIC = "PanicException"  # what delta-rs raises where its own code fails
_RESULT = pa.schema(
    [("place", pa.int64())]
    + [(name, pa.int64()) for name in ("version", "inserted", "updated", "deleted")]
    + [("why", pa.string())]
)
_DDL = ", ".join(f"{field.name} {'string' if field.name == 'why' else 'bigint'}" for field in _RESULT)


def write_all(spark: SparkSession, orders: Sequence[Order], tasks: int) -> list[Outcome]:
    """The outcome of each order. Raises what Spark raises: some of the orders may be written then."""
    count = max(1, min(tasks, len(orders)))
    places = spark.range(0, len(orders), 1, count)
    found = places.mapInArrow(partial(_written, tuple(orders)), _DDL).toArrow().sort_by("place")
    rows = found.drop_columns(["place"]).to_pylist()
    return [Outcome(**row) for row in rows]


def _written(orders: Sequence[Order], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task of Spark: the outcomes of the orders at these places."""
    for batch in batches:
        for place in batch.column(0).to_pylist():
            row = {"place": place, **asdict(_tried(orders[place]))}
            yield pa.RecordBatch.from_pylist([row], schema=_RESULT)


def _tried(order: Order) -> Outcome:
    try:
        return written(order)
    except BaseException as error:  # Spark's statement tries again, and says what is wrong
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        return Outcome(why=f"{type(error).__name__}: {first_line(error)}")
