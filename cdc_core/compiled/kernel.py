"""How kernels are compiled, and the types of their arguments.

A kernel is a function that numba compiles ahead of time for one signature, without the GIL, cached on disk. It neither
raises nor allocates Python objects: it returns codes, and its caller raises the error.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import from_dtype, njit, types

from cdc_core.compiled.cache import KernelCache

_Function = TypeVar("_Function", bound=Callable[..., Any])

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

# What kernels read.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
INTS = types.Array(types.int32, 1, "C", readonly=True)
LONGS = types.Array(types.int64, 1, "C", readonly=True)
WORDS = types.Array(types.uint64, 1, "C", readonly=True)
# What they write.
OUT_BYTES = types.uint8[::1]
OUT_INTS = types.int32[::1]
OUT_LONGS = types.int64[::1]
PAIR = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]

int64 = cast("Callable[[Any], int]", np.int64)  # in kernels: a machine word, and typed as such


def kernel(signature: Any, *, bare: bool = False) -> Callable[[_Function], _Function]:
    """Compiles a function for one signature, or loads it from the cache. A `bare` one neither makes arrays nor assigns
    to slices: then numba does not count references to arrays, which takes as long as copying a short text."""

    def compiled(function: _Function) -> _Function:
        options: dict[str, Any] = {"_nrt": not bare}
        dispatcher: Any = njit(nogil=True, **options)(function)
        if not isinstance(dispatcher, FunctionType):  # what numba gives back when it is switched off
            dispatcher._cache = KernelCache(function, signature, bare)
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return cast("_Function", dispatcher)

    return compiled


def helper(function: _Function) -> _Function:
    """A function that kernels call: compiled with each of them, for the types that they pass."""
    return cast("_Function", njit(nogil=True)(function))


def bare_helper(function: _Function) -> _Function:
    """A helper that neither makes nor returns arrays, nor assigns to slices."""
    options: dict[str, Any] = {"_nrt": False}
    return cast("_Function", njit(nogil=True, **options)(function))


def records(dtype: np.dtype[np.void], *, writable: bool = False) -> Any:
    """The type of an array of records."""
    return types.Array(from_dtype(dtype), 1, "C", readonly=not writable)


def named(cls: type[NamedTuple], *fields: Any) -> Any:
    """The type of a NamedTuple with fields of these types. No two of them may have one name: numba confuses them."""
    return types.BaseTuple.from_types(fields, cls)  # type: ignore[no-untyped-call]
