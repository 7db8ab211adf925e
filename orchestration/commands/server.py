"""`sluice server`: the capture service in the foreground. Its log is JSON unless it goes to a terminal."""

from __future__ import annotations

import gc
import json
from pathlib import Path


def run(conf: Path, *, as_json: bool) -> int:
    """Returns after SIGTERM or SIGINT."""
    gc.disable()  # imports make no garbage; `serve` turns the collector on again
    from cdc_core.config import load_service
    from cdc_core.serve import serve

    service, _ = load_service(conf)
    if as_json:
        ports = {"http": service.http_port, "flight": service.flight_port}
        ports |= {"tcp": service.port} if service.serves_tcp else {}
        ports |= {"admin": service.admin_port} if service.serves_admin else {}
        print(json.dumps(ports), flush=True)
    return serve(conf)
