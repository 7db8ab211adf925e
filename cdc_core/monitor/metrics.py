"""`/metrics` of the monitor, under `sluice_monitor_`. An unknown number has no sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from cdc_core.monitor.looking import Findings
from cdc_core.monitor.picture import Picture

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# (name without the prefix, help)
METRICS: tuple[tuple[str, str], ...] = (
    ("look_seconds", "How long the last look took"),
    ("look_timestamp_seconds", "When the last look ended, in epoch seconds"),
    ("cluster_up", "1 while ZooKeeper answers"),
    ("servers", "Servers that are alive, by kind: sluice or canal"),
    ("destination_leader", "1 while a server runs the destination"),
    ("destination_standby", "Servers that could take the destination over"),
    ("destination_problems", "Nodes of the destination that are not understood or may not be read"),
    ("client_running", "1 while a consumer holds the client's node"),
    ("client_lag_bytes", "Bytes of binlog from the client's cursor to the newest place"),
    ("client_lag_files", "Binlog files from the cursor's to the newest"),
    ("client_lag_seconds", "How long the oldest change has waited for the client, at most"),
    ("client_binlog_seconds_left", "Seconds until the cursor's file may be purged, at least"),
    ("client_binlog_purged", "1 where the source has purged the cursor's file"),
    ("source_up", "1 while the MySQL server answers with its binlogs"),
    ("source_lag_seconds", "How far the MySQL server is behind its own source"),
    ("alarms", "What is wrong, by kind"),
)
_Labels = dict[str, str]


def render(found: Findings) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Findings(found))
    return generate_latest(registry).decode()


class _Findings(Collector):
    def __init__(self, found: Findings) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        families = {name: Metric(f"sluice_monitor_{name}", text, "gauge") for name, text in METRICS}
        for name, labels, value in _samples(self._found):
            if value is not None:
                families[name].add_sample(families[name].name, labels, float(value))
        yield from families.values()


def _samples(found: Findings) -> Iterator[tuple[str, _Labels, float | None]]:
    picture = found.picture
    yield "look_seconds", {}, found.seconds
    yield "look_timestamp_seconds", {}, picture.at
    for cluster in picture.clusters:
        labels = {"cluster": cluster.name}
        yield "cluster_up", labels, not cluster.away
        for kind, count in sorted(Counter(one.kind for one in cluster.servers).items()):
            yield "servers", labels | {"kind": kind}, count
    for cluster, destination in picture.destinations():
        labels = {"cluster": cluster.name, "destination": destination.name}
        yield "destination_leader", labels, destination.holder is not None
        yield "destination_standby", labels, len(destination.standby)
        yield "destination_problems", labels, len(destination.problems)
    yield from _of_clients(picture)
    for address, source in sorted(picture.sources.items()):
        yield "source_up", {"source": address}, source.journals is not None
        yield "source_lag_seconds", {"source": address}, source.behind
    counts = Counter((one.trouble.cluster, one.trouble.kind) for one in found.alarms.now.values())
    for (name, kind), count in sorted(counts.items()):
        yield "alarms", {"cluster": name, "kind": kind}, count


def _of_clients(picture: Picture) -> Iterator[tuple[str, _Labels, float | None]]:
    for key, _, client in picture.clients():
        lag = picture.lag(key)
        labels = {"cluster": key[0], "destination": key[1], "client": str(key[2])}
        yield "client_running", labels, client.running is not None
        yield "client_lag_bytes", labels, lag.nbytes
        yield "client_lag_files", labels, lag.files
        yield "client_lag_seconds", labels, lag.seconds
        yield "client_binlog_seconds_left", labels, lag.left_seconds
        yield "client_binlog_purged", labels, lag.purged
