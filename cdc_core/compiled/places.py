"""Where compiled kernels are kept.

A checkout keeps them next to its modules. The kernels of an installed package are in the user's cache, or in a folder
of /tmp that is the user's alone. NUMBA_CACHE_DIR names another place for both.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator

_INSTALLED = {"site-packages", "dist-packages"}


class InstalledLocator(UserWideCacheLocator):
    """Finds the folder of the kernels of an installed module."""

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> InstalledLocator | None:
        if _INSTALLED.isdisjoint(Path(py_file).parts):
            return None
        locator = cls(py_func, py_file)
        for folder in folders():
            locator._cache_path = str(folder / cls.get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]
            with suppress(OSError):
                locator.ensure_cache_path()  # type: ignore[no-untyped-call]
                break
        return locator  # where nothing can be written, kernels that came with the package are found all the same


LOCATORS: list[Any] = [UserProvidedCacheLocator, InstalledLocator, InTreeCacheLocator, UserWideCacheLocator]


def folders() -> Iterator[Path]:
    """Yields the folders that may take an installed package's kernels, best first."""
    with suppress(RuntimeError):  # there is no home directory
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "sluice" / "kernels"
    with suppress(OSError):
        own = Path(tempfile.gettempdir()) / f"sluice-kernels-{os.geteuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()  # what is loaded from there runs: nobody else may have made it, or write there
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            yield own
