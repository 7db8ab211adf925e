"""The capture service as a child process: `sluice server --conf DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx

from orchestration.stack.process import Process


class Service(Process):
    """Ready when its readiness page says so, or, with `wait_ready=False`, as soon as its health page answers."""

    def __init__(
        self,
        conf: Path,
        directory: Path,
        *,
        http_port: int = 11112,
        host: str = "127.0.0.1",
        wait_ready: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.url = f"http://{host}:{http_port}"
        page = "readyz" if wait_ready else "healthz"
        super().__init__(
            "the capture service",
            [sys.executable, "-m", "orchestration.cli", "server", "--conf", str(conf)],
            log=directory / "service.log",
            ready=lambda: answers(f"{self.url}/{page}"),
            environment=environment,
            timeout=180,  # the first start compiles the decoder
        )


def answers(url: str) -> bool:
    """Whether that page answers with success."""
    try:
        return httpx.get(url, timeout=2, follow_redirects=True).is_success
    except httpx.HTTPError:
        return False
