"""TCP ports on the loopback address: free ones, taken ones, and well-known ones."""

from __future__ import annotations

import contextlib
import random
import socket
from dataclasses import dataclass
from pathlib import Path

import httpx

from cdc_core.client.trust import Trust
from cdc_core.errors import ConfigError

_FIRST = 20_000  # the first port to choose from
_FEWEST = 1_000  # so many are enough to choose from
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_RANDOM = random.SystemRandom()


def free_port(rng: random.Random = _RANDOM) -> int:
    """Returns a port that nobody listens on at this moment. If possible no outgoing connection is given it, so that a
    server that is started again at its port finds it free."""
    end = _first_outgoing()
    while True:
        port = rng.randrange(_FIRST, end) if end >= _FIRST + _FEWEST else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])


def _first_outgoing() -> int:
    """Returns the lowest port that the system gives to outgoing connections, or 0 if it does not say."""
    try:
        return int(_OUTGOING.read_text().split()[0])
    except OSError:
        return 0


def listening(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a process accepts connections on that port."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def answers(url: str, ca: str = "") -> bool:
    """Whether that page answers with success. `ca`: the authorities of its certificate, as PEM text."""
    try:
        return httpx.get(url, timeout=2, follow_redirects=True, verify=Trust(ca).context()).is_success
    except httpx.HTTPError:
        return False


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the pages and the data are served."""

    http: int = 11112
    flight: int = 11113
    dagster: int = 3000

    def check_free(self) -> None:
        """Raises ConfigError for the first port that is taken: before anything starts, and with its option."""
        for option, port in (("http", self.http), ("flight", self.flight), ("dagster", self.dagster)):
            if listening(port):
                raise ConfigError(
                    f"port {port} is taken",
                    place=f"127.0.0.1:{port}",
                    hint=f"Stop what listens there, or choose another port with --{option}-port.",
                )
