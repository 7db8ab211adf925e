"""`sluice destination start|stop|reload NAME`: switches one destination of the running service."""

from __future__ import annotations

import json
from typing import Literal

from orchestration.commands.service import call, home
from orchestration.commands.status import show


def run(verb: Literal["start", "stop", "reload"], name: str, service: str, token: str, *, as_json: bool) -> int:
    """1 when the service refuses; a destination that fails after its start shows in `sluice status`."""
    status = call(service, token, "POST", f"{home(name)}/{verb}")
    if as_json:
        print(json.dumps(status))
    else:
        show([status])
    return 0
