"""The job that lets a paused or stopped table go on, or a paused destination.

A table whose changes were acked without it is copied from the source first, which lifts its stop in the end. Where none
were, the stop is lifted and the changes come. A killed run leaves the table stopped, and may be run again.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

import dagster as dg
from pydantic import Field

from cdc_core.client.connector import Connector
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import SessionError
from orchestration import processes
from orchestration.jobs.copying import LONG_RUN, copy_facts, make_anew, opened_repair
from orchestration.jobs.order import Order, traced
from orchestration.jobs.pause import WHOLE, asset_of, check_captured
from orchestration.resources import CanalResource
from orchestration.settings import Settings
from spark_jobs.copy.result import Copied


class Resume(Order):
    """What goes on."""

    table: str = Field(
        description="database.table, or '*', in quotes, for the whole destination; its stopped tables stay stopped."
    )


def resume_job(settings: Settings) -> dg.JobDefinition:
    """Lifts a stop, after a copy where one is needed, or starts the destination. It shares the drain's pool."""
    names = settings.names

    @dg.op(name=f"resume_{names.safe}_op", pool=names.asset, required_resource_keys={names.canal, names.lake})
    def resume_op(context: dg.OpExecutionContext, config: Resume) -> None:
        canal: CanalResource = getattr(context.resources, names.canal)
        processes.note(context)
        key, copied = asset_of(settings, config.table), None
        with traced(context, key, "resume", config.reason) as found, canal.connect() as connector:
            if config.table == WHOLE:
                found |= {"servers": connector.by_hand.start()}
            elif (stop := lift(connector, config.table)) is None:
                found |= {"copied": False}
            else:
                context.log.info(f"changes of {config.table} up to {stop.passed} passed: it is copied from the source")
                copied = _copied(context, settings, connector, config.table)
                found |= copy_facts(copied)
        if copied is not None:
            context.log_event(dg.AssetMaterialization(key, metadata=copy_facts(copied)))
        context.log.info(f"{config.table} goes on")

    @dg.job(
        name=f"resume_{names.safe}",
        config=Resume.form(f"resume_{names.safe}_op"),
        tags={"cdc/resume": settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Let a paused or stopped table of {settings.destination} go on, or all of it. If changes of the "
        "table were acked meanwhile, it is copied from the source first, as by the job rematerialize.",
    )
    def resume() -> None:
        resume_op()

    return resume


def lift(connector: Connector, table: str) -> StoppedTable | None:
    """Lifts a table's stop. Returns the stop where only a copy lifts it, None where the table goes on.

    Raises SessionError when somebody has changes of it claimed, or reads a snapshot of it; ConfigError for a table that
    is neither stopped nor captured.
    """
    client = connector.subscribe()
    if not any(stop.table == table for stop in client.stopped):
        check_captured(connector, table)
        return None
    if any(snapshot.table == table and not snapshot.broken for snapshot in client.snapshots):
        hint = "The snapshot lifts the stop when it is in the lake. To do without it, cancel it and run this job again."
        raise SessionError("a snapshot of the table is open", place=table, hint=hint)
    try:
        connector.lift_stop(table)
        return None
    except SessionError:
        for stop in connector.client_status().stopped:
            if stop.table == table and stop.passed is not None:
                return stop
        raise


def _copied(context: dg.OpExecutionContext, settings: Settings, connector: Connector, table: str) -> Copied:
    with opened_repair(context, settings, connector) as repair:
        return make_anew(context, repair, table)
