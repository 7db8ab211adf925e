"""What one destination tells: its status for people and its numbers for `/metrics`. Looks at the parts, moves none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cdc_core.health import Health
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.session.figures import lag_seconds, session_metrics, store_figures
from cdc_core.session.serving import Serving
from cdc_core.source.checks import ServerInfo
from cdc_core.source.detecting import Detected
from cdc_core.source.dump import DumpStatus
from cdc_core.source.expiry import Expiry
from cdc_core.starting import Starting
from cdc_core.store.store import Store


@dataclass(frozen=True, slots=True)
class Telling:
    """The parts of an instance that have something to tell. `clock` is in epoch seconds."""

    destination: str
    address: str
    store: Store
    serving: Serving
    registry: SchemaRegistry
    dump: DumpStatus
    health: Health
    starting: Starting
    expiry: Expiry
    detected: Callable[[], Detected]
    clock: Callable[[], float]

    def status(self, state: str, server: ServerInfo | None, start: EntryPosition | None) -> dict[str, Any]:
        """`start`: the position to show while there is none in the ring."""
        ring, session = self.store.ring, self.serving.session
        with self.store.changed:
            position = ring.last_position or start
            return {
                "destination": self.destination,
                "state": state,
                "source": {
                    "address": self.address,
                    "version": server.version if server else None,
                    "server_id": server.server_id if server else None,
                    "connected": self.dump.connected,
                    **self.detected().to_dict(),
                },
                "start": self.starting.told,
                "binlog": self.expiry.told,
                "position": position.to_dict() if position else None,
                "store": store_figures(ring),
                "lag_seconds": lag_seconds(ring, self.clock()),
                "backlog_rows": ring.put.rows - min((m.ack.rows for m in ring.clients.values()), default=0),
                "clients": [self.serving.client(client_id) for client_id in sorted(session.clients)],
                "error": self.health.error_of(self.dump),
            }

    def metrics(self) -> dict[str, float | None]:
        """The numbers of `/metrics`, named in docs/architecture.md."""
        with self.store.changed:
            figures = session_metrics(self.store.ring, self.serving.session, self.clock())
            blocked = self.store.blocked_seconds * 1000
            stopped = sum(map(len, self.serving.stopped.values()))
        heard = self.dump.last_received
        return figures | {
            "traffic_delay": figures["put_delay"],
            "received_binlog_bytes": self.dump.received_bytes,
            "publish_blocking_time": blocked,
            "sink_blocking_time": blocked,
            "parse_errors": self.health.parse_errors,
            "reconnects": self.dump.reconnects,
            "leader": 1,
            "schema_versions": len(self.registry),
            "heartbeat_age_seconds": time.monotonic() - heard if heard else None,
            "stopped_tables": stopped,
            **self.expiry.metrics(),
            **self.detected().metrics(),
        }
