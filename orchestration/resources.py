"""Dagster's resources: the capture service, and the lake with its Spark.

Tokens come from the environment when a resource is made for a run or a tick. They are in no metadata and no log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import dagster as dg

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust, read_authorities
from cdc_core.errors import SessionError
from cdc_core.rules.rules import Rules
from cdc_core.schema.table import TableSchema
from orchestration.source import source_of
from spark_jobs.apply.cascade import Cascades
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.expectations.expectation import Expectations
from spark_jobs.following.catch_up import CatchUp
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.now import refresh_landed_view
from spark_jobs.following.pending import Follows
from spark_jobs.following.views import Views
from spark_jobs.lake.catalog_names import catalog_from
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import layouts_from
from spark_jobs.lake.policies import policies_from
from spark_jobs.lake.row_rules import rules_from
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import unions_from
from spark_jobs.landing.modes import Mode, modes_from
from spark_jobs.landing.parked import Parking
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
    rules: str = ""  # what the lake sees of the tables, as JSON

    @contextmanager
    def draining(self) -> Iterator[Connector]:
        """A connection for a run that drains: its client is subscribed, and the service keeps the rules of defs.yaml.
        Raises ConfigError for rules that cannot be applied there."""
        rules = Rules.from_json(self.rules)
        with self.connect() as connector:
            if connector.subscribe().rules != rules.fingerprint:
                connector.set_rules(rules)
            yield connector

    @contextmanager
    def reading(self) -> Iterator[Connector]:
        """A connection for a job that a person starts: the service keeps the rules of defs.yaml, if it has some, and if
        the client is subscribed. Raises ConfigError as `draining`."""
        rules = Rules.from_json(self.rules)
        with self.connect() as connector:
            if rules:
                kept = rules.fingerprint
                with suppress(SessionError):  # one that is not subscribed can read nothing
                    kept = connector.client_status().rules
                if kept != rules.fingerprint:
                    connector.set_rules(rules)
            yield connector

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
    layouts: str = "{}"  # how the tables are laid out, as JSON
    expectations: str = "{}"  # what is expected of tables, as JSON
    engine: str = "auto"  # what writes small tables
    catalog: str = "{}"  # the names of the tables in a catalog, as JSON
    unions: str = "{}"  # which tables are one table here, as JSON

    def has(self, table: TableSchema) -> bool:
        """Whether the lake has the table, whatever it holds; or is to have its change log alone."""
        alone = modes_from(self.apply).of(table.name) is Mode.APPEND
        return alone or Lake(self.root, unions=unions_from(self.unions)).has(table.database, table.table)

    def keeps(self, table: str) -> bool:
        """Whether `database.table` is to have a history."""
        return modes_from(self.apply).of(table) is Mode.HISTORY

    @property
    def lake(self) -> Lake:
        rules, layouts, names = rules_from(self.rows), layouts_from(self.layouts), catalog_from(self.catalog)
        unions = unions_from(self.unions)
        return Lake(self.root, complete=self.complete, rules=rules, layouts=layouts, catalog=names, unions=unions)

    @contextmanager
    def merging(self, destination: str, client_id: int, run_id: str) -> Iterator[Works]:
        """Yields what merges change logs, and keeps histories, in one run."""
        lake = self.lake
        with Sessions(self.remote, self.token or "", self.root) as sessions:
            follows, fence = Follows(lake, destination, client_id), Fence(lake, sessions)
            engine, policies = Engine(self.engine), policies_from(self.ddl)
            expected, views = Expectations.from_json(self.expectations), Views(sessions, follows)
            merger = Merger(follows, sessions, fence, run_id, policies, views, engine, expected)
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
                expectations=Expectations.from_json(self.expectations),
                owe=CatalogNotes(lake, connector.destination, connector.client_id).owe if lake.catalog else None,
            )
            if self.conf is None:
                yield spark_lake
                return
            instance, _ = config.load_instance(Path(self.conf), connector.destination)
            source = source_of(instance, connector)
            zero_dates = instance.zero_dates
            tables = lambda: _captured(connector)  # noqa: E731
            with Cascades(lambda: connect(source), tables, zero_dates, source.rules) as cascades:
                yield replace(spark_lake, source=source, cascades=cascades, zero_dates=zero_dates)


def _captured(connector: Connector) -> set[tuple[str, str]]:
    return {(table.database, table.table) for table in connector.tables()}
