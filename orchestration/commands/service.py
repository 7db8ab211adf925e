"""One call of the service's HTTP door, for commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from cdc_core.client.failures import error_from, unavailable

_SECONDS = 60.0  # stopping a destination waits for its threads


def home(destination: str) -> str:
    return f"/v1/destinations/{quote(destination, safe='')}"


def call(service: str, token: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """The answer's JSON. Raises ServiceUnavailable, and what the service raised."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    url = service.rstrip("/") + path
    try:
        answer = httpx.request(method, url, headers=headers, json=body, timeout=_SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise unavailable(service, error) from error
    try:
        told = answer.json()
    except ValueError as error:
        raise unavailable(service, f"not an answer of the service ({answer.status_code})") from error
    if not answer.is_success:
        raise error_from(told)
    return told
