"""The URLs of a server's doors, as it writes them to `/otter/sluice/cluster/{ip:port}` and clients read them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Doors:
    """`http` and `flight` are URLs."""

    http: str
    flight: str

    @classmethod
    def at(cls, host: str, http_port: int, flight_port: int, *, tls: bool) -> Doors:
        """Those of a service; an IPv6 address is in brackets."""
        return cls(
            f"http{'s' if tls else ''}://{host}:{http_port}", f"grpc{'+tls' if tls else ''}://{host}:{flight_port}"
        )

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Doors:
        """Raises ValueError."""
        try:
            fields = json.loads(value)
            return cls(str(fields["http"]), str(fields["flight"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"this does not describe the doors of a server: {value[:200]!r}") from error
