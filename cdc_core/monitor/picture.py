"""One look at everything: the clusters, the sources that their cursors name, and the lag of each client. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cdc_core.monitor.lag import ClientLag
from cdc_core.monitor.sources import SourceView
from cdc_core.monitor.views import ClientView, ClusterView, DestinationView

ClientKey = tuple[str, str, int]
"""Cluster, destination, and the client's number."""


@dataclass(frozen=True, slots=True)
class Picture:
    """`at` is in epoch seconds. `sources` are by address, `lags` by client."""

    at: float = 0.0
    clusters: tuple[ClusterView, ...] = ()
    sources: Mapping[str, SourceView] = field(default_factory=dict)
    lags: Mapping[ClientKey, ClientLag] = field(default_factory=dict)

    def destinations(self) -> Iterator[tuple[ClusterView, DestinationView]]:
        for cluster in self.clusters:
            for one in cluster.destinations:
                yield cluster, one

    def clients(self) -> Iterator[tuple[ClientKey, DestinationView, ClientView]]:
        for cluster, destination in self.destinations():
            for client in destination.clients:
                yield (cluster.name, destination.name, client.client_id), destination, client

    def lag(self, key: ClientKey) -> ClientLag:
        return self.lags.get(key, ClientLag(why="the source was not asked yet"))
