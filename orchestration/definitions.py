"""What Dagster loads: every destination of the folder that SLUICE_DEFS names, or else of `orchestration/defs`; and the
sensors that all of them share."""

from __future__ import annotations

import dagster as dg

from orchestration.internals import once_a_load
from orchestration.loading import defs_folder, load_for_process
from orchestration.resources import CanalResource
from orchestration.sensors.ended import ended_sensors
from orchestration.sensors.old_runs import old_runs_sensor


@dg.definitions
def defs() -> dg.Definitions:
    folder = defs_folder()
    return once_a_load(folder, lambda: load_for_process(folder, _with_sensors))


def _with_sensors(destinations: dg.Definitions) -> dg.Definitions:
    resources = (destinations.resources or {}).values()
    canals = {one.destination: one for one in resources if isinstance(one, CanalResource)}
    return dg.Definitions.merge(destinations, dg.Definitions(sensors=[old_runs_sensor(), *ended_sensors(canals)]))
