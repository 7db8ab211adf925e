"""The HTTP door: control calls under `/v1`, pages for people, `/metrics`, `/healthz` and `/readyz`."""

from cdc_core.doors.http.door import HttpDoor

__all__ = ["HttpDoor"]
