"""What the process gives back to the system: large buffers as soon as they are freed, the compiler's code when done.

For Linux with glibc; elsewhere, or where the system refuses, memory is merely not given back.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from pathlib import Path

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h
_LARGE = 512 * 1024  # a chunk, an Arrow column or a merged block is larger; what is smaller is used again at once


def give_back() -> None:
    """From now on large buffers are the system's own again when freed, in whatever thread; Arrow's among them.

    glibc by itself would keep up to 64 MB a thread for the next time."""
    libc = _glibc()
    if libc is None:
        return
    for option, value in ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 2 * _LARGE)):
        libc.mallopt(option, value)
    pa.set_memory_pool(pa.system_memory_pool())


def settle() -> None:
    """What a start has made stays: it is never looked through for garbage. Ends `gc.disable()`."""
    forget_compiler()
    gc.freeze()
    gc.enable()


def forget_compiler() -> None:
    """Takes the pages of LLVM's library out of memory. It made the kernels and is rarely asked again; what it then
    needs is read from its file."""
    libc = _glibc()
    if libc is None:
        return
    for line in Path("/proc/self/maps").read_text("ascii", "replace").splitlines():
        if "llvmlite" in line and " r-xp " in line:  # code: never written to, so that nothing is lost
            low, high = (int(bound, 16) for bound in line.split(" ", 1)[0].split("-"))
            libc.madvise(ctypes.c_void_p(low), ctypes.c_size_t(high - low), mmap.MADV_DONTNEED)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None
