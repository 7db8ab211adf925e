"""What Dagster loads: every destination of the folder that SLUICE_DEFS names, `orchestration/defs` without it."""

from __future__ import annotations

import dagster as dg

from orchestration.loading import defs_folder, load_folder


@dg.definitions
def defs() -> dg.Definitions:
    return load_folder(defs_folder())
