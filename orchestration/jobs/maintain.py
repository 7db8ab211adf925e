"""The job that keeps tables of the lake healthy while the stream goes on, and its schedule.

It may be killed and run again: what is done stays.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Callable
from typing import Any

import dagster as dg
from pydantic import Field

from cdc_core.errors import SluiceError
from cdc_core.schema.names import split_name
from orchestration import processes
from orchestration.failures import failure
from orchestration.freshness import parse_freshness
from orchestration.jobs.copying import LONG_RUN, named
from orchestration.jobs.order import Order, order_facts, traced
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from spark_jobs.following.pending import Follows
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.result import Maintained
from spark_jobs.maintain.upkeep import Upkeep
from spark_jobs.session import Sessions

_ACTION = "maintain"


class Maintenance(Order):
    """Which tables to look after."""

    tables: list[str] = Field([], description="database.table, one or more; empty: all that are captured.")


def maintain_job(settings: Settings) -> dg.JobDefinition:
    """It does not share the drain's pool: it holds a claim while it rewrites files of a table, between two batches."""
    names = settings.names

    @dg.op(
        name=f"maintain_{names.safe}_op",
        pool=f"maintain_{names.safe}",
        required_resource_keys={names.canal, names.lake},
    )
    def maintain_tables(context: dg.OpExecutionContext, config: Maintenance) -> None:
        processes.note(context)
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        try:
            order_facts(context, _ACTION, config.reason)
            for table in config.tables:
                named(table)
            with canal.connect() as connector, Sessions(lake.remote, lake.token or "", lake.root) as sessions:
                upkeep = Upkeep(connector, Lake(lake.root), sessions, _quiet(settings), settings.stays)
                tables = dict.fromkeys(config.tables or [one.name for one in connector.tables()])
                outcomes = {table: _one(context, settings, upkeep, table, config.reason) for table in tables}
                follows = Follows(upkeep.lake, settings.destination, settings.client_id)
                logs = [table for table in follows.lake.logs(settings.destination) if _asked(table, config.tables)]
                for table in logs:
                    outcomes[f"{table}__log"] = _log(context, settings, LogUpkeep(follows), table, config.reason)
                    if upkeep.has_history(table):
                        outcomes[f"{table}__history"] = _history(context, settings, upkeep, table, config.reason)
        except SluiceError as error:
            raise failure(error) from error
        _sum_up(context, outcomes)

    @dg.job(
        name=f"maintain_{names.safe}",
        config=Maintenance.form(f"maintain_{names.safe}_op"),
        tags={"cdc/maintain": settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Rewrite small files of the tables of {settings.destination} as large ones, and delete files that "
        "no version of the last week needs, and old rows of change logs (log_retention), while the stream goes on.",
    )
    def maintain() -> None:
        maintain_tables()

    return maintain


def maintain_schedule(settings: Settings, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """As `maintain` in defs.yaml says."""
    config = {"tables": [], "reason": "by the schedule of `maintain`"}
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=settings.maintain,
        run_config={"ops": {f"{job.name}_op": {"config": config}}},
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def _quiet(settings: Settings) -> float:
    """How long nothing waits until no run lingers any more; one that waits for more rows does so without a claim."""
    waits = min(0.0 if settings.stays else parse_freshness(settings.freshness).seconds, settings.limits.max_seconds)
    return 20 + settings.linger_seconds + waits


def _asked(table: str, tables: list[str]) -> bool:
    return not tables or table in tables


def _log(context: dg.OpExecutionContext, settings: Settings, upkeep: LogUpkeep, table: str, reason: str) -> Maintained:
    """Looks after the change log of a table."""
    alone = settings.modes.of(table) is Mode.APPEND
    kept = Retention(settings.logs_kept.of(table, alone=alone), alone)
    return _told(context, settings.names.log(table), f"{table}__log", reason, lambda: upkeep.log(table, kept))


def _history(context: dg.OpExecutionContext, settings: Settings, upkeep: Upkeep, table: str, reason: str) -> Maintained:
    """Looks after the history of a table."""
    name = f"{table}__history"
    return _told(context, settings.names.history(table), name, reason, lambda: upkeep.history(table))


def _one(context: dg.OpExecutionContext, settings: Settings, upkeep: Upkeep, table: str, reason: str) -> Maintained:
    """Looks after a table."""
    return _told(context, settings.names.delta(table), table, reason, lambda: upkeep.table(*split_name(table)))


def _told(
    context: dg.OpExecutionContext, key: dg.AssetKey, table: str, reason: str, work: Callable[[], Maintained]
) -> Maintained:
    """What became of it. A failure is told in its history and in the log, and does not end the run."""
    try:
        with traced(context, key, _ACTION, reason) as findings:
            found = work()
            findings |= {name: value for name, value in found.to_dict().items() if name != "table"}
    except dg.Failure as error:
        context.log.error(f"{table} was not maintained: {error.description}")
        return Maintained(table, failed=str(error.description))
    except Exception as error:  # whatever it is, the next table may do well
        context.log.exception(f"{table} was not maintained")
        return Maintained(table, failed=f"{type(error).__name__}: {error}"[:1000])
    context.log.info(f"{table}: {found.text}")
    return found


def _sum_up(context: dg.OpExecutionContext, outcomes: dict[str, Maintained]) -> None:
    """The summary as the run's metadata. Raises Failure when a table could not be looked after."""
    failed = [table for table, outcome in outcomes.items() if outcome.failed]
    told = {table: outcome.text for table, outcome in outcomes.items()}
    summary: dict[str, Any] = {"files_deleted": sum(one.deleted for one in outcomes.values()), "tables": told}
    if failed:
        text = f"{len(failed)} of {len(outcomes)} tables were not maintained: {', '.join(failed)}"
        raise dg.Failure(text, metadata=summary | {"failed": len(failed)}, allow_retries=False)
    context.add_output_metadata(summary)
