"""The job that pauses a table, or a whole destination.

A paused table is a stopped one: its changes are acked without it, so it does not hold the others back, and it gets them
from the source when it is resumed. A paused destination reads nothing; its cursor stays. Both may be done twice.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from typing import Any

import dagster as dg
from pydantic import Field

from cdc_core.client.connector import Connector
from cdc_core.errors import ConfigError, SessionError
from orchestration import processes
from orchestration.first_rows import PAUSED
from orchestration.jobs.copying import named_asset
from orchestration.jobs.order import Order, traced
from orchestration.resources import CanalResource
from orchestration.settings import Settings

WHOLE = "*"


class Pause(Order):
    """What to pause."""

    table: str = Field(description="database.table, or '*', in quotes, for the whole destination.")


def pause_job(settings: Settings) -> dg.JobDefinition:
    """Pauses a table or the destination. It shares the drain's pool: no run applies the table's rows meanwhile."""
    names = settings.names

    @dg.op(name=f"pause_{names.safe}_op", pool=names.asset, required_resource_keys={names.canal})
    def pause_op(context: dg.OpExecutionContext, config: Pause) -> None:
        canal: CanalResource = getattr(context.resources, names.canal)
        processes.note(context)
        key = asset_of(settings, config.table)
        with traced(context, key, "pause", config.reason) as found, canal.connect() as connector:
            if config.table == WHOLE:
                found |= {"servers": connector.by_hand.stop()}
            else:
                found |= pause_table(connector, config.table, config.reason, f"resume_{names.safe}")
        context.log.info(f"{config.table} is paused; the job resume_{names.safe} lets it go on")

    @dg.job(
        name=f"pause_{names.safe}",
        config=Pause.form(f"pause_{names.safe}_op"),
        tags={"cdc/pause": settings.destination, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Pause a table of {settings.destination}, or all of it. A paused table stays as it is while the "
        "others go on. No change is lost: if some came meanwhile, resume copies the table from the source. A paused "
        "destination reads nothing, and its cursor stays: resume it before the source purges its binlogs. A restart of "
        "the service resumes it too.",
    )
    def pause() -> None:
        pause_op()

    return pause


def asset_of(settings: Settings, table: str) -> dg.AssetKey:
    """Whose history tells what is done. Raises Failure for what is no table's name."""
    return settings.names.store if table == WHOLE else named_asset(settings, table)


def pause_table(connector: Connector, table: str, reason: str, resume: str) -> dict[str, Any]:
    """Stops one table from the client's cursor on, and returns the findings. A table that is stopped stays so, with its
    reason. `resume` is the name of the job that lets it go on.

    Raises ConfigError for a table that is not captured.
    """
    client = connector.subscribe()
    for stop in client.stopped:
        if stop.table == table:
            return {"changed": False, "stopped": stop.reason, "position": str(stop.position)}
    check_captured(connector, table)
    if client.cursor is None:
        hint = "Run the job again when the destination has read something."
        raise SessionError("the client has no cursor yet", place=connector.destination, hint=hint)
    hint = f"The job {resume} lets it go on; it copies the table from the source if changes came meanwhile."
    connector.stop_table(table, reason=f"{PAUSED}{reason}", hint=hint, position=client.cursor)
    return {"changed": True, "position": str(client.cursor)}


def check_captured(connector: Connector, table: str) -> None:
    """Raises ConfigError for a table that the service does not capture."""
    captured = sorted(schema.name for schema in connector.tables())
    if table not in captured:
        shown = ", ".join(captured[:20]) + (", ..." if len(captured) > 20 else "")
        raise ConfigError(f"{table} is not captured", place="ops.config.table", hint=f"Captured: {shown or 'none'}.")
