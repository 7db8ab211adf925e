"""The job that gives claims back by hand."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

import dagster as dg
from pydantic import Field

from cdc_core.client.connector import Connector
from cdc_core.errors import SessionError
from orchestration import processes
from orchestration.jobs.order import Order, traced
from orchestration.resources import CanalResource
from orchestration.settings import Settings


class Rollback(Order):
    """What to give back."""

    batch_id: int | None = Field(None, description="Give back what its claimer holds; without it, all claims.")


def rollback_job(settings: Settings) -> dg.JobDefinition:
    """Gives claims back. It shares the drain's pool, so it waits for a run that is at work."""
    names = settings.names

    @dg.op(name=f"rollback_{names.safe}_op", pool=names.asset, required_resource_keys={names.canal})
    def give_back(context: dg.OpExecutionContext, config: Rollback) -> None:
        canal: CanalResource = getattr(context.resources, names.canal)
        processes.note(context)
        with traced(context, names.store, "rollback", config.reason) as found, canal.connect() as connector:
            owner = None if config.batch_id is None else _owner(connector, config.batch_id)
            batches = connector.rollback(owner=owner, reason=config.reason)
            found["batches"] = ", ".join(map(str, batches)) or "nothing was claimed"
        context.log.info(f"given back: {found['batches']}")

    @dg.job(
        name=f"rollback_{names.safe}",
        config=Rollback.form(f"rollback_{names.safe}_op"),
        tags={"cdc/rollback": settings.destination, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Give claimed batches of {settings.destination} back to the store; they are claimed again. "
        "This is safe: a batch that was merged before is recognised by its version.",
    )
    def rollback() -> None:
        give_back()

    return rollback


def _owner(connector: Connector, batch_id: int) -> str:
    """Who holds a batch. Raises SessionError when nobody does."""
    claims = connector.client_status().claims
    for claim in claims:
        if claim.batch_id == batch_id:
            return claim.owner
    raise SessionError(
        f"batch {batch_id} is not claimed",
        place=connector.destination,
        hint=f"Claimed now: {', '.join(str(claim.batch_id) for claim in claims) or 'nothing'}.",
    )
