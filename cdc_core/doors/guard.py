"""Refuses an HTTP request without access before anything else reads it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from cdc_core.doors import errors
from cdc_core.doors.access import check_host, check_origin, check_token
from cdc_core.errors import AccessDenied, SluiceError

_OPEN = ("/healthz", "/readyz")


class Guard:
    """The middleware of a door that is bound to `host`. `/healthz` and `/readyz` are open to everybody."""

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app, self._host, self._token = app, host, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            try:
                check_request(self._host, self._token, Request(scope))
            except AccessDenied as error:
                await failure(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_request(host: str, token: str | None, request: Request) -> None:
    """Raises AccessDenied."""
    reading, headers = request.method in ("GET", "HEAD"), request.headers
    if not token:
        check_host(host, headers.get("host", ""))
    if not reading:
        check_origin(headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site"))
    check_token(token, headers.get("authorization"), reading=reading)


def passes(host: str, token: str | None, request: Request) -> bool:
    """Whether the request has access."""
    try:
        check_request(host, token, request)
    except AccessDenied:
        return False
    return True


def failure(error: SluiceError) -> JSONResponse:
    """The answer for an error."""
    status = errors.status_of(error)
    headers = {"WWW-Authenticate": 'Basic realm="sluice", charset="UTF-8"'} if status == 401 else None
    return JSONResponse(error.as_dict(), status, headers=headers)
