"""The pages for people: the status at `/`, the calls at `/docs`. They load nothing from other hosts.

The status page works without JavaScript; with it, the page fetches its body every two seconds.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from cdc_core.doors.all_destinations import all_destinations
from cdc_core.position import EntryPosition
from cdc_core.server.server import CanalServer

_NONE = "\u2013"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("cdc_core.doors.http"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": _bytes, "seconds": _seconds, "place": _place, "count": _count, "clock": _clock}
    return environment


def status_page(server: CanalServer, part: str = "") -> HTMLResponse:
    """The whole page, or with `part="body"` the part that changes."""
    now = time.time()
    destinations = [(found.status(), found.metrics()) for found in all_destinations(server).values()]
    return _page("body.html" if part == "body" else "status.html", destinations=destinations, now=now)


def docs_page(document: dict[str, Any]) -> HTMLResponse:
    """The OpenAPI document as a page."""
    return _page("docs.html", document=document, operations=_operations(document))


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls, each with the fields of its body."""
    schemas = document.get("components", {}).get("schemas", {})
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            schema = schemas.get(body.get("$ref", "").rpartition("/")[2], {})
            fields = [_field(name, field, schema) for name, field in schema.get("properties", {}).items()]
            found.append({"method": method.upper(), "path": path, "fields": fields, **operation})
    return found


def _field(name: str, field: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    types = [part.get("type") or part.get("$ref", "").rpartition("/")[2] for part in field.get("anyOf", [field])]
    return {
        "name": name,
        "type": " or ".join(types),
        "required": name in schema.get("required", []),
        "description": field.get("description", ""),
        "example": (field.get("examples") or [None])[0],
    }


def _page(template: str, **values: Any) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(nonce=nonce, **values), headers=headers)


def _bytes(value: float) -> str:
    for unit in ("B", "KB", "MB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def _seconds(value: float | None) -> str:
    """A duration for people."""
    if value is None:
        return _NONE
    if value < 10:
        return f"{max(value, 0):.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _place(position: EntryPosition | None) -> str:
    return _NONE if position is None else str(position)


def _count(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}".replace(",", "\u202f")


def _clock(value: float) -> str:
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_ENVIRONMENT = _environment()
