"""The capture service as a child process: `sluice server --conf DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

from orchestration.stack.ports import answers
from orchestration.stack.process import Process


class Service(Process):
    """Ready when every destination is. With `wait_ready=False` it is ready as soon as it answers. `url`: its HTTP door,
    if it is not at `host` and `http_port`; `ca`: the authorities of its certificate, as PEM text."""

    def __init__(
        self,
        conf: Path,
        directory: Path,
        *,
        http_port: int = 11112,
        host: str = "127.0.0.1",
        url: str = "",
        ca: str = "",
        wait_ready: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.url = url or f"http://{host}:{http_port}"
        page = "readyz" if wait_ready else "healthz"
        super().__init__(
            "the capture service",
            [sys.executable, "-m", "orchestration.cli", "server", "--conf", str(conf)],
            log=directory / "service.log",
            ready=lambda: answers(f"{self.url}/{page}", ca),
            environment=environment,
            timeout=180,  # the first start compiles the decoder
        )
