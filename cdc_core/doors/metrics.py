"""`/metrics`: Canal's metric names with their labels, and what is missing there under `sluice_`.

Read from the instances at each scrape, so that no gauge outlives what it measured. What an instance cannot tell
(None) has no sample, rather than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from cdc_core.doors.ports import ServerPort, instances
from cdc_core.doors.traffic import BUCKETS_MS, Calls, Traffic

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# (key of `Instance.metrics()`, type, labels beyond the destination, help); shown as canal_instance_{key}
_CANAL: tuple[tuple[str, str, str, str], ...] = (
    ("subscriptions", "gauge", "", "Clients that are subscribed"),
    ("traffic_delay", "gauge", "", "Delay of the newest transaction read, in milliseconds"),
    ("transactions", "counter", "", "Transactions received"),
    ("received_binlog_bytes", "counter", "parser", "Bytes of binlog received"),
    ("publish_blocking_time", "counter", "parser", "Milliseconds that the reader waited to hand on"),
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

# (key, type, help); shown as sluice_{key}, counters with _total
_OURS: tuple[tuple[str, str, str], ...] = (
    ("parse_errors", "counter", "Events that could not be decoded"),
    ("reconnects", "counter", "Connections to the source after the first"),
    ("leader", "gauge", "1 when this process serves the destination"),
    ("cursor_age_seconds", "gauge", "Age of the oldest client's cursor"),
    ("unacked_batches", "gauge", "Claims outstanding"),
    ("schema_versions", "gauge", "Versions of table definitions held"),
    ("heartbeat_age_seconds", "gauge", "Time since anything was heard from the source"),
    ("lag_seconds", "gauge", "How far the store is behind the source"),
    ("stopped_tables", "gauge", "Tables that take no more changes"),
    ("source_standby", "gauge", "1 while the standby is read instead of the master"),
    ("source_switches", "counter", "Switches to the other server that a heartbeat caused"),
    ("source_failed_heartbeats", "gauge", "Heartbeats that failed in a row, where detecting is on"),
    ("binlog_files_left", "gauge", "Binlog files older than the oldest cursor's that the source still keeps"),
    ("binlog_bytes_left", "gauge", "Bytes of binlog before the oldest cursor that the source still keeps"),
    ("binlog_seconds_left", "gauge", "Time until the source may purge the oldest cursor's file"),
)


class _Instances(Collector):
    def __init__(self, server: ServerPort, traffic: Traffic) -> None:
        self._server = server
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        told = instances(self._server)
        numbers = {name: instance.metrics() for name, instance in told.items()}
        statuses = {name: instance.status() for name, instance in told.items()}
        yield from _infos(statuses, {name: instance.config for name, instance in told.items()})
        for key, kind, label, text in _CANAL:
            extra = {name: {label: _parser(statuses[name])} if label else {} for name in told}
            yield _family(f"canal_instance_{key}", kind, text, key, numbers, extra)
        for key, kind, text in _OURS:
            yield _family(f"sluice_{key}", kind, text, key, numbers, {})
        yield from _clients(dict(self._traffic.items()))


def render(server: ServerPort, traffic: Traffic) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Instances(server, traffic))
    text = generate_latest(registry).decode()
    # The library ends each counter's name in _total, in the header lines alone; Canal's names have no such end.
    return re.sub(r"^(# (?:HELP|TYPE) canal_instance_\w+)_total ", r"\1 ", text, flags=re.MULTILINE)


def _family(
    name: str, kind: str, text: str, key: str, numbers: dict[str, dict[str, Any]], extra: dict[str, dict[str, str]]
) -> Metric:
    metric = Metric(name, text, kind)
    sample = f"{name}_total" if kind == "counter" and name.startswith("sluice_") else name
    for destination, values in numbers.items():
        if (value := values.get(key)) is not None:
            metric.add_sample(sample, {"destination": destination, **extra.get(destination, {})}, float(value))
    return metric


def _infos(statuses: dict[str, dict[str, Any]], configs: dict[str, Any]) -> Iterator[Metric]:
    instance = Metric("canal_instance", "What serves the destination", "gauge")
    parser = Metric("canal_instance_parser_mode", "How the source is parsed", "gauge")
    store = Metric("canal_instance_store", "Batch mode and size of the store", "gauge")
    state = Metric("sluice_state", "The destination's state", "gauge")
    for name, status in statuses.items():
        mode = getattr(configs[name], "batch_mode", "")
        size = str(getattr(configs[name], "buffer_size", ""))
        instance.add_sample(instance.name, {"destination": name, "mode": "sluice"}, 1)
        parser.add_sample(parser.name, {"destination": name, "parallel": "false"}, 1)
        store.add_sample(store.name, {"destination": name, "batchMode": mode, "size": size}, 1)
        state.add_sample(state.name, {"destination": name, "state": status["state"]}, 1)
    yield from (instance, parser, store, state)


def _parser(status: dict[str, Any]) -> str:
    return str(status["source"].get("address") or "")


def _clients(calls: dict[str, Calls]) -> Iterator[Metric]:
    packets = Metric("canal_instance_client_packets", "Answers to clients by type", "counter")
    nbytes = Metric("canal_instance_client_bytes", "Bytes of rows sent to clients", "counter")
    empty = Metric("canal_instance_client_empty_batches", "Claims that found nothing", "counter")
    errors = Metric("canal_instance_client_request_error", "Requests refused, by status code", "counter")
    latency = HistogramMetricFamily(
        "canal_instance_client_request_latency", "Milliseconds that requests took", labels=["destination"]
    )
    for name, told in calls.items():
        for packet, count in sorted(told.packets.items()):
            packets.add_sample(packets.name, {"destination": name, "packetType": packet}, count)
        for code, count in sorted(told.errors.items()):
            errors.add_sample(errors.name, {"destination": name, "errorCode": str(code)}, count)
        nbytes.add_sample(nbytes.name, {"destination": name}, told.nbytes)
        empty.add_sample(empty.name, {"destination": name}, told.empty)
        latency.add_metric([name], _buckets(told), told.total_ms)
    yield from (packets, nbytes, empty, errors, latency)


def _buckets(calls: Calls) -> list[tuple[str, float]]:
    bounds = [*map(str, BUCKETS_MS), "+Inf"]
    return [(bound, float(sum(calls.latency[: at + 1]))) for at, bound in enumerate(bounds)]
