"""The job of small tables in the process of a test: what Spark's tasks would write, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_jobs.session import Sessions
from spark_jobs.write.order import Order, Outcome
from spark_jobs.write.small_table import written

NO_SPARK = Sessions("sc://127.0.0.1:1")


def run_job_here(patch: pytest.MonkeyPatch) -> None:
    """Has the tables of a batch written here, one after the other. What a task raises is raised."""

    def write_all(_sessions: Sessions, orders: Sequence[Order], _tasks: int) -> list[Outcome]:
        return [written(order) for order in orders]

    patch.setattr("spark_jobs.apply.together.write_all", write_all)
