"""The numbers of one destination that `/metrics` shows. None is unknown: it has no sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Metrics:
    """The first fields are Canal's metrics; delays and blocking times are in milliseconds, as there. A server that does
    not run the destination knows only `leader`."""

    leader: int = 0
    subscriptions: int | None = None
    transactions: int | None = None
    received_binlog_bytes: int | None = None
    publish_blocking_time: float | None = None
    sink_blocking_time: float | None = None
    store_produce_seq: int | None = None
    store_consume_seq: int | None = None
    store_produce_mem: int | None = None
    store_consume_mem: int | None = None
    put_rows: int | None = None
    get_rows: int | None = None
    ack_rows: int | None = None
    traffic_delay: float | None = None
    put_delay: float | None = None
    get_delay: float | None = None
    ack_delay: float | None = None
    cursor_age_seconds: float | None = None
    unacked_batches: int | None = None
    oldest_claim_seconds: float | None = None
    acked_claims: int | None = None
    claim_seconds: float | None = None
    rollbacks: int | None = None
    store_bytes: int | None = None
    store_capacity_bytes: int | None = None
    lag_seconds: float | None = None
    parse_errors: int | None = None
    reconnects: int | None = None
    schema_versions: int | None = None
    heartbeat_age_seconds: float | None = None
    stopped_tables: int | None = None
    blocked_tables: int | None = None
    source_standby: int | None = None
    source_switches: int | None = None
    source_failed_heartbeats: int | None = None
    binlog_files_left: int | None = None
    binlog_bytes_left: int | None = None
    binlog_seconds_left: float | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)  # by stage; the others are numbers
