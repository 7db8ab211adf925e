"""Whether a table's policy lets it follow a statement."""

from __future__ import annotations

from cdc_core.errors import TableStopped
from cdc_core.rules.claims import HIDING
from cdc_core.schema.sql_text import shown
from spark_jobs.apply.ddl.standing import DdlTarget
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.lake.policies import Changed
from spark_jobs.lake.remedy import copy_hint

PROPOSAL = "a change waits for approval"  # prefix of the reason of such a stop
TAKES_DELETED = "a copy would remove its deleted rows, so it waits for approval"
_EXCEPTION = "the source changed the table, and its policy is exception"


def check_consent(at: DdlTarget, step: Step) -> None:
    """Raises TableStopped if the policy is `exception` or `ask`. Call it when the statement would change the table."""
    destination, text = at.batch.claim.destination, f"{shown(step.ddl.text, 500)} ({step.ddl.position})"
    match at.batch.policies.of(at.table).changed:
        case Changed.EXCEPTION:
            message = f"{_EXCEPTION}: {text}"
            raise TableStopped(message, place=at.table, hint=copy_hint(destination, at.table))
        case Changed.ASK:
            hint = f"Approve it, which copies the present rows: `sluice ddl approve {destination} {at.table}`."
            raise TableStopped(f"{PROPOSAL}: {text}", place=at.table, hint=hint)


def waits_for_consent(reason: str) -> bool:
    """Whether a table that is stopped for this reason is left to a person: by its policy, for its deleted rows, or
    because it could show what a rule hides."""
    return reason.startswith((PROPOSAL, TAKES_DELETED, _EXCEPTION, HIDING))
