"""The URLs of a server's doors, as it writes them to `/otter/sluice/cluster/{ip:port}` and clients read them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from cdc_core.config.models import ServiceConfig
from cdc_core.contract.host import this_host

_ANY = ("", "0.0.0.0", "::")  # noqa: S104


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
            raise ValueError(f"this is not a description of a server's doors: {value[:200]!r}") from error


def reached_at(config: ServiceConfig) -> str:
    """The address at which others find this server: `canal.register.ip`, else the one that is bound."""
    if config.register_ip:
        return config.register_ip
    return this_host() if config.host in _ANY else config.host


def doors_of(config: ServiceConfig) -> Doors:
    """Where others find them."""
    return _doors_at(reached_at(config), config)


def local_doors(config: ServiceConfig) -> Doors:
    """Where programs of this machine find them: at the address that is bound, or at the one for others, which is that
    of the certificate."""
    return _doors_at(reached_at(config) if config.tls_certificate else config.host, config)


def _doors_at(host: str, config: ServiceConfig) -> Doors:
    shown = f"[{host}]" if ":" in host else host
    return Doors.at(shown, config.http_port, config.flight_port, tls=config.tls_certificate is not None)
