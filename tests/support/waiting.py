"""Waits for what comes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    """What `condition` gives when it gives something. It is asked less and less often: many answers cost more than the
    work that they wait for."""
    start = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - start
        assert waited < seconds, "it did not come"
        time.sleep(pause_after(waited))
    return found


def pause_after(waited: float) -> float:
    """How long to wait until the next look, in seconds, when this long was waited: a tenth more, a second at most."""
    return min(max(waited / 10, 0.02), 1.0)
