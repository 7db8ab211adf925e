"""The pages for people: status at `/`, the calls at `/docs`. Each is one file, with nothing from elsewhere.

The status page is whole without JavaScript; with it, it fetches its body anew every two seconds.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from cdc_core.doors.ports import InstancePort, ServerPort, instances

_NONE = "\u2013"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("cdc_core.doors"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": _bytes, "seconds": _seconds, "place": _place, "count": _count, "clock": _clock}
    return environment


def status_page(server: ServerPort, part: str = "") -> HTMLResponse:
    """The whole page, or with `part="body"` what of it changes."""
    now = time.time()
    destinations = [_shown(instance) for instance in instances(server).values()]
    return _page("body.html" if part == "body" else "status.html", destinations=destinations, now=now)


def docs_page(document: dict[str, Any]) -> HTMLResponse:
    """The OpenAPI document as a page."""
    return _page("docs.html", document=document, operations=_operations(document))


def _shown(instance: InstancePort) -> dict[str, Any]:
    return {**instance.status(), "reconnects": instance.metrics().get("reconnects")}


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    """A flat list of the calls with the fields of their bodies."""
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
    """A length of time, short."""
    if value is None:
        return _NONE
    if value < 10:
        return f"{max(value, 0):.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _place(position: dict[str, Any] | None) -> str:
    return _NONE if position is None else f"{position['journalName']}:{position['position']}"


def _count(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}".replace(",", "\u202f")


def _clock(value: float) -> str:
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_ENVIRONMENT = _environment()
