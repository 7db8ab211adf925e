"""How much the store on disk may take with `auto`: 8 GiB, or a fifth of what the disk has for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

MOST_BYTES = 8 << 30
_SHARE = 5


def free_bytes(path: Path) -> int:
    """What the disk has free where a directory is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def room(path: Path, free: Callable[[Path], int] = free_bytes) -> int:
    """In bytes. What the directory holds already counts as free: a restart gives the same. Raises OSError."""
    held = sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else 0
    return min(MOST_BYTES, (free(path) + held) // _SHARE)
