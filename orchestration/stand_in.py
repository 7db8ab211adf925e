"""A sensor in the place of a destination that cannot be loaded: an operator looks there."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import dagster as dg

from cdc_core.errors import ConfigError
from orchestration.failures import TablesUnknown
from orchestration.stack.dagster import BROKEN, LOADABLE, WAITING


def stand_in(name: str, error: ConfigError, load: Callable[[], object]) -> dg.Definitions:
    """Returns a sensor whose every tick fails with the error. Where the tables are not known yet, ticks are skipped
    with what `load` raises, and say when it raises nothing: Dagster does not reload a code location by itself."""
    logging.getLogger("dagster").error("%s", error)
    waits = isinstance(error, TablesUnknown)

    def tick(_context: dg.SensorEvaluationContext) -> dg.SkipReason:
        if not waits:
            raise error from None  # the cause shows the file's values
        try:
            load()
        except ConfigError as still:
            return dg.SkipReason(str(still))
        return dg.SkipReason(LOADABLE)

    sensor = dg.SensorDefinition(
        name=f"{WAITING if waits else BROKEN}{re.sub(r'[^A-Za-z0-9_]', '_', name)}",
        evaluation_fn=tick,
        minimum_interval_seconds=5 if waits else 30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=str(error),
    )
    return dg.Definitions(sensors=[sensor])
