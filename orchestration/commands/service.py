"""One call to the service's HTTP door."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import quote

from cdc_core.client.calls import Calls
from cdc_core.client.trust import Trust, authorities
from cdc_core.contract.doors import Doors

_SECONDS = 60.0  # stopping a destination waits for its threads


def path_of(destination: str) -> str:
    """The resource of one destination."""
    return f"/v1/destinations/{quote(destination, safe='')}"


def call(service: str, token: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON of the answer. Raises ServiceUnavailable, and every error that the service reports."""
    doors = Doors(http=service.rstrip("/"), flight="")
    trust = Trust(authorities())
    with closing(Calls(doors, token=token or None, trust=trust, timeout_seconds=_SECONDS, follow_seconds=0)) as calls:
        return calls.call(method, path, body, repeat=method == "GET")
