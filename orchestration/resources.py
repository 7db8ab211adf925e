"""Dagster's handles on the two things outside: the capture service, and the lake with its Spark.

Tokens come from the environment when a resource is made for a run or a tick; they are in no metadata and no log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from cdc_core.client.connector import Connector
from orchestration.applier import Applier, SparkLake
from spark_jobs.fence import Fence
from spark_jobs.lake import Lake
from spark_jobs.session import Sessions


class CanalResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One client of one destination at the capture service."""

    destination: str
    http_url: str
    flight_url: str | None = None
    zk_servers: str = ""
    zk_auth: str | None = None
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
            timeout_seconds=self.timeout_seconds,
            follow_seconds=self.follow_seconds,
        ) as connector:
            yield connector


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One lake, written through a Spark Connect server."""

    root: str
    remote: str
    token: str | None = None
    complete: bool = False

    @contextmanager
    def open(self, connector: Connector, token: str | None) -> Iterator[Applier]:
        """The lake for one run; its Spark sessions are made when first needed and ended with it."""
        lake = Lake(self.root, complete=self.complete)
        with Sessions(self.remote, self.token or "") as sessions:
            yield SparkLake(connector, lake, sessions, token or "", Fence(lake, sessions))
