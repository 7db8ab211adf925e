"""The Delta tables of one destination as one multi-asset, which a run drains.

Claim, merge, checks and ack of a batch are one step of all tables, whatever is selected. A selection decides only which
checks Dagster plans: a run of the sensor plans none, and has events of those that change.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Iterator, Mapping
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
from orchestration.assets.lineage import Schemas, delta_spec
from orchestration.failures import failure
from orchestration.first_rows import FirstRows
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


def delta_asset(settings: Settings, tables: Schemas) -> dg.AssetsDefinition:
    """The Delta tables of one destination, drained together."""
    names, landed = settings.names, LandedTables(settings.modes, tables)
    merged = {table: schema for table, schema in tables.items() if not landed.lands(table)}
    logs = [table for table in tables if table not in merged]
    does = "lands and merges" if logs and merged else "lands" if logs else "merges"

    @dg.multi_asset(
        name=names.asset,
        specs=[
            *(delta_spec(settings, table, schema) for table, schema in merged.items()),
            *(log_spec(settings, table) for table in logs),
        ],
        check_specs=checks.check_specs(settings, list(merged), logs),
        can_subset=True,
        config_schema=config_schema(Limits, dict(settings.limits)),
        required_resource_keys={names.canal, names.lake},
        pool=names.asset,
        description=f"Claims the backlog of {settings.destination} and {does} it, batch after batch.",
    )
    def drain(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckResult]:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        context.instance.add_run_tags(context.run.run_id, names.run_tags | processes.tag(context.run.run_id))
        limits = Limits(**context.op_execution_context.op_config)
        try:
            with canal.connect() as connector, lake.open(connector, canal.token) as spark_lake:
                begins = settings.snapshot != "never" and lake.conf is not None
                first = FirstRows(connector, lake.has) if begins else None
                drain = Drain(context, names, list(merged), limits, connector, spark_lake, first=first, logs=logs)
                yield from drain.run()
        except (dg.Failure, dg.DagsterError):
            raise
        except Exception as error:
            raise _retry_or_failure(error, context.retry_number) from error

    return drain


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
