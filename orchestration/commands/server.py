"""`sluice server`: the capture service in the foreground. Its log is JSON wherever it is not a terminal."""

from __future__ import annotations

import json
from pathlib import Path

from cdc_core.config import load_service
from cdc_core.serve import serve


def run(conf: Path, *, as_json: bool) -> int:
    """Returns after SIGTERM or SIGINT."""
    service, _ = load_service(conf)
    if as_json:
        print(json.dumps({"http": service.http_port, "flight": service.flight_port}), flush=True)
    return serve(conf)
