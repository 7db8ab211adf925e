"""A source that nobody writes: what copies and comparisons wait for there would not come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

from spark_jobs.load import hold
from spark_jobs.snapshot import place
from spark_jobs.verify import standing


@contextmanager
def quiet_source() -> Iterator[None]:
    """In the block, nothing is claimed that would come later, and what is written is shown at once. For tests of
    values: those of writes in between need the waits."""
    held = partial(hold.held, wait=0.05)
    with (
        mock.patch.object(hold, "held", held),
        mock.patch.object(standing, "held", held),
        mock.patch.object(place, "_SETTLE_SECONDS", 0.05),
    ):
        yield
