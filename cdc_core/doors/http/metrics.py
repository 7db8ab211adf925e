"""`/metrics`: Canal's metrics under their own names and labels, and ours under `sluice_`.

Source: Canal's `CanalInstanceExports` and its Grafana template. Every scrape reads the destinations again, so no gauge
outlives what it measures. An unknown number (None) has no sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cdc_core.config.models import InstanceConfig
from cdc_core.contract.quarantined_tables import bounded
from cdc_core.contract.status import Status
from cdc_core.destination.metrics import Metrics
from cdc_core.doors.all_destinations import all_destinations
from cdc_core.doors.traffic import BUCKETS_MS, CallCounts, Traffic
from cdc_core.server.server import CanalServer

_STOPPED = 100  # of a client's stopped tables, with a sample each
_WAITING = 100  # of a client's tables with rows that wait, with a sample each
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# (field of `Metrics`, type, labels beyond the destination, help); shown as canal_instance_{key}
_CANAL: tuple[tuple[str, str, str, str], ...] = (
    ("subscriptions", "gauge", "", "Clients that are subscribed"),
    ("traffic_delay", "gauge", "", "Delay of the newest transaction read, in milliseconds"),
    ("transactions", "counter", "", "Transactions received"),
    ("received_binlog_bytes", "counter", "parser", "Bytes of binlog received"),
    ("publish_blocking_time", "counter", "parser", "Milliseconds that the reader waited to hand on events"),
    ("sink_blocking_time", "counter", "", "Milliseconds that the sink waited for room in the store"),
    ("store_produce_seq", "counter", "", "Events put into the store"),
    ("store_consume_seq", "counter", "", "Events acked"),
    ("store_produce_mem", "counter", "", "Bytes put into the store"),
    ("store_consume_mem", "counter", "", "Bytes acked"),
    ("put_delay", "gauge", "", "Delay at put, in milliseconds"),
    ("get_delay", "gauge", "", "Delay at get, in milliseconds"),
    ("ack_delay", "gauge", "", "Delay at ack, in milliseconds"),
    ("put_rows", "counter", "", "Rows put into the store"),
    ("get_rows", "counter", "", "Rows claimed"),
    ("ack_rows", "counter", "", "Rows acked"),
)

# (field of `Metrics`, type, help); shown as sluice_{key}, counters with _total
_OURS: tuple[tuple[str, str, str], ...] = (
    ("parse_errors", "counter", "Events that could not be decoded"),
    ("reconnects", "counter", "Connections to the source after the first"),
    ("leader", "gauge", "1 when this process serves the destination"),
    ("cursor_age_seconds", "gauge", "Age of the oldest client's cursor"),
    ("unacked_batches", "gauge", "Claims outstanding"),
    ("oldest_claim_seconds", "gauge", "How long the oldest outstanding claim has been out"),
    ("acked_claims", "counter", "Claims acked"),
    ("claim_seconds", "counter", "Seconds from claim to ack, of all acked claims together"),
    ("rollbacks", "counter", "Times that claims were given back, by a run that failed or because a lease ran out"),
    ("store_bytes", "gauge", "Bytes in the store"),
    ("store_capacity_bytes", "gauge", "Bytes that the store may hold"),
    ("schema_versions", "gauge", "Versions of table definitions held"),
    ("heartbeat_age_seconds", "gauge", "Time since anything was heard from the source"),
    ("lag_seconds", "gauge", "How far the store is behind the source"),
    ("stopped_tables", "gauge", "Tables that take no more changes, or whose change logs are blocked by their rows"),
    ("blocked_tables", "gauge", "Of these, tables whose rows break what is expected of them"),
    ("source_standby", "gauge", "1 while the standby is read instead of the master"),
    ("source_switches", "counter", "Switches to the other server that a heartbeat caused"),
    ("source_failed_heartbeats", "gauge", "Heartbeats that failed in a row, where detecting is on"),
    ("binlog_files_left", "gauge", "Binlog files older than the oldest cursor's that the source still keeps"),
    ("binlog_bytes_left", "gauge", "Bytes of binlog before the oldest cursor that the source still keeps"),
    ("binlog_seconds_left", "gauge", "Time until the source may purge the oldest cursor's file"),
)


class _Instances(Collector):
    def __init__(self, server: CanalServer, traffic: Traffic) -> None:
        self._server = server
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        found = all_destinations(self._server)
        numbers = {name: destination.metrics() for name, destination in found.items()}
        statuses = {name: destination.status() for name, destination in found.items()}
        yield from _infos(statuses, {name: destination.config for name, destination in found.items()})
        for key, kind, label, text in _CANAL:
            extra = {name: {label: statuses[name].source.address or ""} if label else {} for name in found}
            yield _family(f"canal_instance_{key}", kind, text, key, numbers, extra)
        for key, kind, text in _OURS:
            yield _family(f"sluice_{key}", kind, text, key, numbers, {})
        yield _stages(numbers)
        yield _holders(statuses)
        yield _stopped(statuses)
        yield _quarantined(statuses)
        yield from _clients(dict(self._traffic.items()))


def render(server: CanalServer, traffic: Traffic) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Instances(server, traffic))
    text = generate_latest(registry).decode()
    # In the header lines the library adds _total to a counter's name, which Canal's names do not have.
    return re.sub(r"^(# (?:HELP|TYPE) canal_instance_\w+)_total ", r"\1 ", text, flags=re.MULTILINE)


def _family(
    name: str, kind: str, text: str, key: str, numbers: dict[str, Metrics], extra: dict[str, dict[str, str]]
) -> Metric:
    metric = Metric(name, text, kind)
    sample = f"{name}_total" if kind == "counter" and name.startswith("sluice_") else name
    for destination, metrics in numbers.items():
        if (value := getattr(metrics, key)) is not None:
            metric.add_sample(sample, {"destination": destination, **extra.get(destination, {})}, float(value))
    return metric


def _stages(numbers: dict[str, Metrics]) -> Metric:
    help_text = "Seconds that the reader and the clients' rows spent, by stage"
    metric = Metric("sluice_stage_seconds", help_text, "counter")
    for destination, metrics in numbers.items():
        for stage, seconds in metrics.stage_seconds.items():
            metric.add_sample(f"{metric.name}_total", {"destination": destination, "stage": stage}, seconds)
    return metric


def _holders(statuses: dict[str, Status]) -> Metric:
    help_text = "How long a full store has been waiting for an ack of the client"
    metric = Metric("sluice_client_holds_back_seconds", help_text, "gauge")
    for name, status in statuses.items():
        for client in status.clients:
            if client.holds_back_seconds is not None:
                labels = {"destination": name, "client": str(client.client_id)}
                metric.add_sample(metric.name, labels, client.holds_back_seconds)
    return metric


def _stopped(statuses: dict[str, Status]) -> Metric:
    """The first tables by name have a sample each; `sluice_stopped_tables` counts all."""
    metric = Metric("sluice_stopped_table", "1 for a table that takes no more changes", "gauge")
    for name, status in statuses.items():
        for client in status.clients:
            for stop in sorted(client.halted, key=lambda stop: stop.table)[:_STOPPED]:
                labels = {"destination": name, "client": str(client.client_id), "table": stop.table, "kind": stop.kind}
                metric.add_sample(metric.name, labels, 1)
    return metric


def _quarantined(statuses: dict[str, Status]) -> Metric:
    """Of very many tables those with the most rows have a sample, and the others share one."""
    metric = Metric("sluice_quarantined_rows", "Rows that wait in the quarantine of a table", "gauge")
    for name, status in statuses.items():
        for client in status.clients:
            labels = {"destination": name, "client": str(client.client_id)}
            shown = bounded(client.quarantined, _WAITING)
            for table, rows in shown.items():
                metric.add_sample(metric.name, {**labels, "table": table}, rows)
            if others := sum(client.quarantined.values()) - sum(shown.values()):
                metric.add_sample(metric.name, {**labels, "table": "others"}, others)
    return metric


def _infos(statuses: dict[str, Status], configs: dict[str, InstanceConfig]) -> Iterator[Metric]:
    instance = Metric("canal_instance", "What serves the destination", "gauge")
    parser = Metric("canal_instance_parser_mode", "How the source is parsed", "gauge")
    store = Metric("canal_instance_store", "Batch mode and size of the store", "gauge")
    state = Metric("sluice_state", "The destination's state", "gauge")
    for name, status in statuses.items():
        mode = configs[name].batch_mode
        size = str(configs[name].buffer_size)
        instance.add_sample(instance.name, {"destination": name, "mode": "sluice"}, 1)
        parser.add_sample(parser.name, {"destination": name, "parallel": "false"}, 1)
        store.add_sample(store.name, {"destination": name, "batchMode": mode, "size": size}, 1)
        state.add_sample(state.name, {"destination": name, "state": status.state}, 1)
    yield from (instance, parser, store, state)


def _clients(calls: dict[str, CallCounts]) -> Iterator[Metric]:
    packets = Metric("canal_instance_client_packets", "Answers to clients by type", "counter")
    nbytes = Metric("canal_instance_client_bytes", "Bytes of rows sent to clients", "counter")
    empty = Metric("canal_instance_client_empty_batches", "Claims that found nothing", "counter")
    errors = Metric("canal_instance_client_request_error", "Requests refused, by status code", "counter")
    latency = HistogramMetricFamily(
        "canal_instance_client_request_latency", "Milliseconds that requests took", labels=["destination"]
    )
    for name, counts in calls.items():
        for packet, count in sorted(counts.packets.items()):
            packets.add_sample(packets.name, {"destination": name, "packetType": packet}, count)
        for code, count in sorted(counts.errors.items()):
            errors.add_sample(errors.name, {"destination": name, "errorCode": str(code)}, count)
        nbytes.add_sample(nbytes.name, {"destination": name}, counts.nbytes)
        empty.add_sample(empty.name, {"destination": name}, counts.empty)
        latency.add_metric([name], _buckets(counts), counts.total_ms)
    yield from (packets, nbytes, empty, errors, latency)


def _buckets(calls: CallCounts) -> list[tuple[str, float]]:
    bounds = [*map(str, BUCKETS_MS), "+Inf"]
    return [(bound, float(sum(calls.latency[: at + 1]))) for at, bound in enumerate(bounds)]
