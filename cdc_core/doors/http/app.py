"""The HTTP application: routes, the token, and errors as JSON.

It keeps nothing but counts: every answer is asked from the server object at that moment. `/healthz` and `/readyz` are
open to everybody, and say yes or no to those without access; all other paths need the token when there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from cdc_core.doors import errors
from cdc_core.doors.guard import Guard, failure, passes
from cdc_core.doors.http.control import control_router
from cdc_core.doors.http.metrics import CONTENT_TYPE, render
from cdc_core.doors.http.pages import docs_page, status_page
from cdc_core.doors.http.readiness import not_ready
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import SluiceError
from cdc_core.server.server import CanalServer


def build_app(server: CanalServer, host: str, token: str | None, traffic: Traffic) -> FastAPI:
    app = FastAPI(
        title="Sluice",
        version="1",
        description="Claim, ack and roll back ranges of MySQL's changes. Rows themselves come over Arrow Flight.",
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(control_router(server, traffic))
    app.add_middleware(Guard, host=host, token=token)
    _add_pages(app, server, traffic, partial(passes, host, token))
    _add_failures(app)
    return app


def _add_pages(app: FastAPI, server: CanalServer, traffic: Traffic, may_read: Callable[[Request], bool]) -> None:
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
    def ready(request: Request) -> Any:
        missing = not_ready(server)
        detail = {"not_ready": missing} if may_read(request) else {}
        return JSONResponse({"ready": not missing, **detail}, errors.AWAY if missing else 200)


def _add_failures(app: FastAPI) -> None:
    @app.exception_handler(SluiceError)
    async def ours(_: Request, error: SluiceError) -> JSONResponse:
        return failure(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(errors.invalid(list(error.errors())), 400)

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        body = errors.bad_request(str(error.detail), f"{request.method} {request.url.path}")
        return JSONResponse(body, error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse(errors.unexpected(error), 500)
