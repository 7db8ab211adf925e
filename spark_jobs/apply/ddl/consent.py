"""Whether a table's policy lets it follow a statement."""

from __future__ import annotations

from cdc_core.errors import TableStopped
from cdc_core.schema.sql_text import shown
from spark_jobs.apply.ddl.standing import DdlTarget
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.lake.consent import EXCEPTION, PROPOSAL
from spark_jobs.lake.policies import Changed
from spark_jobs.lake.remedy import copy_hint


def check_consent(at: DdlTarget, step: Step) -> None:
    """Raises TableStopped if the policy is `exception` or `ask`. Call it when the statement would change the table."""
    destination, text = at.batch.claim.destination, f"{shown(step.ddl.text, 500)} ({step.ddl.position})"
    match at.batch.policies.of(at.table).changed:
        case Changed.EXCEPTION:
            message = f"{EXCEPTION}: {text}"
            raise TableStopped(message, place=at.table, hint=copy_hint(destination, at.table))
        case Changed.ASK:
            hint = (
                f"Approve it, which copies the present rows: `sluice ddl approve {destination} {at.table}`. "
                f"Or reject it: `sluice ddl reject {destination} {at.table}`."
            )
            raise TableStopped(f"{PROPOSAL}: {text}", place=at.table, hint=hint)
