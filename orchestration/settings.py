"""What a `defs.yaml` can say about one destination: plain values, checked when the file is read."""

from __future__ import annotations

import os
from typing import Literal, TypeVar

import dagster as dg
from pydantic import Field, field_validator

from orchestration.names import Names

_N = TypeVar("_N", int, float)


class Service(dg.Model, dg.Resolvable):
    """Where the capture service is: an address, or with `zookeeper` whichever server runs the destination at the time.
    Secrets are never in the file: `token_env` and `zookeeper_auth_env` name their variables."""

    http: str = "http://127.0.0.1:11112"
    flight: str | None = None
    zookeeper: str | None = None
    zookeeper_auth_env: str = "SLUICE_ZK_AUTH"
    token_env: str = "SLUICE_TOKEN"  # noqa: S105

    @field_validator("http")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("not an http URL; give the service's address, e.g. http://127.0.0.1:11112")
        return url

    @property
    def place(self) -> str:
        """For people."""
        return f"ZooKeeper {self.zookeeper}" if self.zookeeper else self.http


class Trigger(dg.Model, dg.Resolvable):
    """What starts a run: the backlog seen by a sensor, or a cron schedule.

    The sensor waits for `minimum_rows`, but for none of them longer than `freshness_seconds`.
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
    """How a run drains. Each may be set for one run in the Launchpad; the defaults are those of `defs.yaml`."""

    batch_size: int = Field(
        2_000_000,
        ge=1,
        description="Rows in a claim, about; a transaction is never cut for it. The ring's bytes bound it too.",
    )
    max_batches: int = Field(1_000, ge=1, description="No batch is begun after so many.")
    max_seconds: float = Field(300, gt=0, description="No batch is begun after so long.")
    linger_seconds: float = Field(10, ge=0, description="How long an empty store is waited upon before the run ends.")
    lease_seconds: float = Field(60, gt=0, description="A claim whose run is silent for so long goes back by itself.")
    parallelism: int = Field(4, ge=1, description="Tables merged side by side.")


class Settings(dg.Model, dg.Resolvable):
    """One destination: its service, its lake, its tables, and how it is drained."""

    destination: str
    lake: str
    service: Service = Service()
    spark: str = "sc://127.0.0.1:15002"
    spark_token_env: str = "SPARK_CONNECT_TOKEN"  # noqa: S105
    tables: list[str] | None = None
    complete: bool = False
    client_id: int = 1001
    group: str | None = None
    owners: list[str] = []
    tags: dict[str, str] = {}
    trigger: Trigger = Trigger()
    lag_warning_seconds: float = 300
    batch_size: int = 2_000_000
    max_batches: int = 1_000
    max_seconds: float = 300
    linger_seconds: float = 10
    lease_seconds: float = 60
    parallelism: int = 4

    @field_validator("destination", "lake")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty")
        return value

    @field_validator("client_id", "batch_size", "max_batches", "max_seconds", "lease_seconds", "parallelism")
    @classmethod
    def _positive(cls, value: float) -> float:
        return _at_least(1, value)

    @field_validator("tables")
    @classmethod
    def _named_in_full(cls, tables: list[str] | None) -> list[str] | None:
        if tables == []:
            raise ValueError("is empty; list database.table, or leave it out to take all that are captured")
        for table in tables or ():
            if not all(table.partition(".")):
                raise ValueError(f"{table!r} names no database; write it as database.table")
        return tables if tables is None else list(dict.fromkeys(tables))

    @property
    def names(self) -> Names:
        return Names(self.destination)

    @property
    def limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})


def _at_least(least: int, value: _N) -> _N:
    if value < least:
        raise ValueError(f"is {value}; it must be at least {least}")
    return value


def secret(variable: str) -> str | None:
    """A Dagster reference to an environment variable that is set, so that its value stays out of all definitions."""
    return dg.EnvVar(variable) if os.environ.get(variable) else None
