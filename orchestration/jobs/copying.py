"""How a job reloads a table from the source, and what it says of that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from cdc_core import config as service_config
from cdc_core.client.connector import Connector
from cdc_core.errors import ConfigError, SourceError
from cdc_core.schema.names import split_name
from orchestration.failures import failure
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from orchestration.source import CONF_VARIABLE
from spark_jobs.copy.repair import Repair
from spark_jobs.copy.result import Copied, NoSuchTable

LONG_RUN = {dg.MAX_RUNTIME_SECONDS_TAG: str(30 * 86_400)}  # tags: Dagster ends other runs after an hour
TELL_SECONDS = 10.0  # between two lines of the log


@contextmanager
def opened_repair(context: dg.OpExecutionContext, settings: Settings, connector: Connector) -> Iterator[Repair]:
    """What makes tables of the destination anew. Raises ConfigError when the run does not know the source."""
    names = settings.names
    canal: CanalResource = getattr(context.resources, names.canal)
    lake: LakeResource = getattr(context.resources, names.lake)
    instance, _ = service_config.load_instance(conf_of(lake), settings.destination)
    with lake.open(connector, canal.token) as spark_lake:
        yield Repair(connector, instance, spark_lake.lake, spark_lake.sessions, context.run_id)


def make_anew(context: dg.OpExecutionContext, repair: Repair, table: str) -> Copied:
    """Raises what `Repair.table` raises, and SourceError for a table that the source does not have."""
    found = repair.table(*named(table), progress=_teller(context, table))
    if isinstance(found, NoSuchTable):
        raise SourceError(
            f"the source has no table {table} at {found.place.low}; nothing was written",
            place=table,
            hint="Correct the name. A table that was dropped keeps its rows in the lake, and its stop.",
        )
    context.log.info(f"{table} reloaded: {found.rows} rows as of {found.place.low}; its stop is lifted")
    return found


def named(table: str) -> tuple[str, str]:
    """Database and table. Raises ConfigError."""
    try:
        return split_name(table)
    except ValueError as error:
        raise ConfigError(str(error), place="ops.config", hint="Name the table as database.table.") from error


def named_asset(settings: Settings, table: str) -> dg.AssetKey:
    """The asset of a table. Raises Failure for what is no table's name."""
    try:
        named(table)
    except ConfigError as error:
        raise failure(error) from error
    return settings.names.delta(table)


def copy_facts(found: Copied) -> dict[str, Any]:
    """Of the asset's materialization."""
    place = found.place
    facts = {"rows": found.rows, "delta_version": found.delta_version, "copied": True, "position": str(place.low)}
    return facts if place.exact else facts | {"position_high": str(place.high)}


def conf_of(lake: LakeResource) -> Path:
    if lake.conf is None:
        hint = f"Set conf in defs.yaml, or {CONF_VARIABLE}, to the service's configuration directory."
        raise ConfigError("how to reach the source is unknown", place="defs.yaml", hint=hint)
    return Path(lake.conf)


def _teller(
    context: dg.OpExecutionContext, table: str, clock: Callable[[], float] = time.monotonic
) -> Callable[[int], None]:
    """Puts the rows so far into the log, every few seconds."""
    told = clock()

    def tell(rows: int) -> None:
        nonlocal told
        if clock() - told >= TELL_SECONDS:
            told = clock()
            context.log.info(f"{table}: {rows} rows so far")

    return tell
