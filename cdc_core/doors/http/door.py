"""The HTTP door of a service."""

from __future__ import annotations

from cdc_core.doors.bounds import CONNECTIONS
from cdc_core.doors.certificate import Certificate
from cdc_core.doors.http.app import build_app
from cdc_core.doors.traffic import Traffic
from cdc_core.doors.web import WebDoor
from cdc_core.server.server import CanalServer


class HttpDoor(WebDoor):
    """Serves `server` on `host:port` between `start` and `stop`; port 0 binds a free port."""

    def __init__(
        self,
        server: CanalServer,
        host: str,
        port: int,
        token: str | None = None,
        traffic: Traffic | None = None,
        connections: int = CONNECTIONS,
        certificate: Certificate | None = None,
    ) -> None:
        app = build_app(server, host, token, traffic or Traffic(server.has))
        super().__init__(app, host, port, "canal.metrics.pull.port", connections, certificate)
