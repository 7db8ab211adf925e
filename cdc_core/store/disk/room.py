"""How much the store on disk may take with `auto`: 8 GiB, or a fifth of what the disk has for it if that is less.

The stores in the same directory share that fifth evenly. It is a share of what is free at the moment, and nothing is
reserved: so it is to be asked again from time to time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from cdc_core.store.disk.volumes import VOLUME_BYTES, is_store

MOST_BYTES = 8 << 30
_SHARE = 5
_VOLUMES = 8  # that a small room has at least, since files are removed as a whole
_LEAST_VOLUME = 4 << 20


def free_bytes(path: Path) -> int:
    """What the disk has free where a directory is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def room(path: Path, free: Callable[[Path], int] = free_bytes) -> int:
    """In bytes. What the directory holds already counts as free: a restart gives the same. Raises OSError."""
    held = sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else 0
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    stores = 1 + sum(one != path and is_store(one) for one in beside)
    return min(MOST_BYTES, (free(path) + held) // _SHARE // stores)


def volume_bytes(room: int) -> int:
    """How large each file is where there is so much room."""
    return min(VOLUME_BYTES, max(_LEAST_VOLUME, room // _VOLUMES))
