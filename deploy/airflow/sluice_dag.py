"""Drains destinations of Sluice every minute, by a task each, and then makes what depends on their tables.

Airflow does not import Sluice. Its tasks run in an environment of Sluice's own, which `SLUICE_PYTHON` names:
docs/guides/airflow.md. Copy the file into Airflow's folder of DAGs, and change what comes after the tables.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task

PYTHON = os.environ.get("SLUICE_PYTHON", "/opt/sluice/bin/python")
DEFS = os.environ.get("SLUICE_DEFS", "/etc/sluice/defs")  # a defs.yaml, or a folder of */defs.yaml
DESTINATIONS = os.environ.get("SLUICE_DESTINATIONS", "example").split(",")
SECONDS = 300.0  # no batch begins after them; the next run goes on


@task.external_python(python=PYTHON, expect_airflow=False, retries=3, retry_delay=timedelta(seconds=10))
def drain(destination: str, defs: str, seconds: float, owner: str) -> dict[str, Any]:
    """Claim, apply and ack what waits. A retry has the same owner: it gives back at once what a killed try held."""
    from orchestration.draining import drain

    done = drain(destination, defs=defs, seconds=seconds, run_id=owner, on_batch=print)
    done.check()  # fails the task if a table is stopped or fails a check; the others have their rows
    return {"destination": destination, "batches": done.batches, "rows": done.rows}


@task
def marts(drained: list[dict[str, Any]]) -> int:
    """Stand for what comes after the tables: here, only the number of rows that came."""
    return sum(one["rows"] for one in drained)


@dag(
    schedule=timedelta(minutes=1),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # one drain of a destination at a time
    tags=["sluice"],
)
def sluice() -> None:
    """Run a drain of each destination, then the marts."""
    owner = "airflow {{ run_id }}"
    drains = [drain.override(task_id=f"drain_{name}")(name, DEFS, SECONDS, f"{owner} {name}") for name in DESTINATIONS]
    marts(drains)


sluice()
