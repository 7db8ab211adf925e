"""The assets of one destination: source tables and store as external assets, the Delta tables as one multi-asset.

The multi-asset cannot be torn apart: claim, merge, checks and ack of a batch are one step whatever is selected.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from cdc_core.client.failures import ServiceUnavailable
from cdc_core.errors import (
    CursorError,
    LakeError,
    RangeGone,
    RunsElsewhere,
    RunsNowhere,
    SessionError,
    SluiceError,
    SourceUnavailable,
)
from cdc_core.schema.table import TableSchema
from orchestration import checks, processes
from orchestration.drain import Drain
from orchestration.metadata import failure, lake_columns, source_columns
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Limits, Settings
from spark_jobs.lake import Lake

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

Schemas = Mapping[str, TableSchema | None]


def external_assets(settings: Settings, tables: Schemas) -> list[dg.AssetSpec]:
    """What is there without us: MySQL's tables, and the store that holds their changes."""
    names = settings.names
    sources = [_source(settings, table, schema) for table, schema in tables.items()]
    store = dg.AssetSpec(
        names.store,
        deps=[spec.key for spec in sources],
        group_name=group(settings),
        kinds={"canal"},
        owners=settings.owners,
        tags={**settings.tags, "cdc/destination": names.safe},
        description=f"Changes of {settings.destination} waiting to be claimed. Observed by cdc_{names.safe}_backlog.",
        metadata={"service": _service(settings), "client_id": settings.client_id},
    )
    return [*sources, store]


def _service(settings: Settings) -> dg.MetadataValue:
    place = settings.service.place
    return dg.MetadataValue.text(place) if settings.service.zookeeper else dg.MetadataValue.url(place)


def delta_asset(settings: Settings, tables: Schemas) -> dg.AssetsDefinition:
    """The Delta tables of one destination, drained together."""
    names = settings.names

    @dg.multi_asset(
        name=names.asset,
        specs=[_delta(settings, table, schema) for table, schema in tables.items()],
        check_specs=checks.specs(settings, list(tables)),
        config_schema=_config_schema(settings.limits),
        required_resource_keys={names.canal, names.lake},
        pool=names.asset,
        description=f"Claims what waits at {settings.destination} and merges it, batch after batch.",
    )
    def drain(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckResult]:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        context.instance.add_run_tags(context.run.run_id, names.run_tags | processes.tag(context.run.run_id))
        limits = Limits(**context.op_execution_context.op_config)
        try:
            with canal.connect() as connector, lake.open(connector, canal.token) as applier:
                yield from Drain(context, names, list(tables), limits, connector, applier).run()
        except (dg.Failure, dg.DagsterError):
            raise
        except Exception as error:
            raise _again_or_failed(error, context.retry_number) from error

    return drain


def _again_or_failed(error: Exception, tried: int) -> Exception:
    """Hiccups are tried again within the run. Not by a RetryPolicy: that one also "retries" a run being terminated."""
    if tried < MAX_RETRIES and (isinstance(error, _WORTH_A_RETRY) or not isinstance(error, SluiceError)):
        return dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=RETRY_SECONDS * 2**tried)
    return failure(error) if isinstance(error, SluiceError) else error


def group(settings: Settings) -> str:
    return settings.group or settings.names.safe


def _source(settings: Settings, table: str, schema: TableSchema | None) -> dg.AssetSpec:
    known = {"dagster/column_schema": source_columns(schema)} if schema else {}
    return dg.AssetSpec(
        settings.names.source(table),
        group_name=group(settings),
        kinds={"mysql"},
        owners=settings.owners,
        tags=settings.tags,
        description=_told(schema) or f"{table} in MySQL.",
        metadata={"dagster/table_name": table, "dagster/storage_kind": "mysql", **known},
    )


def _delta(settings: Settings, table: str, schema: TableSchema | None) -> dg.AssetSpec:
    names = settings.names
    known = {"dagster/column_schema": lake_columns(schema)} if schema else {}
    key = f"one row per {', '.join(schema.primary_key)}" if schema and schema.primary_key else "the source's rows"
    return dg.AssetSpec(
        names.delta(table),
        deps=[names.store, names.source(table)],
        group_name=group(settings),
        kinds={"delta", "spark"},
        owners=settings.owners,
        tags={**settings.tags, "cdc/destination": names.safe},
        skippable=True,
        description=f"{_told(schema)}{table} as of the last acked batch: {key}, each change applied exactly once.",
        metadata={
            "dagster/table_name": table,
            "dagster/storage_kind": "delta",
            "path": dg.MetadataValue.path(Lake(settings.lake).path(*table.split(".", 1))),
            **known,
        },
    )


def _told(schema: TableSchema | None) -> str:
    """The source's own comment on the table."""
    return f"{schema.comment}\n\n" if schema and schema.comment else ""


def _config_schema(limits: Limits) -> dict[str, dg.Field]:
    """The limits as a run's config, with the destination's own as defaults."""
    return {
        name: dg.Field(field.annotation, default_value=getattr(limits, name), description=field.description)
        for name, field in type(limits).model_fields.items()
    }


def declared(settings: Settings, known: Sequence[TableSchema]) -> Schemas:
    """The tables to make assets of: those listed, else all that the service captures."""
    schemas = {schema.name: schema for schema in known}
    return {name: schemas.get(name) for name in settings.tables or sorted(schemas)}
