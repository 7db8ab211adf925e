"""Lines in a run's log about a batch that takes its time: that it has begun, and what of it is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cdc_core.contract.claim import Claim

MOMENT = 1.0  # seconds; a batch that takes less has its line when it is acked
EVERY = 10.0


@contextmanager
def telling(
    say: Callable[[str], None], claim: Claim, progress: object, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Says meanwhile, from a thread, that the batch has begun, and every ten seconds what `progress` shows."""
    over, began = threading.Event(), clock()

    def run() -> None:
        if over.wait(MOMENT):
            return
        say(f"batch {claim.batch_id} begins: {_size(claim)}, {claim.start} to {claim.end}")
        while not over.wait(EVERY):
            say(f"batch {claim.batch_id} after {clock() - began:.0f} s: {progress}")

    thread = threading.Thread(target=run, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _size(claim: Claim) -> str:
    statements = f", {len(claim.ddl):,} statements" if claim.ddl else ""
    return f"{claim.rows:,} rows of {len(claim.tables):,} tables{statements}"
