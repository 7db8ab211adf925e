"""Jobs beside the drain itself: giving claims back by hand."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field

from cdc_core.client.connector import Connector
from cdc_core.errors import SessionError, SluiceError
from orchestration.metadata import failure
from orchestration.resources import CanalResource
from orchestration.settings import Settings


class Rollback(dg.Config):
    """What to give back."""

    batch_id: int | None = Field(None, description="What the claimer of this batch holds; left out: all that is held.")
    reason: str = Field("asked for in Dagster", description="Kept in the service's log.")


def drain_job(settings: Settings, asset: dg.AssetsDefinition) -> UnresolvedAssetJobDefinition:
    """The job that sensor and schedule start: one process, one Spark session pool."""
    return dg.define_asset_job(
        settings.names.job,
        selection=dg.AssetSelection.assets(*asset.keys),
        executor_def=dg.in_process_executor,
        tags=settings.names.run_tags,
        description=f"Drain what waits at {settings.destination}: claim, merge, check, ack, batch after batch.",
    )


def rollback_job(settings: Settings) -> dg.JobDefinition:
    """Gives claims back. It shares the drain's pool, so that it waits for a run that is at work."""
    names = settings.names

    @dg.op(name=f"rollback_{names.safe}_op", pool=names.asset, required_resource_keys={names.canal})
    def give_back(context: dg.OpExecutionContext, config: Rollback) -> None:
        canal: CanalResource = getattr(context.resources, names.canal)
        try:
            with canal.connect() as connector:
                owner = None if config.batch_id is None else _owner(connector, config.batch_id)
                given = connector.rollback(owner=owner, reason=config.reason)
        except SluiceError as error:
            raise failure(error) from error
        context.log.info(f"given back: {', '.join(map(str, given)) or 'nothing was claimed'}")

    @dg.job(
        name=f"rollback_{names.safe}",
        tags={"cdc/rollback": settings.destination},
        executor_def=dg.in_process_executor,
        description=f"Give claimed batches of {settings.destination} back to the store; they are claimed again. Safe: "
        "a batch that was merged before is recognised by its version.",
    )
    def rollback() -> None:
        give_back()

    return rollback


def _owner(connector: Connector, batch_id: int) -> str:
    claims = connector.client_state()["claims"]
    for claim in claims:
        if claim["batch_id"] == batch_id:
            return str(claim["owner"])
    raise SessionError(
        f"batch {batch_id} is not claimed",
        place=connector.destination,
        hint=f"Claimed now: {', '.join(str(claim['batch_id']) for claim in claims) or 'nothing'}.",
    )
