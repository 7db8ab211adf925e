"""The component: one `defs.yaml`, one destination.

What `tables` leaves open is asked of the service when the code location is loaded, and kept by Dagster for the
processes of its runs, so that those neither need the service to load nor see another set of tables.
"""

from __future__ import annotations

import json

import dagster as dg
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType

from cdc_core.errors import ConfigError, SluiceError
from cdc_core.schema.table import TableSchema
from orchestration import assets, checks, jobs, sensors
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings, secret


class CdcDestination(dg.Component, Settings):
    """Assets, checks, jobs, sensors and resources of one destination."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster calls it by name
        canal, lake = _canal(self), _lake(self)
        known, kept = _known_tables(self)
        tables = assets.declared(self, known)
        delta = assets.delta_asset(self, tables)
        job = jobs.drain_job(self, delta)
        scheduled = self.trigger.kind == "schedule"
        return dg.Definitions(
            assets=[*assets.external_assets(self, tables), delta],
            asset_checks=[checks.lag_check(self)],
            jobs=[job, jobs.rollback_job(self)],
            schedules=[sensors.schedule(self, job)] if scheduled else [],
            sensors=[sensors.backlog_sensor(self, job), *sensors.ended_sensors(self)],
            resources={self.names.canal: canal, self.names.lake: lake},
        ).with_reconstruction_metadata(kept)


def _canal(settings: Settings) -> CanalResource:
    service = settings.service
    return CanalResource(
        destination=settings.destination,
        http_url=service.http,
        flight_url=service.flight,
        zk_servers=service.zookeeper or "",
        zk_auth=secret(service.zookeeper_auth_env) if service.zookeeper else None,
        client_id=settings.client_id,
        token=secret(service.token_env),
    )


def _lake(settings: Settings) -> LakeResource:
    return LakeResource(
        root=settings.lake, remote=settings.spark, token=secret(settings.spark_token_env), complete=settings.complete
    )


def _known_tables(settings: Settings) -> tuple[list[TableSchema], dict[str, str]]:
    """The service's tables, and the same as metadata of the code location."""
    key = f"sluice/{settings.destination}/tables"
    loading = DefinitionsLoadContext.get()
    if loading.load_type == DefinitionsLoadType.RECONSTRUCTION and key in loading.reconstruction_metadata:
        text = str(loading.reconstruction_metadata[key])
    else:
        text = json.dumps([schema.to_dict() for schema in _ask(settings)])
    fields = [{name: value for name, value in one.items() if name != "version"} for one in json.loads(text)]
    return [TableSchema.from_dict(one) for one in fields], {key: text}


def _ask(settings: Settings) -> list[TableSchema]:
    """With listed tables the service only adds their columns, so that it may be away; else it must answer."""
    resource = _canal(settings).model_copy(update={"timeout_seconds": 5.0, "follow_seconds": 5.0})
    try:
        with resource.process_config_and_initialize().connect() as connector:
            tables: list[TableSchema] = connector.tables()
    except SluiceError as error:
        if settings.tables is not None:
            return []
        raise ConfigError(
            f"the tables of {settings.destination} are not known: {error.message}",
            place=error.place,
            hint=f"Start the service and reload this code location, or list `tables` in defs.yaml. {error.hint}",
        ) from error
    if not tables and settings.tables is None:
        raise ConfigError(
            f"the service captures no table of {settings.destination}",
            place=settings.service.place,
            hint="Look at canal.instance.filter.regex, or list `tables` in defs.yaml; then reload this code location.",
        )
    return tables
