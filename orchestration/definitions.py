"""What Dagster loads: every destination of the folder that SLUICE_DEFS names, `orchestration/defs` without it; and the
sensors that are there once for all of them."""

from __future__ import annotations

import dagster as dg

from orchestration.loading import defs_folder, load_folder
from orchestration.resources import CanalResource
from orchestration.sensors.ended import ended_sensors
from orchestration.sensors.old_runs import old_runs_sensor


@dg.definitions
def defs() -> dg.Definitions:
    destinations = load_folder(defs_folder())
    resources = (destinations.resources or {}).values()
    canals = {one.destination: one for one in resources if isinstance(one, CanalResource)}
    return dg.Definitions.merge(destinations, dg.Definitions(sensors=[old_runs_sensor(), *ended_sensors(canals)]))
