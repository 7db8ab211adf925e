"""What the pages for people have in common: the filters of their templates, and headers that let nothing else load."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from starlette.responses import HTMLResponse

from cdc_core.position import EntryPosition

_NONE = "\u2013"


def environment(loader: BaseLoader) -> Environment:
    """Returns an environment with the filters of the pages."""
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"bytes": _bytes, "seconds": _seconds, "place": _place, "count": _count, "clock": _clock}
    return made


def page(environment: Environment, template: str, **values: Any) -> HTMLResponse:
    """Returns a page whose own styles and scripts alone are run, by a `nonce`."""
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
    return HTMLResponse(environment.get_template(template).render(nonce=nonce, **values), headers=headers)


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
