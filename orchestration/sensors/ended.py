"""The sensors on runs that ended badly: what such a run still held is given back at once.

There is one pair for all destinations: a sensor of each would look for the same events. A service that does not answer
delays the others by seconds; and the sensor on its destination's backlog gives back too.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from orchestration.names import DESTINATION_TAG
from orchestration.resources import CanalResource
from orchestration.sensors.round import Connect

_SECONDS = 5.0  # for a service to answer
_INTERVAL = 30  # seconds between ticks; the sensor of a destination's backlog mostly gives back first


def ended_sensors(canals: Mapping[str, CanalResource]) -> list[dg.SensorDefinition]:
    """The sensor on failed runs and the one on cancelled runs, of these destinations."""
    known = {name: _connecting(canal) for name, canal in canals.items()}
    return [
        _ended_sensor(known, dg.DagsterRunStatus.FAILURE, "failed"),
        _ended_sensor(known, dg.DagsterRunStatus.CANCELED, "canceled"),
    ]


def _connecting(canal: CanalResource) -> Connect:
    hasty = canal.model_copy(update={"timeout_seconds": _SECONDS, "follow_seconds": _SECONDS})
    return lambda: hasty.process_config_and_initialize().connect()


def _ended_sensor(known: Mapping[str, Connect], status: dg.DagsterRunStatus, word: str) -> dg.SensorDefinition:
    def ended(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        return give_back(context, known, word)

    return dg.RunStatusSensorDefinition(
        name=f"sluice_{word}_runs",
        run_status=status,
        run_status_sensor_fn=ended,
        minimum_interval_seconds=_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Gives back what a run that drains held when it {word}.",
    )


def give_back(context: dg.RunStatusSensorContext, known: Mapping[str, Connect], word: str) -> dg.SkipReason | None:
    """Gives back what the run holds, by its own name: nothing when it was given back before."""
    run = context.dagster_run
    connect = known.get(run.tags.get(DESTINATION_TAG, ""))
    if connect is None:
        return dg.SkipReason("a run of another destination, or of none")
    with connect() as connector:
        batches = connector.rollback(owner=run.run_id, reason=f"run {run.run_id} {word}")
    context.log.info(f"gave back {batches or 'nothing'} of run {run.run_id}, which {word}")
    return None
