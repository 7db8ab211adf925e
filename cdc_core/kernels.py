"""Compiled kernels on disk: numba's cache of one module does not notice that a helper in another module has changed.

Hence each package with kernels drops what is older than any of its sources, before it loads them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def forget_stale(package: Path) -> None:
    """Drops compiled kernels below `package` that are older than its newest source."""
    newest = max(source.stat().st_mtime for source in package.rglob("*.py"))
    for cached in package.rglob("*.nb[ci]"):
        with suppress(OSError):  # somebody else was faster, or the installation is read-only
            if cached.stat().st_mtime < newest:
                cached.unlink()
