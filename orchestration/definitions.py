"""What Dagster loads: every destination of the folder that SLUICE_DEFS names, `orchestration/defs` without it; and what
keeps Dagster's own storage small."""

from __future__ import annotations

import dagster as dg

from orchestration.loading import defs_folder, load_folder
from orchestration.sensors.old_runs import old_runs_sensor


@dg.definitions
def defs() -> dg.Definitions:
    return dg.Definitions.merge(load_folder(defs_folder()), dg.Definitions(sensors=[old_runs_sensor()]))
