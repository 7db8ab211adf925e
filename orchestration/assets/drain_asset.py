"""The Delta tables of one destination as one multi-asset, and the job that drains them.

Claim, merge, checks and ack of a batch are one step of all tables, whatever is selected. A selection decides only what
Dagster plans. The job selects no asset, so it plans nothing: its runs have events of the tables and checks that change,
which Dagster shows with their assets as those of a planned run.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import dagster as dg

from cdc_core.errors import (
    CursorError,
    LakeError,
    RangeGone,
    RunsElsewhere,
    RunsNowhere,
    ServiceUnavailable,
    SessionError,
    SluiceError,
    SourceUnavailable,
)
from orchestration import processes
from orchestration.assets import checks
from orchestration.assets.drain import Drain
from orchestration.assets.landed import LandedTables, log_spec
from orchestration.assets.lineage import delta_spec
from orchestration.failures import failure
from orchestration.first_rows import FirstRows
from orchestration.jobs.routine import Work, routine_job
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Limits, Settings

_WORTH_A_RETRY = (
    ServiceUnavailable,
    SourceUnavailable,
    CursorError,
    LakeError,
    RangeGone,
    RunsElsewhere,
    RunsNowhere,
    SessionError,
)
MAX_RETRIES = 2
RETRY_SECONDS = 5.0  # before the first; twice as long before the next


def delta_asset(settings: Settings, tables: LandedTables) -> dg.AssetsDefinition:
    """The Delta tables of one destination, drained together."""
    names, merged, logs = settings.names, tables.merged, tables.logs
    does = "lands and merges" if logs and merged else "lands" if logs else "merges"
    work = _work(settings, tables)

    @dg.multi_asset(
        name=names.asset,
        specs=[
            *(delta_spec(settings, table, tables.schemas[table]) for table in merged),
            *(log_spec(settings, table) for table in logs),
        ],
        check_specs=checks.check_specs(settings, merged, logs),
        can_subset=True,
        config_schema=config_schema(Limits, dict(settings.limits)),
        required_resource_keys={names.canal, names.lake},
        pool=names.asset,
        description=f"Claims the backlog of {settings.destination} and {does} it, batch after batch.",
    )
    def drain(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckResult]:
        yield from work(context.op_execution_context, context.selected_asset_check_keys)

    return drain


def drain_job(settings: Settings, tables: LandedTables) -> dg.JobDefinition:
    """Return the job that the sensor or the schedule starts."""
    names = settings.names
    return routine_job(
        names.job,
        names.asset,
        {names.canal, names.lake},
        config_schema(Limits, dict(settings.limits)),
        names.run_tags,
        f"Drain the backlog of {settings.destination}: claim, merge, check, ack, batch after batch.",
        _work(settings, tables),
    )


def _work(settings: Settings, tables: LandedTables) -> Work:
    """Return what drains the destination."""
    names, merged, logs = settings.names, tables.merged, tables.logs

    def work(context: dg.OpExecutionContext, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        context.instance.add_run_tags(context.run_id, names.run_tags | processes.tag(context.run_id))
        limits = Limits(**context.op_config)
        try:
            with canal.connect() as connector, lake.open(connector, canal.token) as spark_lake:
                begins = settings.snapshot != "never" and lake.conf is not None
                first = FirstRows(connector, lake.has) if begins else None
                drain = Drain(
                    context, names, merged, limits, connector, spark_lake, first=first, logs=logs, selected=selected
                )
                yield from drain.run()
        except (dg.Failure, dg.DagsterError):
            raise
        except Exception as error:
            raise _retry_or_failure(error, context.retry_number) from error

    return work


def _retry_or_failure(error: Exception, tried: int) -> Exception:
    """What to raise for an error: a retry within the run where one may help. A RetryPolicy would also retry a run that
    is being terminated."""
    if tried < MAX_RETRIES and (isinstance(error, _WORTH_A_RETRY) or not isinstance(error, SluiceError)):
        return dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=RETRY_SECONDS * 2**tried)
    return failure(error) if isinstance(error, SluiceError) else error


def config_schema(model: type[dg.Config], known: Mapping[str, Any]) -> dict[str, dg.Field]:
    """A model as a run's config, with the destination's own defaults."""
    return {
        name: dg.Field(field.annotation, default_value=known.get(name, field.default), description=field.description)
        for name, field in model.model_fields.items()
    }
