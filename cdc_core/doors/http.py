"""The HTTP door: control calls, pages, health and metrics, served by a thread of this process.

Thin on purpose: what it tells it asks from the server object at that moment, and it keeps nothing but counts.
`/healthz` and `/readyz` are open; everything else asks for the token when there is one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from cdc_core.doors import failures
from cdc_core.doors.access import check_host, check_token
from cdc_core.doors.address import bracketed, listen
from cdc_core.doors.control import control_router
from cdc_core.doors.health import not_ready
from cdc_core.doors.metrics import CONTENT_TYPE, render
from cdc_core.doors.pages import docs_page, status_page
from cdc_core.doors.ports import ServerPort
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import AccessDenied, ConfigError, SluiceError

_OPEN = ("/healthz", "/readyz")
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0  # waiting claims look up once a second


class HttpDoor:
    """Serves `server` on `host:port` between `start` and `stop`; port 0 takes a free one."""

    def __init__(
        self, server: ServerPort, host: str, port: int, token: str | None = None, traffic: Traffic | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._app = build_app(server, host, token, traffic or Traffic())
        self._uvicorn: _Uvicorn | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<HttpDoor {self.url}{'' if self._thread else ' closed'}>"

    @property
    def url(self) -> str:
        return f"http://{bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Returns when calls are answered. Raises ConfigError when the port cannot be had."""
        listener = listen(self.host, self.port, "canal.metrics.pull.port")
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
        )
        self._uvicorn = _Uvicorn(config)
        self._thread = threading.Thread(target=self._uvicorn.run, args=([listener],), name="http door", daemon=True)
        self._thread.start()
        _await_started(self._uvicorn, self._thread, self.url)

    def stop(self) -> None:
        if self._uvicorn is None or self._thread is None:
            return
        self._uvicorn.end()
        self._thread.join(_STOP_SECONDS)
        self._thread = None


def build_app(server: ServerPort, host: str, token: str | None, traffic: Traffic) -> FastAPI:
    app = FastAPI(
        title="Sluice",
        version="1",
        description="Claim, ack and roll back ranges of MySQL's changes. Rows themselves come over Arrow Flight.",
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(control_router(server, traffic))
    app.add_middleware(_Guard, host=host, token=token)
    _add_pages(app, server, traffic)
    _add_failures(app)
    return app


def _add_pages(app: FastAPI, server: ServerPort, traffic: Traffic) -> None:
    @app.get("/", include_in_schema=False)
    def status(part: str = "") -> Any:
        return status_page(server, part)

    @app.get("/docs", include_in_schema=False)
    def docs() -> Any:
        return docs_page(app.openapi())

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Any:
        return PlainTextResponse(render(server, traffic), media_type=CONTENT_TYPE)

    @app.get("/healthz", include_in_schema=False)
    async def alive() -> Any:
        return {"status": "alive"}

    @app.get("/readyz", include_in_schema=False)
    def ready() -> Any:
        missing = not_ready(server)
        return JSONResponse({"ready": not missing, "not_ready": missing}, failures.AWAY if missing else 200)


def _add_failures(app: FastAPI) -> None:
    @app.exception_handler(SluiceError)
    async def ours(_: Request, error: SluiceError) -> JSONResponse:
        return _failure(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(failures.invalid(list(error.errors())), 400)

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        told = failures.bad_request(str(error.detail), f"{request.method} {request.url.path}")
        return JSONResponse(told, error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse(failures.unexpected(error), 500)


def _failure(error: SluiceError) -> JSONResponse:
    status = failures.status_of(error)
    headers = {"WWW-Authenticate": 'Basic realm="sluice", charset="UTF-8"'} if status == 401 else None
    return JSONResponse(error.as_dict(), status, headers=headers)


class _Guard:
    """Lets pass who may, before anything else looks at the request."""

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app = app
        self._host = host
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            try:
                self._check(Request(scope))
            except AccessDenied as error:
                await _failure(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, request: Request) -> None:
        if not self._token:
            check_host(self._host, request.headers.get("host", ""))
        reading = request.method in ("GET", "HEAD")
        check_token(self._token, request.headers.get("authorization"), reading=reading)


class _Uvicorn(uvicorn.Server):
    """Sleeps until it is told to end, where uvicorn's own loop looks ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = threading.Event()
        self._wake: Callable[[], object] = lambda: None

    def end(self) -> None:
        self._told.set()
        self._wake()

    async def main_loop(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._wake = partial(_if_open, loop, ended.set)
        if not self._told.is_set():
            await ended.wait()


def _if_open(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # closed: it has ended
        loop.call_soon_threadsafe(call)


def _await_started(server: _Uvicorn, thread: threading.Thread, url: str) -> None:
    waited = threading.Event()
    for _ in range(int(_START_SECONDS / 0.02)):
        if server.started:
            return
        if not thread.is_alive():
            break
        waited.wait(0.02)
    server.end()
    raise ConfigError("the HTTP door did not open", place=url, hint="The service's log has the reason.")
