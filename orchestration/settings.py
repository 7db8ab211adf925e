"""What a `defs.yaml` can say about one destination: plain values, checked when the file is read."""

from __future__ import annotations

import os
from typing import Any, Literal, Self, TypeVar

import dagster as dg
from pydantic import Field, field_validator, model_validator

from cdc_core.errors import ConfigError, SluiceError
from cdc_core.schema.names import split_name
from orchestration.alerts.rules import AlertRules
from orchestration.delta_properties import check_properties, property_texts
from orchestration.expectations import Expected, check_expectations, expectations_of
from orchestration.freshness import parse_freshness
from orchestration.internals import is_valid_cron_schedule
from orchestration.lake_rules import SeenTables
from orchestration.names import BUILT_IN, Names
from orchestration.table_rules import (
    ApplyRules,
    CatalogSettings,
    ColumnRules,
    DdlRules,
    DeleteRules,
    LogRules,
    UnionRule,
    VectorRules,
    check_columns,
    check_laid_out_once,
    check_time,
)
from orchestration.translation import Translate, Translation
from spark_jobs.expectations.expectation import MOST_QUARANTINED, Expectations
from spark_jobs.lake.catalog_names import CatalogRules, check_catalog
from spark_jobs.lake.layout import Layouts, Vectors
from spark_jobs.lake.paths import Paths
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.maintain.retention import LogRetention
from spark_jobs.write.order import Engine

_N = TypeVar("_N", int, float)
_LONGEST = 3000.0  # seconds of a run; Dagster's own limit for one is 3600 where `sluice` starts it
_START_SECONDS = 15.0  # that the start of a run takes, until its first claim
_FIRST_MERGE_SECONDS = 4.0  # of a table's, on two cores that others use, while Spark compiles it
SERVICE_VARIABLE, FLIGHT_VARIABLE, SPARK_VARIABLE = "SLUICE_SERVICE", "SLUICE_FLIGHT", "SPARK_REMOTE"
CATALOG_VARIABLE = "SLUICE_CATALOG"
"""What is used where a file names none."""
ENDLESS = 1 << 62  # rows: only their age starts a run


class ServiceAddress(dg.Model, dg.Resolvable):
    """Where the capture service is: at `http`, or with `zookeeper` at whichever server runs the destination. A file
    that names neither means the service of the environment, which is the one that `sluice up` has started.

    `ca` is a PEM file with the authorities of its certificate. `hosts` are patterns of the servers that ZooKeeper may
    name and that get the token. Secrets are not in the file: `token_env` and `zookeeper_auth_env` name environment
    variables.
    """

    http: str = "http://127.0.0.1:11112"
    flight: str | None = None
    ca: str | None = None
    zookeeper: str | None = None
    hosts: list[str] = []
    zookeeper_auth_env: str = "SLUICE_ZK_AUTH"
    token_env: str = "SLUICE_TOKEN"  # noqa: S105

    @model_validator(mode="before")
    @classmethod
    def _of_environment(cls, fields: Any) -> Any:
        """Both doors are from the environment, or none: they belong together."""
        found = os.environ.get(SERVICE_VARIABLE)
        if not found or not isinstance(fields, dict) or fields.keys() & {"http", "zookeeper"}:
            return fields
        return {"http": found, "flight": os.environ.get(FLIGHT_VARIABLE)} | fields

    @field_validator("http")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("not an http URL; give the service's address, e.g. http://127.0.0.1:11112")
        return url

    @property
    def place(self) -> str:
        """The address as people read it."""
        return f"ZooKeeper {self.zookeeper}" if self.zookeeper else self.http


class Trigger(dg.Model, dg.Resolvable):
    """What starts a run: the backlog seen by a sensor, or a cron schedule.

    The sensor waits for `minimum_rows`, but no row waits longer than `freshness_seconds`.
    """

    kind: Literal["sensor", "schedule"] = "sensor"
    interval_seconds: int = 5
    minimum_rows: int = 1
    freshness_seconds: float = 60
    cron: str = "*/5 * * * *"

    @field_validator("interval_seconds", "minimum_rows")
    @classmethod
    def _positive(cls, value: int) -> int:
        return _at_least(1, value)


class Limits(dg.Config):
    """How a run drains. Each can be set for one run in the Launchpad; `defs.yaml` has the defaults."""

    batch_size: int = Field(
        2_000_000,
        ge=1,
        description="How many rows a claim has at most. Transactions stay whole. The store's bytes bound it too.",
    )
    max_batches: int = Field(1_000, ge=1, description="The run begins no more batches than these.")
    freshness: str = Field(
        "", description="30s: claims wait for more rows, but no row for longer; asap: the run stays."
    )
    max_seconds: float = Field(3000, gt=0, description="The run begins no batch after this time.")
    linger_seconds: float = Field(10, ge=0, description="The run ends when the store is empty for this long.")
    lease_seconds: float = Field(60, gt=0, description="A claim is given back when its run is silent for this long.")
    parallelism: int = Field(0, ge=0, description="Tables merged side by side; 0: as many as Spark has cores.")
    report_seconds: float = Field(
        900, ge=0, description="A table has one materialization in this time, of all its batches; 0: one a batch."
    )


class Settings(dg.Model, dg.Resolvable):
    """One destination: its service, its lake, its tables, and how it is drained."""

    destination: str
    lake: str
    conf: str | None = None
    service: ServiceAddress = Field(default_factory=ServiceAddress)
    spark: str = Field(default_factory=lambda: os.environ.get(SPARK_VARIABLE) or "sc://127.0.0.1:15002")
    spark_token_env: str = "SPARK_CONNECT_TOKEN"  # noqa: S105
    catalog: str | CatalogSettings = Field(default_factory=lambda: os.environ.get(CATALOG_VARIABLE) or "")
    tables: list[str] | None = None
    complete: bool = False
    client_id: int = 1001
    group: str | None = None
    owners: list[str] = []
    tags: dict[str, str] = {}
    translation: Translate | None = None
    freshness: str = ""
    trigger: Trigger = Trigger()
    apply: Mode | ApplyRules = Mode.MERGE
    deletes: Deletes | DeleteRules = Deletes.HARD
    columns: list[LastChange] | ColumnRules = []
    deletion_vectors: Vectors | VectorRules = Vectors.AUTO
    table_properties: dict[str, dict[str, str | bool | int]] = {}
    cluster_by: dict[str, list[str]] = {}
    partition_by: dict[str, list[str]] = {}
    ddl: DdlRules = DdlRules()
    rules: SeenTables = SeenTables()
    expectations: dict[str, list[Expected]] = {}
    quarantine_rows: int = MOST_QUARANTINED
    schema_change: Literal["warn", "ignore"] = "ignore"
    into: dict[str, UnionRule] = {}
    engine: Engine = Engine.AUTO
    snapshot: Literal["initial", "never", "when_needed"] = "never"
    audit: str | None = None  # a cron expression
    maintain: str | None = None  # a cron expression
    log_retention: str | LogRules = "forever"
    lag_warning_seconds: float = 300
    alerts: AlertRules | None = None
    batch_size: int = 2_000_000
    max_batches: int = 1_000
    max_seconds: float = _LONGEST
    linger_seconds: float = 10
    lease_seconds: float = 60
    parallelism: int = 0
    report_seconds: float = 900

    @field_validator("destination", "lake")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty")
        return value

    @field_validator("client_id", "batch_size", "max_batches", "max_seconds", "lease_seconds", "quarantine_rows")
    @classmethod
    def _positive(cls, value: float) -> float:
        return _at_least(1, value)

    @field_validator("parallelism")
    @classmethod
    def _not_negative(cls, value: int) -> int:
        return _at_least(0, value)

    @field_validator("freshness")
    @classmethod
    def _is_freshness(cls, text: str) -> str:
        try:
            parse_freshness(text)
        except ConfigError as error:
            raise ValueError(f"{error.message}; {error.hint}") from error
        return text

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        both = sorted(self.trigger.model_fields_set & {"kind", "minimum_rows", "freshness_seconds", "cron"})
        if self.freshness and both:
            raise ValueError(f"freshness and trigger.{both[0]} both say when runs start; leave one of them out")
        return self

    @field_validator("audit", "maintain")
    @classmethod
    def _is_cron(cls, value: str | None) -> str | None:
        if value is not None and not is_valid_cron_schedule(value):
            raise ValueError('is not a cron expression, such as "0 3 * * *"')
        return value

    @field_validator("log_retention")
    @classmethod
    def _is_time(cls, value: str | LogRules) -> str | LogRules:
        if isinstance(value, str):
            check_time(value)
        return value

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        check_properties(self.table_properties)
        check_columns("cluster_by", self.cluster_by, 4)
        check_columns("partition_by", self.partition_by, 8)
        check_laid_out_once(self.cluster_by, list(self.partition_by))
        return self

    @model_validator(mode="after")
    def _one_catalog(self) -> Self:
        if isinstance(self.catalog, str) and self.catalog:
            check_catalog(self.catalog)
        return self

    @field_validator("rules")
    @classmethod
    def _can_be_applied(cls, value: SeenTables) -> SeenTables:
        try:
            value.rules.check()
        except ConfigError as error:
            raise ValueError(f"{error.message} ({error.place}); {error.hint}") from error
        return value

    @model_validator(mode="after")
    def _can_be_expected(self) -> Self:
        check_expectations(self.expected, self.modes, BUILT_IN)
        return self

    @model_validator(mode="after")
    def _can_be_united(self) -> Self:
        try:
            self.unions.check()
            self.unions.check_tables(self.tables or ())
        except SluiceError as error:
            raise ValueError(f"{error.message} ({error.place}); {error.hint}") from error
        return self

    @field_validator("tables")
    @classmethod
    def _named_in_full(cls, tables: list[str] | None) -> list[str] | None:
        if tables == []:
            raise ValueError("is empty; list database.table, or leave it out to take all that are captured")
        for table in tables or ():
            split_name(table)
        return tables if tables is None else list(dict.fromkeys(tables))

    @field_validator("translation")
    @classmethod
    def _knows_its_tables(cls, value: Translate | None) -> Translate | None:
        return Translation(value) if value is not None and not isinstance(value, Translation) else value

    @property
    def names(self) -> Names:
        translation = self.translation
        return Names(self.destination, translation if isinstance(translation, Translation) else None)

    @property
    def modes(self) -> Modes:
        """How each table's changes come into the lake."""
        rules = self.apply if isinstance(self.apply, ApplyRules) else ApplyRules(mode=self.apply)
        return rules.modes

    @property
    def expected(self) -> Expectations:
        """What is expected of tables, before a batch is in them."""
        return expectations_of(self.expectations, self.quarantine_rows)

    @property
    def row_rules(self) -> RowRules:
        """What becomes of each table's deleted rows, and which columns it has in addition to the source's."""
        deletes = self.deletes if isinstance(self.deletes, DeleteRules) else DeleteRules(mode=self.deletes)
        columns = self.columns if isinstance(self.columns, ColumnRules) else ColumnRules(names=self.columns)
        listed = {pattern: tuple(names) for pattern, names in columns.tables.items()}
        return RowRules(deletes.mode, deletes.tables, tuple(columns.names), listed)

    @property
    def unions(self) -> Unions:
        """Which tables of the source are one table of the lake."""
        found = (Union(name, one.tables, tuple(one.columns), one.destination) for name, one in self.into.items())
        return Unions(self.destination, tuple(found))

    @property
    def paths(self) -> Paths:
        """Where the tables are in the lake."""
        return Paths(self.lake, self.unions)

    @property
    def catalog_rules(self) -> CatalogRules | None:
        """Returns the names that the tables have in a catalog, or None if they are in none."""
        if isinstance(self.catalog, CatalogSettings):
            return self.catalog.rules
        return CatalogRules(self.catalog) if self.catalog else None

    @property
    def layouts(self) -> Layouts:
        """How the tables are laid out, and which features of Delta they have."""
        vectors = self.deletion_vectors
        rules = vectors if isinstance(vectors, VectorRules) else VectorRules(mode=vectors)
        listed = ({name: tuple(one) for name, one in by.items()} for by in (self.cluster_by, self.partition_by))
        return Layouts(rules.mode, rules.tables, property_texts(self.table_properties), *listed)

    @property
    def logs_kept(self) -> LogRetention:
        """How long each table's change log keeps its rows."""
        rules = self.log_retention if isinstance(self.log_retention, LogRules) else LogRules(keep=self.log_retention)
        return rules.retention

    @property
    def limits(self) -> Limits:
        known = {name: getattr(self, name) for name in Limits.model_fields}
        return Limits(**known | {"freshness": "asap" if self.stays else self.freshness})

    @property
    def stays(self) -> bool:
        """Whether there is always a run that claims and waits for rows: as declared, or if all tables land. Landing
        costs next to nothing; the declared seconds are for the merges then."""
        declared = parse_freshness(self.freshness)
        return declared.asap or (self.modes.all_land and declared.seconds > 0)

    @property
    def merges_stay(self) -> bool:
        """Whether a run that merges change logs is always there."""
        return parse_freshness(self.freshness).asap

    @property
    def starts(self) -> Trigger:
        """Returns what starts a run that claims: the trigger, or what the declared freshness makes of it."""
        return self.trigger if self.stays else self.merge_starts()

    def merge_starts(self, tables: int = 0) -> Trigger:
        """Returns what starts a run that merges change logs, so that the last of so many `tables` is in time too."""
        declared = parse_freshness(self.freshness)
        if declared.cron:
            return self.trigger.model_copy(update={"kind": "schedule", "cron": declared.cron})
        if declared.seconds:
            needed = _START_SECONDS + tables * _FIRST_MERGE_SECONDS
            waits = {"minimum_rows": ENDLESS, "freshness_seconds": max(0.0, declared.seconds - needed)}
            return self.trigger.model_copy(update=waits)
        return self.trigger


def _at_least(least: int, value: _N) -> _N:
    if value < least:
        raise ValueError(f"is {value}; it must be at least {least}")
    return value


def secret(variable: str) -> str | None:
    """A Dagster reference to an environment variable, None when it is not set. Definitions do not have the value."""
    return dg.EnvVar(variable) if os.environ.get(variable) else None
