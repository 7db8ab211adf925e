"""The numbers that a destination gives to the metrics page."""

KEYS = (
    *("subscriptions", "traffic_delay", "transactions", "received_binlog_bytes", "publish_blocking_time"),
    *("sink_blocking_time", "store_produce_seq", "store_consume_seq", "store_produce_mem", "store_consume_mem"),
    *("put_delay", "get_delay", "ack_delay", "put_rows", "get_rows", "ack_rows"),
    *("parse_errors", "reconnects", "leader", "cursor_age_seconds", "unacked_batches", "schema_versions"),
    *("oldest_claim_seconds", "acked_claims", "claim_seconds", "rollbacks", "store_bytes", "store_capacity_bytes"),
    *("heartbeat_age_seconds", "lag_seconds", "stopped_tables", "blocked_tables"),
)
