"""TCP ports on the loopback address: free ones, taken ones, and those that people know."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import httpx

from cdc_core.errors import ConfigError


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a process accepts connections on that port."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def answers(url: str) -> bool:
    """Whether that page answers with success."""
    try:
        return httpx.get(url, timeout=2, follow_redirects=True).is_success
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
