"""Whom a client trusts: the authorities that may sign a service's certificate, and the servers that get its token.

Anybody who may write to ZooKeeper can write a server's address there, and a token that was sent is not secret any more.
It goes to an address from ZooKeeper only if that is on this machine, if its host is one of `hosts`, if the server must
show a certificate of `ca`, or if ZooKeeper's access lists let only our account write the node.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from cdc_core.contract.doors import Doors
from cdc_core.contract.host import is_loopback
from cdc_core.errors import AccessDenied, ConfigError

CA_VARIABLE = "SLUICE_CA"  # of the environment: a PEM file of authorities
_TLS = ("https", "grpc+tls")


@dataclass(frozen=True, slots=True)
class Trust:
    """`ca`: certificates of authorities as PEM text; without it those of the system. `hosts`: patterns of host names
    and addresses, as `*.example.org` and `10.1.*`."""

    ca: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext:
        """For HTTP. Raises ConfigError for an invalid `ca`."""
        try:
            return _context(self.ca)
        except ssl.SSLError as error:
            raise ConfigError(
                f"this is not a PEM file of certificates: {error.reason or error}",
                place="ca",
                hint="Give a PEM file of them.",
            ) from error

    def check(self, doors: Doors, place: str, closed: Callable[[], bool]) -> None:
        """Raises AccessDenied for doors in ZooKeeper that may not have the token. `closed`: whether only our
        account can have written them."""
        doubtful = [url for url in (doors.http, doors.flight) if not self._trusts(url)]
        if not doubtful or closed():
            return
        host = urlsplit(doubtful[0]).hostname or doubtful[0]
        raise AccessDenied(
            f"ZooKeeper names {doubtful[0]}, a host that may not get the token: anybody could have written that",
            place=place,
            hint=f"If this is a server of yours, list its host: `hosts: ['{host}']` under `service` in defs.yaml. Or "
            "give the service sluice.zk.auth and its clients SLUICE_ZK_AUTH, so that ZooKeeper lets nobody else write "
            "there; or use TLS, with the authority in `ca`.",
        )

    def _trusts(self, url: str) -> bool:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if is_loopback(host) or any(fnmatchcase(host, pattern.lower()) for pattern in self.hosts):
            return True
        return bool(self.ca) and parts.scheme in _TLS


@lru_cache(maxsize=16)
def _context(ca: str) -> ssl.SSLContext:
    """Shared by all clients of the process: to read the system's authorities takes 20 ms, longer than most calls."""
    return ssl.create_default_context(cadata=ca or None)


def read_authorities(path: str | Path | None) -> str:
    """The text of a PEM file with certificates of authorities; "" without a path. Raises ConfigError."""
    if not path:
        return ""
    try:
        text = Path(path).read_text("ascii")
        Trust(text).context()
    except (OSError, ValueError, ConfigError) as error:
        why = error.strerror if isinstance(error, OSError) else getattr(error, "message", "it is not PEM")
        raise ConfigError(
            f"the authorities cannot be read: {why}", place=str(path), hint="Give a readable PEM file of certificates."
        ) from error
    return text


def authorities(configured: str | Path | None = None) -> str:
    """The text of the file that the environment names, else of this one. Raises ConfigError."""
    return read_authorities(os.environ.get(CA_VARIABLE) or configured)


def roots_for(url: str, ca: str) -> bytes | None:
    """What Flight checks a server's certificate against; None for a door without TLS, and for gRPC's own."""
    if not url.startswith("grpc+tls:"):
        return None
    system = ssl.get_default_verify_paths().cafile
    return ca.encode() if ca else Path(system).read_bytes() if system else None
