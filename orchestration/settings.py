"""What a `defs.yaml` can say about one destination: plain values, checked when the file is read."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import dagster as dg
from pydantic import Field, field_validator, model_validator

from orchestration.names import Names


class Service(dg.Model, dg.Resolvable):
    """Where the capture service is. The token itself is never in the file: `token_env` names its variable."""

    http: str = "http://127.0.0.1:11112"
    flight: str | None = None
    token_env: str = "SLUICE_TOKEN"  # noqa: S105

    @field_validator("http")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("not an http URL; give the service's address, e.g. http://127.0.0.1:11112")
        return url


class Trigger(dg.Model, dg.Resolvable):
    """What starts a run: the backlog seen by a sensor, or a cron schedule.

    The sensor waits for `minimum_rows`, but for none of them longer than `freshness_seconds`.
    """

    kind: Literal["sensor", "schedule"] = "sensor"
    interval_seconds: Annotated[int, Field(ge=1)] = 5
    minimum_rows: Annotated[int, Field(ge=1)] = 1
    freshness_seconds: Annotated[float, Field(ge=0)] = 60
    cron: str = "*/5 * * * *"


class Limits(dg.Config):
    """How a run drains. Each may be set for one run in the Launchpad; the defaults are those of `defs.yaml`."""

    batch_size: int = Field(200_000, ge=1, description="Rows in a claim, about; a transaction is never cut for it.")
    max_batches: int = Field(1_000, ge=1, description="No batch is begun after so many.")
    max_seconds: float = Field(300, gt=0, description="No batch is begun after so long.")
    linger_seconds: float = Field(10, ge=0, description="How long an empty store is waited upon before the run ends.")
    lease_seconds: float = Field(60, gt=0, description="A claim whose run is silent for so long goes back by itself.")
    parallelism: int = Field(4, ge=1, description="Tables merged side by side.")


class Settings(dg.Model, dg.Resolvable):
    """One destination: its service, its lake, its tables, and how it is drained."""

    destination: Annotated[str, Field(min_length=1)]
    lake: Annotated[str, Field(min_length=1)]
    service: Service = Service()
    spark: str = "sc://127.0.0.1:15002"
    spark_token_env: str = "SPARK_CONNECT_TOKEN"  # noqa: S105
    tables: list[str] | None = None
    complete: bool = False
    client_id: Annotated[int, Field(ge=1)] = 1001
    group: str | None = None
    owners: list[str] = []
    tags: dict[str, str] = {}
    trigger: Trigger = Trigger()
    lag_warning_seconds: Annotated[float, Field(gt=0)] = 300
    batch_size: Annotated[int, Field(ge=1)] = 200_000
    max_batches: Annotated[int, Field(ge=1)] = 1_000
    max_seconds: Annotated[float, Field(gt=0)] = 300
    linger_seconds: Annotated[float, Field(ge=0)] = 10
    lease_seconds: Annotated[float, Field(gt=0)] = 60
    parallelism: Annotated[int, Field(ge=1)] = 4

    @field_validator("tables")
    @classmethod
    def _named_in_full(cls, tables: list[str] | None) -> list[str] | None:
        for table in tables or ():
            if not all(table.partition(".")):
                raise ValueError(f"{table!r} names no database; write it as database.table")
        return tables if tables is None else list(dict.fromkeys(tables))

    @model_validator(mode="after")
    def _lists_something(self) -> Settings:
        if self.tables == []:
            raise ValueError("tables is empty; list database.table, or leave it out to take all that are captured")
        return self

    @property
    def names(self) -> Names:
        return Names(self.destination)

    @property
    def limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})


def secret(variable: str) -> str | None:
    """A Dagster reference to an environment variable that is set, so that its value stays out of all definitions."""
    return dg.EnvVar(variable) if os.environ.get(variable) else None
