"""Dagster's resources: the capture service, and the lake with its Spark.

Tokens come from the environment when a resource is made for a run or a tick. They are in no metadata and no log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust, read_authorities
from cdc_core.schema.table import TableSchema
from orchestration.source import source_of
from spark_jobs.apply.cascade import Cascades
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.following.catch_up import CatchUp
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.now import refresh_landed_view
from spark_jobs.following.parked import Parking
from spark_jobs.following.pending import Follows
from spark_jobs.following.views import Views
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import policies_from
from spark_jobs.lake.row_rules import rules_from
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, modes_from
from spark_jobs.session import Sessions
from spark_jobs.snapshot.source import connect
from spark_jobs.write.order import Engine


class CanalResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One client of one destination at the capture service. `ca` is a PEM file of authorities; `hosts` are patterns of
    servers from ZooKeeper that may have the token."""

    destination: str
    http_url: str
    flight_url: str | None = None
    zk_servers: str = ""
    zk_auth: str | None = None
    ca: str | None = None
    hosts: list[str] = []
    client_id: int = 1001
    token: str | None = None
    timeout_seconds: float = 20.0
    follow_seconds: float = 30.0

    @contextmanager
    def connect(self) -> Iterator[Connector]:
        with Connector(
            self.http_url,
            self.destination,
            flight_url=self.flight_url,
            zk_servers=self.zk_servers,
            zk_auth=self.zk_auth or "",
            client_id=self.client_id,
            token=self.token,
            trust=Trust(read_authorities(self.ca), tuple(self.hosts)),
            timeout_seconds=self.timeout_seconds,
            follow_seconds=self.follow_seconds,
        ) as connector:
            yield connector


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One lake, written through a Spark Connect server. `conf`: the directory of canal.properties, where runs find how
    to read the source."""

    root: str
    remote: str
    token: str | None = None
    complete: bool = False
    conf: str | None = None
    ddl: str = "{}"  # the policies of the tables, as JSON
    apply: str = "{}"  # their modes, as JSON
    rows: str = "{}"  # their rules for deleted rows and columns of ours, as JSON
    engine: str = "auto"  # what writes small tables

    def has(self, table: TableSchema) -> bool:
        """Whether the lake has the table, whatever it holds; or is to have its change log alone."""
        alone = modes_from(self.apply).of(table.name) is Mode.APPEND
        return alone or Lake(self.root).has(table.database, table.table)

    def keeps(self, table: str) -> bool:
        """Whether `database.table` is to have a history."""
        return modes_from(self.apply).of(table) is Mode.HISTORY

    @property
    def lake(self) -> Lake:
        return Lake(self.root, complete=self.complete, rules=rules_from(self.rows))

    @contextmanager
    def merging(self, destination: str, client_id: int, run_id: str) -> Iterator[Works]:
        """Yields what merges change logs, and keeps histories, in one run."""
        lake = self.lake
        with Sessions(self.remote, self.token or "", self.root) as sessions:
            follows, fence = Follows(lake, destination, client_id), Fence(lake, sessions)
            engine, policies = Engine(self.engine), policies_from(self.ddl)
            merger = Merger(follows, sessions, fence, run_id, policies, Views(sessions, follows), engine)
            yield Works(merger, self.keeps)

    @contextmanager
    def open(self, connector: Connector, token: str | None) -> Iterator[SparkLake]:
        """The lake for one run. Its Spark sessions are made when they are needed, and end with the block."""
        lake = self.lake
        follows = Follows(lake, connector.destination, connector.client_id)
        with Sessions(self.remote, self.token or "", self.root) as sessions:
            spark_lake = SparkLake(
                connector,
                lake,
                sessions,
                token or "",
                Fence(lake, sessions),
                policies=policies_from(self.ddl),
                catch_up=CatchUp(Parking(lake, connector.destination, connector.client_id)),
                redefined=lambda table: refresh_landed_view(sessions, follows, table),
                modes=modes_from(self.apply),
                engine=Engine(self.engine),
            )
            if self.conf is None:
                yield spark_lake
                return
            instance, _ = config.load_instance(Path(self.conf), connector.destination)
            source = source_of(instance, connector)
            zero_dates = instance.zero_dates
            with Cascades(lambda: connect(source), lambda: _captured(connector), zero_dates) as cascades:
                yield replace(spark_lake, source=source, cascades=cascades, zero_dates=zero_dates)


def _captured(connector: Connector) -> set[tuple[str, str]]:
    return {(table.database, table.table) for table in connector.tables()}
