"""`sluice destination start|stop|reload NAME`: starts, stops or reloads one destination of the running service."""

from __future__ import annotations

import json
from typing import Literal

from cdc_core.contract.status import Status
from orchestration.commands.service import call, path_of
from orchestration.commands.status import show


def run(verb: Literal["start", "stop", "reload"], name: str, service: str, token: str, *, as_json: bool) -> int:
    """0 when the service has done it. A destination that fails after its start shows so in `sluice status`."""
    status = Status.from_dict(call(service, token, "POST", f"{path_of(name)}/{verb}"))
    if as_json:
        print(json.dumps(status.to_dict()))
    else:
        show([status])
    return 0
