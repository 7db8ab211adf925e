"""The sensors on runs that ended badly: what such a run still held is given back at once."""

from __future__ import annotations

import dagster as dg

from orchestration.names import DESTINATION_TAG
from orchestration.resources import CanalResource
from orchestration.settings import Settings


def ended_sensors(settings: Settings) -> list[dg.SensorDefinition]:
    """The sensor on failed runs and the one on cancelled runs."""
    return [
        _ended_sensor(settings, dg.DagsterRunStatus.FAILURE, "failed"),
        _ended_sensor(settings, dg.DagsterRunStatus.CANCELED, "canceled"),
    ]


def _ended_sensor(settings: Settings, status: dg.DagsterRunStatus, word: str) -> dg.SensorDefinition:
    names = settings.names

    def ended(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        return give_back(context, settings, word)

    return dg.RunStatusSensorDefinition(
        name=f"cdc_{names.safe}_{word}",
        run_status=status,
        run_status_sensor_fn=ended,
        minimum_interval_seconds=settings.trigger.interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={names.canal},
        description=f"Gives back what a run of {settings.destination} held when it {word}.",
    )


def give_back(context: dg.RunStatusSensorContext, settings: Settings, word: str) -> dg.SkipReason | None:
    """Gives back what the run holds, by its own name: nothing when it was given back before."""
    run = context.dagster_run
    if run.tags.get(DESTINATION_TAG) != settings.destination:
        return dg.SkipReason("a run of another destination, or of none")
    canal: CanalResource = getattr(context.resources, settings.names.canal)
    with canal.connect() as connector:
        batches = connector.rollback(owner=run.run_id, reason=f"run {run.run_id} {word}")
    context.log.info(f"gave back {batches or 'nothing'} of run {run.run_id}, which {word}")
    return None
