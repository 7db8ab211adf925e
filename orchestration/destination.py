"""The component: one `defs.yaml`, one destination.

Loading the code location asks the service for the captured tables. Dagster keeps them for the processes of its runs:
these load without the service, and see the same tables.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import dagster as dg

from cdc_core.client.connector import Connector
from cdc_core.client.trust import CA_VARIABLE
from cdc_core.errors import (
    AccessDenied,
    ConfigError,
    CursorError,
    ServiceUnavailable,
    SluiceError,
    TableStopped,
    UnknownDestination,
)
from cdc_core.schema.table import TableSchema
from orchestration.assets.audit import audit_checks, audit_job, audit_schedule
from orchestration.assets.drain_asset import delta_asset, drain_job
from orchestration.assets.landed import LandedTables
from orchestration.assets.lineage import declared, external_assets, union_assets
from orchestration.assets.merge_asset import merge_asset, merge_job
from orchestration.expectations import expected_of, misfits_of
from orchestration.failures import TablesUnknown
from orchestration.internals import job_of_process, noted
from orchestration.jobs.by_hand import job_name, job_of, maintain_schedule
from orchestration.jobs.routine import drain_schedule
from orchestration.resources import CanalResource, LakeResource
from orchestration.scaffolding import DestinationScaffolder
from orchestration.sensors.alerting import alerts_sensor
from orchestration.sensors.backlog import backlog_sensor
from orchestration.sensors.merging import merging_sensor
from orchestration.sensors.registering import registering_sensor
from orchestration.sensors.round import round_of
from orchestration.sensors.snapshots import snapshot_sensor
from orchestration.settings import Settings, secret
from orchestration.source import CONF_VARIABLE
from orchestration.stand_in import stand_in
from orchestration.store import lag_check
from orchestration.verbs.orders import JOBS, Accept, Drop, Maintain, Register, Remake, Requeue, Reset, Snapshot
from spark_jobs.lake.catalog_names import catalog_json
from spark_jobs.lake.layout import layouts_json
from spark_jobs.lake.policies import policies_json
from spark_jobs.lake.row_rules import rules_json
from spark_jobs.lake.unions import Unions, unions_json
from spark_jobs.landing.modes import modes_json

_SILENT = ContextVar[dict[str, SluiceError] | None]("what does not answer, by its address", default=None)
_IN_A_FILE = ContextVar(
    "whether Sluice loads the file, and puts something in the place of one that it cannot", default=False
)
_SECONDS = 5.0  # for a service to answer


@dg.scaffold_with(DestinationScaffolder)
class CdcDestination(dg.Component, Settings):
    """Tables of MySQL in a Delta lake: assets, checks, jobs, sensors and resources of one destination."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002 - Dagster calls it by name
        """In a project of one's own, a destination whose tables are not known yet does not keep the rest from
        loading."""
        try:
            return self._defs()
        except TablesUnknown as error:
            if _IN_A_FILE.get():
                raise
            return stand_in(self.destination, error, partial(_ask, self))

    def _defs(self) -> dg.Definitions:
        canal, lake = _canal(self), _lake(self)
        resources = {self.names.canal: canal, self.names.lake: lake}
        known, kept = _known_tables(self)
        unions = self.unions
        known = list(_placed(self.destination, unions, known))
        unions.check_tables(schema.name for schema in known)
        landed = landed_tables(self, known)
        makers, own = self._job_makers(landed), job_of_process()
        jobs = _jobs({own: makers[own]} if own in makers else makers, resources)
        if own in jobs:  # a run of this job needs no other, and none of the assets
            return dg.Definitions(jobs=[jobs[own]], resources=resources).with_reconstruction_metadata(kept)
        _warn(self, landed)
        audit = [audit_checks(self, list(landed.schemas))] if self.audit else []
        parts = dg.Definitions(
            assets=self._assets(landed),
            asset_checks=[lag_check(self), *audit],
            resources=resources,
        )
        audits = [audit_job(self, parts, checks) for checks in audit]
        started = dg.Definitions(
            jobs=[*jobs.values(), *audits],
            schedules=self._schedules(jobs, audits),
            sensors=[*self._sensors(jobs, landed, lake), *self._alerts(parts)],
        )
        return dg.Definitions.merge(parts, started).with_reconstruction_metadata(kept)

    def _assets(self, landed: LandedTables) -> list[dg.AssetSpec | dg.AssetsDefinition]:
        tables = [*landed.merged, *landed.followed]
        unions = [union.table for union in self.unions.among(tables)]
        self.names.check_apart(tables=[*tables, *unions], logs=landed.logs, histories=landed.histories)
        made: list[dg.AssetSpec | dg.AssetsDefinition] = [
            *external_assets(self, landed.schemas),
            *union_assets(self, tables),
            delta_asset(self, landed),
            *([merge_asset(self, landed)] if landed.followed else []),
        ]
        return list(dg.map_asset_specs(self.names.translated, made)) if self.translation else made

    def _job_makers(self, landed: LandedTables) -> dict[str, Callable[[], dg.JobDefinition]]:
        """Returns the functions that make the jobs without selected assets, by the names of the jobs."""
        absent = {*([] if landed.followed else [Remake]), *([] if self.catalog_rules else [Register])}
        absent |= set() if self.expectations else {Accept, Requeue, Drop}
        orders = [order for order in JOBS if order not in absent]
        makers: dict[str, Callable[[], dg.JobDefinition]] = {self.names.job: partial(drain_job, self, landed)}
        makers |= {job_name(order, self): partial(job_of, order, self) for order in orders}
        return makers | ({self.names.merging_job: partial(merge_job, self, landed)} if landed.followed else {})

    def _schedules(
        self, jobs: Mapping[str, dg.JobDefinition], audits: Sequence[dg.JobDefinition]
    ) -> list[dg.ScheduleDefinition]:
        schedules = [drain_schedule(self, jobs[self.names.job])] if self.starts.kind == "schedule" else []
        schedules += [maintain_schedule(self, jobs[job_name(Maintain, self)])] if self.maintain else []
        return schedules + [audit_schedule(self, job) for job in audits]

    def _sensors(
        self, jobs: Mapping[str, dg.JobDefinition], landed: LandedTables, lake: LakeResource
    ) -> list[dg.SensorDefinition]:
        connect, shared = partial(_connect, self), round_of(self.service.place)
        sensors = [backlog_sensor(self, jobs[self.names.job], connect, shared)]
        if self.snapshot != "never":
            snapshot, rewind = jobs[job_name(Snapshot, self)], jobs[job_name(Reset, self)]
            sensors.append(snapshot_sensor(self, snapshot, rewind, connect, lake, shared))
        if self.catalog_rules is not None:
            sensors.append(registering_sensor(self, jobs[job_name(Register, self)], lake, shared))
        if merges := jobs.get(self.names.merging_job):
            sensors.append(merging_sensor(self, merges, landed.follows, landed.keeps, lake, shared))
        return sensors

    def _alerts(self, parts: dg.Definitions) -> list[dg.SensorDefinition]:
        if self.alerts is None:
            return []
        made = [*(parts.assets or ()), *(parts.asset_checks or ())]
        keys = [key for one in made if isinstance(one, dg.AssetsDefinition) for key in one.check_keys]
        return [alerts_sensor(self, keys, partial(_connect, self), round_of(self.service.place))]


def landed_tables(settings: Settings, known: Sequence[TableSchema]) -> LandedTables:
    """Returns the declared tables; of those that are not listed, the `known` ones."""
    schemas, modes = declared(settings, known), settings.modes
    expected = {name: expected_of(settings.expected, modes, name, schema) for name, schema in schemas.items()}
    return LandedTables(modes, schemas, expected)


def _placed(destination: str, unions: Unions, known: Sequence[TableSchema]) -> Iterator[TableSchema]:
    """Yields the tables whose place in the lake is known. The others stop in a run, each alone."""
    for schema in known:
        try:
            unions.of(schema.name)
        except TableStopped as error:
            said = "%s: %s has no asset: %s. %s"
            logging.getLogger("dagster").warning(said, destination, schema.name, error.message, error.hint)
        else:
            yield schema


def _warn(settings: Settings, landed: LandedTables) -> None:
    """Logs what tables cannot meet: it concerns them alone, and is known before their next rows."""
    for table, listed in landed.expected.items():
        for said in misfits_of(listed, table, landed.schemas[table]):
            logging.getLogger("dagster").warning("%s: %s. Correct it in defs.yaml.", settings.destination, said)


def _jobs(
    makers: Mapping[str, Callable[[], dg.JobDefinition]], resources: Mapping[str, Any]
) -> dict[str, dg.JobDefinition]:
    """Returns the jobs by name, with these resources; Dagster would give each job the resources of all others."""
    whole = dg.Definitions(jobs=[make() for make in makers.values()], resources=resources)
    return {name: whole.resolve_job_def(name) for name in makers}


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
        ca=service.ca or os.environ.get(CA_VARIABLE),
        hosts=service.hosts,
        rules=settings.rules.rules.to_json(),
    )


def canal_of(settings: Settings, **changes: Any) -> CanalResource:
    """Returns the resource without Dagster, which would make its own instance to read the environment."""
    service = settings.service
    secrets = {"token": os.environ.get(service.token_env), "zk_auth": os.environ.get(service.zookeeper_auth_env)}
    return _canal(settings).model_copy(update=secrets | changes)


def lake_of(settings: Settings, **changes: Any) -> LakeResource:
    """Returns the same of the lake."""
    secrets = {"token": os.environ.get(settings.spark_token_env)}
    return _lake(settings).model_copy(update=secrets | changes)


def _connect(settings: Settings, **changes: float) -> AbstractContextManager[Connector]:
    return canal_of(settings, **changes).connect()


def _lake(settings: Settings) -> LakeResource:
    return LakeResource(
        root=settings.lake,
        remote=settings.spark,
        token=secret(settings.spark_token_env),
        complete=settings.complete,
        conf=settings.conf or os.environ.get(CONF_VARIABLE),
        ddl=policies_json(settings.ddl.policies),
        apply=modes_json(settings.modes),
        rows=rules_json(settings.row_rules),
        layouts=layouts_json(settings.layouts),
        engine=settings.engine,
        expectations=settings.expected.to_json(),
        catalog=catalog_json(settings.catalog_rules),
        unions=unions_json(settings.unions),
    )


def _known_tables(settings: Settings) -> tuple[list[TableSchema], dict[str, str]]:
    """The tables that the service captures, as the lake sees them, and the same as metadata of the code location."""
    key, rules = f"sluice/{settings.destination}/tables", settings.rules.rules
    kept = noted().get(key) or _packed(json.dumps([rules.view(schema).to_dict() for schema in _ask(settings)]))
    text = zlib.decompress(base64.b64decode(kept))
    fields = [{name: value for name, value in one.items() if name != "version"} for one in json.loads(text)]
    return [TableSchema.from_dict(one) for one in fields], {key: kept}


def _packed(text: str) -> str:
    """A tenth of the text: Dagster puts the notes of all destinations into the plan of each run."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _ask(settings: Settings) -> list[TableSchema]:
    """Asks the service. It may be away when `tables` are listed, since it only adds their columns then."""
    try:
        tables = _answer(settings)
    except SluiceError as error:
        if settings.tables is not None:
            return []
        kind = ConfigError if isinstance(error, AccessDenied | ConfigError | UnknownDestination) else TablesUnknown
        raise kind(
            f"the tables of {settings.destination} are unknown: {error.message}",
            place=error.place,
            hint="Start the service and reload this code location (`sluice up` does both), or list `tables` in "
            f"defs.yaml. {error.hint}",
        ) from error
    if not tables and settings.tables is None:
        raise TablesUnknown(
            f"the service captures no table of {settings.destination} yet",
            place=settings.service.place,
            hint="If there are some, check canal.instance.filter.regex. `sluice up` loads it as soon as there is "
            "one; elsewhere, reload this code location then, or list `tables` in defs.yaml.",
        )
    return tables


@contextmanager
def in_a_file() -> Iterator[None]:
    """While the block runs, a destination whose tables are not known raises TablesUnknown."""
    reset = _IN_A_FILE.set(True)
    try:
        yield
    finally:
        _IN_A_FILE.reset(reset)


@contextmanager
def one_load() -> Iterator[None]:
    """While the block runs, a service or a ZooKeeper that does not answer is asked once: a folder of many destinations
    would wait for it once for each."""
    reset = _SILENT.set({})
    try:
        yield
    finally:
        _SILENT.reset(reset)


def _answer(settings: Settings) -> list[TableSchema]:
    """Return the service's captured tables. Raises SluiceError."""
    service, silent = settings.service, _SILENT.get()
    silent = {} if silent is None else silent
    with _connect(settings, timeout_seconds=_SECONDS, follow_seconds=_SECONDS) as connector:
        if silent and (known_error := silent.get(service.place) or silent.get(connector.http_url)):
            raise known_error
        try:
            return connector.tables()
        except (CursorError, ServiceUnavailable) as error:
            asked = error.place if error.place.startswith("http") else service.place  # a server, or ZooKeeper
            if not (connector.someone_is_up() if asked == service.place else connector.is_up(asked)):
                silent[asked] = error
            raise
