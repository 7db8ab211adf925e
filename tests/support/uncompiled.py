"""The kernels as plain Python, over arrays that refuse any index outside of them. Import it before `cdc_core`.

Numba's own bounds check (NUMBA_BOUNDSCHECK=1) allows negative indices, which count from the end. Here they are refused
as well, and so are slices that reach beyond. This is some thousand times slower than compiled code.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

assert not any(name.startswith("cdc_core") for name in sys.modules), "kernels are compiled when they are imported"
os.environ["NUMBA_DISABLE_JIT"] = "1"

import numba  # noqa: E402  (it reads the environment when it is imported)


class Guarded(np.ndarray[Any, Any]):
    """The array of a kernel. Small integers come out as those of Python, as numba widens them; records as `_Record`."""

    def __getitem__(self, at: Any) -> Any:
        _check(at, self.shape)
        value = super().__getitem__(at)
        if isinstance(value, np.void):
            return _Record(value)
        return int(value) if isinstance(value, np.integer) and value.itemsize < 8 else value

    def __setitem__(self, at: Any, value: Any) -> None:
        _check(at, self.shape)
        super().__setitem__(at, value._of if isinstance(value, _Record) else value)


class _Record:
    """A row of a structured array. Its fields are attributes, as in compiled code."""

    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        object.__setattr__(self, "_of", of)

    def __getattr__(self, name: str) -> Any:
        value = self._of[name]
        return value if value.dtype == np.uint64 else int(value)

    def __setattr__(self, name: str, value: Any) -> None:
        self._of[name] = value

    __getitem__ = __getattr__
    __setitem__ = __setattr__


def _check(at: Any, shape: tuple[int, ...]) -> None:
    for one, size in zip(at if isinstance(at, tuple) else (at,), shape, strict=False):
        if isinstance(one, slice):
            low, high = (0 if one.start is None else int(one.start)), (size if one.stop is None else int(one.stop))
            inside = 0 <= low <= high <= size
        else:
            inside = 0 <= int(one) < size
        if not inside:
            raise IndexError(f"{one} is outside of {size}")


def _guarded(argument: Any) -> Any:
    if hasattr(argument, "_fields"):
        return type(argument)(*map(_guarded, argument))
    return argument.view(Guarded) if type(argument) is np.ndarray else argument


def _plain(*signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replaces `numba.njit`."""

    def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*arguments: Any) -> Any:
            return function(*map(_guarded, arguments))

        return called

    return kernel


numba.njit = _plain
np.seterr(over="ignore")
