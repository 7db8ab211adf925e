"""The error of a service that does not answer."""

from __future__ import annotations

from cdc_core.errors import ServiceUnavailable


def unavailable(url: str, reason: object) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"the service does not answer: {reason}",
        place=url,
        hint="Start it (`sluice up`; alone, `sluice server`), or say where it runs (--service, SLUICE_SERVICE).",
    )
