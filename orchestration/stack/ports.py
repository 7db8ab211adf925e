"""The ports that people know: checked before anything starts, so that the error names the port and the remedy."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.errors import ConfigError
from orchestration.stack.home import listening


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the pages and the data are served, on the loopback address."""

    http: int = 11112
    flight: int = 11113
    dagster: int = 3000

    def check_free(self) -> None:
        """Raises ConfigError for the first port that somebody listens on."""
        for option, port in (("http", self.http), ("flight", self.flight), ("dagster", self.dagster)):
            if listening(port):
                raise ConfigError(
                    f"port {port} is taken",
                    place=f"127.0.0.1:{port}",
                    hint=f"Stop what listens there, or choose another port with --{option}-port.",
                )
