"""Returns memory to the system: large buffers as soon as they are freed, the compiler's code after the start.

Works on Linux with glibc. Elsewhere, or where the system refuses, the process just keeps the memory.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h
_SOON = 5.0  # seconds
_collects = threading.Lock()  # held while a collection is due
LARGE = 1 << 20  # a chunk of rows and its columns are smaller: their memory is soon used again


def give_back() -> None:
    """From now on large buffers, Arrow's among them, return to the system when they are freed, in any thread.

    By default glibc keeps up to 64 MB a thread."""
    libc = _glibc()
    if libc is None:
        return
    for option, value in ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, LARGE), (_TRIM_THRESHOLD, 4 * LARGE)):
        libc.mallopt(option, value)
    pa.set_memory_pool(pa.system_memory_pool())


def preload(names: Sequence[str]) -> None:
    """Imports modules for processes that are forked from this one. They share the memory, and garbage collection
    passes over it. Raises what an import raises."""
    gc.disable()  # imports make no garbage: without the collector they take two thirds of the time
    try:
        for name in names:
            import_module(name)
    finally:
        settle()


def settle() -> None:
    """Excludes what the start has made from garbage collection, and enables the collector again."""
    forget_compiler()
    gc.freeze()
    gc.enable()


def collect_soon(seconds: float = _SOON) -> None:
    """Collects all garbage a little later, once for all calls until then: a capture that has ended, with its ring and
    the files it has mapped, refers to itself, and the collector would look at it only after some 80,000 new objects."""
    if not _collects.acquire(blocking=False):
        return
    timer = threading.Timer(seconds, _collect)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:  # there are too many threads: the collector finds it later
        _collects.release()


def _collect() -> None:
    _collects.release()
    gc.collect()


def forget_compiler() -> None:
    """Drops the pages of LLVM's library. It has compiled the kernels and is rarely needed again; then the system reads
    the pages from the file."""
    libc = _glibc()
    if libc is None:
        return
    for line in Path("/proc/self/maps").read_text("ascii", "replace").splitlines():
        if "llvmlite" in line and " r-xp " in line:  # code pages are never written to: nothing is lost
            low, high = (int(bound, 16) for bound in line.split(" ", 1)[0].split("-"))
            libc.madvise(ctypes.c_void_p(low), ctypes.c_size_t(high - low), mmap.MADV_DONTNEED)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None
