"""The monitor's door: its page and its metrics, with the access rules of the service's door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from cdc_core.contract.host import is_loopback
from cdc_core.doors.certificate import Certificate, CertificateFiles
from cdc_core.doors.guard import Guard
from cdc_core.doors.web import WebDoor
from cdc_core.errors import ConfigError
from cdc_core.monitor.history import LagHistory
from cdc_core.monitor.looking import ClusterMonitor
from cdc_core.monitor.metrics import CONTENT_TYPE, render
from cdc_core.monitor.page import MonitorPage


def monitor_door(
    monitor: ClusterMonitor,
    history: LagHistory,
    host: str,
    port: int,
    token: str | None = None,
    tls: tuple[Path, Path] | None = None,
    notes: Callable[[], Sequence[str]] = tuple,
) -> WebDoor:
    """`tls`: the PEM files of a certificate and its key, which may be renewed. Raises ConfigError for files that do not
    fit, and where other hosts could read without a token."""
    if not token and not is_loopback(host):
        hint = "Set SLUICE_TOKEN, or leave --host at 127.0.0.1."
        raise ConfigError("without a token, every host that reaches this address can read", place=host, hint=hint)
    page = MonitorPage(lambda: monitor.findings, history, monitor.every, notes)

    def status(request: Request) -> Any:
        return page.answer(request.query_params.get("part", ""))

    def metrics(_: Request) -> Any:
        return PlainTextResponse(render(monitor.findings), media_type=CONTENT_TYPE)

    async def alive(_: Request) -> Any:
        return JSONResponse({"status": "alive"})

    app = Starlette(routes=[Route("/", status), Route("/metrics", metrics), Route("/healthz", alive)])
    app.add_middleware(Guard, host=host, token=token)
    certificate = Certificate(CertificateFiles(*tls, ("--tls-certificate", "--tls-key"))) if tls else None
    if certificate is not None:
        certificate.start()
    return WebDoor(app, host, port, "--port", certificate=certificate)
