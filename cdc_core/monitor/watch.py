"""What only several looks show: when a server took a destination, since when a cursor rests, when all was read. Pure.

What a cluster had is kept while its ZooKeeper is down. What is gone from a cluster that answers is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cdc_core.monitor.lag import lag_of
from cdc_core.monitor.picture import ClientKey, Picture
from cdc_core.monitor.sources import SourceView
from cdc_core.monitor.views import ClientView, ClusterView, DestinationView

K = TypeVar("K", bound=tuple[object, ...])
V = TypeVar("V")

_MOST_CHANGES = 100


@dataclass(frozen=True, slots=True)
class WatchedTerm:
    """A destination, or a cluster's connection. `changes`: when its term changed; `since`: when it was seen first."""

    since: float
    term: int
    changes: tuple[float, ...] = ()

    def after(self, term: int, now: float, seconds: float) -> WatchedTerm:
        """Term 0 means that nobody has the term: the next one counts as a change if it differs from the last."""
        changes = tuple(one for one in self.changes if now - seconds < one <= now)
        if not term or term == self.term:
            return replace(self, changes=changes)
        if self.term:
            changes = (*changes, now)[-_MOST_CHANGES:]
        return replace(self, term=term, changes=changes)


@dataclass(frozen=True, slots=True)
class WatchedClient:
    """`cursor` is its place as text, `moved` when it was seen to be another, `level` when all was seen to be read."""

    cursor: str
    moved: float
    level: float = 0.0


@dataclass(frozen=True, slots=True)
class Watch:
    """All that is known from look to look."""

    connections: Mapping[tuple[str], WatchedTerm] = field(default_factory=dict)
    destinations: Mapping[tuple[str, str], WatchedTerm] = field(default_factory=dict)
    clients: Mapping[ClientKey, WatchedClient] = field(default_factory=dict)


def watched(
    before: Watch, clusters: tuple[ClusterView, ...], sources: Mapping[str, SourceView], now: float, seconds: float
) -> tuple[Watch, Picture]:
    """Returns what is known after a look, and the picture. Changes count for `seconds`."""
    away = frozenset(one.name for one in clusters if one.away)
    connections = {(one.name,): _connection(before.connections.get((one.name,)), one, now, seconds) for one in clusters}
    destinations = _kept(before.destinations, away)
    known = _kept(before.clients, away)
    lags = {}
    for key, _, client in Picture(clusters=clusters).clients():
        seen = _client(before.clients.get(key), client, now)
        lag = lag_of(client.cursor, sources.get(client.source), now, seen.level)
        known[key] = replace(seen, level=now) if lag.nbytes == 0 else seen
        lags[key] = lag
    for cluster, destination in Picture(clusters=clusters).destinations():
        at = cluster.name, destination.name
        destinations[at] = _destination(before.destinations.get(at), destination, now, seconds)
    return Watch(connections, destinations, known), Picture(now, clusters, dict(sources), lags)


def _kept(before: Mapping[K, V], away: frozenset[str]) -> dict[K, V]:
    return {key: one for key, one in before.items() if key[0] in away}


def _connection(before: WatchedTerm | None, cluster: ClusterView, now: float, seconds: float) -> WatchedTerm:
    """Its term is even while ZooKeeper is down, odd while it answers."""
    there = not cluster.away
    if before is None:
        return WatchedTerm(now, 1 if there else 2)
    return before.after(before.term + (there != bool(before.term % 2)), now, seconds)


def _destination(before: WatchedTerm | None, found: DestinationView, now: float, seconds: float) -> WatchedTerm:
    return (before or WatchedTerm(now, found.term)).after(found.term, now, seconds)


def _client(before: WatchedClient | None, found: ClientView, now: float) -> WatchedClient:
    cursor = str(found.cursor.postion) if found.cursor else ""
    if before is None or before.cursor != cursor or found.running is not None:
        return WatchedClient(cursor, now, before.level if before else 0.0)
    return before
