"""Writes many small tables in one Spark job: each of its tasks commits some tables by `small_table`.

A statement of Spark costs 1 to 4 seconds and a second of CPU, whatever it writes. Here a table costs a task some
hundredths. An error decides nothing: a table without a commit of its order is written by a statement of Spark, whose
errors are the table's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import structlog
from pyspark.errors import PySparkException

from cdc_core.errors import SluiceError
from spark_jobs.lake.failures import raised_by_task
from spark_jobs.session import Sessions
from spark_jobs.write.order import Order, Outcome
from spark_jobs.write.small_table import OUTCOME_DDL, written_by_task

log = structlog.get_logger(__name__)


def write_all(sessions: Sessions, orders: Sequence[Order], tasks: int) -> list[Outcome]:
    """Returns the outcome of each order. If the job fails, no order is known to be written, but some may be."""
    try:
        with sessions.take() as spark:
            count = max(1, min(tasks, len(orders)))
            places = spark.range(0, len(orders), 1, count)
            found = places.mapInArrow(partial(written_by_task, tuple(orders)), OUTCOME_DDL).toArrow().sort_by("place")
    except (PySparkException, SluiceError) as error:
        why = raised_by_task(error)
        log.warning("the job of small tables failed: each table gets a separate statement", tables=len(orders), why=why)
        return [Outcome(why=why)] * len(orders)
    return [Outcome(**row) for row in found.drop_columns(["place"]).to_pylist()]
