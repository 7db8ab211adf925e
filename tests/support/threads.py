"""Work that goes on during a test, in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

Over = Callable[[float], bool]
"""Waits so many seconds, and says whether the work is over."""


@contextmanager
def beside(*works: Callable[[Over], None]) -> Iterator[None]:
    """Each work goes on until the block ends and stops it. What one of them raises is raised after the block."""
    over = threading.Event()
    with ThreadPoolExecutor(len(works)) as pool:
        ended = [pool.submit(work, over.wait) for work in works]
        try:
            yield
        finally:
            over.set()
    for one in ended:
        one.result()
