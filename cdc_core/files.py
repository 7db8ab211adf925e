"""Files that survive a crash, and files that their owner alone may read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def private(path: str, flags: int) -> int:
    """Opens a file that its owner alone may read; also one that exists already."""
    opened = os.open(path, flags | os.O_CLOEXEC, 0o600)
    os.fchmod(opened, 0o600)
    return opened


def replace_file(path: Path, content: bytes, opener: Callable[[str, int], int] | None = None) -> None:
    """Writes a file as a whole or not at all, and syncs it and its directory to disk. Raises OSError."""
    fresh = path.with_name(path.name + ".new")
    with open(fresh, "wb", opener=opener) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
