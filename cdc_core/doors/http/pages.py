"""The pages for people: the status at `/`, the calls at `/docs`. They load nothing from other hosts.

The status page works without JavaScript; with it, the page fetches its body every two seconds.
"""

from __future__ import annotations

import time
from typing import Any

from jinja2 import PackageLoader
from starlette.responses import HTMLResponse

from cdc_core.contract.stages import STAGES
from cdc_core.doors.all_destinations import all_destinations
from cdc_core.doors.html import environment, page
from cdc_core.server.server import CanalServer

_EVERY = 2  # seconds


def status_page(server: CanalServer, part: str = "") -> HTMLResponse:
    """The whole page, or with `part="body"` the part that changes."""
    now = time.time()
    destinations = [(found.status(), found.metrics()) for found in all_destinations(server).values()]
    return page(
        _ENVIRONMENT,
        "body.html" if part == "body" else "status.html",
        destinations=destinations,
        now=now,
        stages=STAGES,
        who="service",
        every=_EVERY,
    )


def docs_page(document: dict[str, Any]) -> HTMLResponse:
    """The OpenAPI document as a page."""
    return page(_ENVIRONMENT, "docs.html", document=document, operations=_operations(document))


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


_ENVIRONMENT = environment(PackageLoader("cdc_core.doors.http"))
