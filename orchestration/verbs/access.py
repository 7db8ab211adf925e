"""What a verb works with: the service's connector, the lake, Spark, and the source's configuration."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_core.errors import ConfigError, SluiceError

if TYPE_CHECKING:
    from cdc_core.client.connector import Connector
    from cdc_core.config import InstanceConfig
    from orchestration.settings import Settings
    from spark_jobs.expectations.expectation import Expectations
    from spark_jobs.lake.tables import Lake
    from spark_jobs.maintain.logs import Retention
    from spark_jobs.session import Sessions


@dataclass(frozen=True, slots=True)
class Declared:
    """What a defs.yaml declares that keeping files healthy goes by. `stays`: a run is always there. `kept`: how long a
    table's change log keeps its rows; None: as long as a log's default says. `expected`: what is expected of tables;
    None if that is not known."""

    freshness: str = ""
    linger_seconds: float = 10.0
    max_seconds: float = 3000.0
    stays: bool = False
    kept: Callable[[str], Retention] | None = None
    expected: Expectations | None = None

    @classmethod
    def of(cls, settings: Settings) -> Declared:
        """Returns what these settings declare."""
        from spark_jobs.landing.modes import Mode
        from spark_jobs.maintain.logs import Retention

        def kept(table: str) -> Retention:
            alone = settings.modes.of(table) is Mode.APPEND
            return Retention(settings.logs_kept.of(table, alone=alone), alone)

        most = settings.limits.max_seconds
        return cls(settings.freshness, settings.linger_seconds, most, settings.stays, kept, settings.expected)


@dataclass(frozen=True, slots=True)
class Access:
    """Access for one client of one destination. `conf`: the directory of canal.properties; `run_id`: of Dagster's
    run. `by_itself`: a sensor asked for it, and no person."""

    destination: str
    client_id: int
    connect: Callable[[], AbstractContextManager[Connector]]
    sessions: Callable[[], Sessions]
    known_lake: Lake | None = None
    conf: Path | None = None
    run_id: str = ""
    declared: Declared = field(default_factory=Declared)
    by_itself: bool = False

    @property
    def lake(self) -> Lake:
        """Returns the lake. Raises ConfigError if it is not named."""
        if self.known_lake is None:
            raise ConfigError("the lake is not named", place=self.destination, hint="Give --lake, or set SLUICE_LAKE.")
        return self.known_lake

    def publish(self) -> dict[str, SluiceError]:
        """Publishes the lake's unions, if it has some. Returns the shards that they cannot have, each with the reason.
        Raises LakeError."""
        if self.known_lake is None or not self.known_lake.unions:
            return {}
        from spark_jobs.union.publish import publish

        done = [publish(self.known_lake, union) for union in self.known_lake.unions.all]
        return {table: error for one in done for table, error in one.refused.items()}

    @property
    def instance(self) -> InstanceConfig:
        """How to reach the source. Raises ConfigError where that is unknown."""
        from cdc_core.config import load_instance

        if self.conf is None:
            hint = "Set conf in defs.yaml, or SLUICE_CONF, to the service's configuration directory."
            raise ConfigError("how to reach the source is unknown", place="defs.yaml", hint=hint)
        return load_instance(self.conf, self.destination)[0]
