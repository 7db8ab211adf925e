"""Copying and reading several bytes at a time, in kernels, at any place.

What copies or reads a fixed number of bytes may go beyond what the caller needs: then both arrays must have SLACK bytes
more. Nothing here checks bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from cdc_core.compiled.kernel import Bytes, bare_helper

SLACK = 32
_Word = np.uint64
_build: Any = cgutils


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def _fixed(size: int) -> Any:
    """A copy of so many bytes: one instruction or two, not a call."""

    @intrinsic
    def copies(_typing: Any, out: Any, _at: Any, data: Any, _start: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            into, source = _place(context, builder, out, *args[:2]), _place(context, builder, data, *args[2:])
            _build.raw_memcpy(builder, into, source, ir.Constant(ir.IntType(64), size), 1)
            return context.get_dummy_value()

        return types.void(out, types.int64, data, types.int64), generate

    return copies


copy2 = cast("Callable[[Bytes, int, Bytes, int], None]", _fixed(2))
copy32 = cast("Callable[[Bytes, int, Bytes, int], None]", _fixed(32))


@intrinsic
def _copy(_typing: Any, out: Any, _at: Any, data: Any, _start: Any, _size: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        into, source = _place(context, builder, out, *args[:2]), _place(context, builder, data, *args[2:4])
        _build.raw_memcpy(builder, into, source, args[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate


@intrinsic
def _shift(_typing: Any, out: Any, _to: Any, _start: Any, _size: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        into, source = (_place(context, builder, out, args[0], at) for at in args[1:3])
        _build.raw_memmove(builder, into, source, args[3], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64, types.int64), generate


@intrinsic
def _word(_typing: Any, data: Any, _at: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        place = builder.bitcast(_place(context, builder, data, *args), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def _big_word(_typing: Any, data: Any, _at: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        place = builder.bitcast(_place(context, builder, data, *args), ir.IntType(64).as_pointer())
        return builder.bswap(builder.load(place, align=1))

    return types.uint64(data, types.int64), generate


@intrinsic
def _get(_typing: Any, data: Any, _at: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, data, *args))

    return data.dtype(data, types.int64), generate


@intrinsic
def _put(_typing: Any, out: Any, _at: Any, _value: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(context, builder, out, *args[:2]))
        return context.get_dummy_value()

    return types.void(out, types.int64, out.dtype), generate


copy = cast("Callable[[Bytes, int, Bytes, int, int], None]", _copy)  # any number of bytes
shift = cast("Callable[[Bytes, int, int, int], None]", _shift)  # `size` bytes from `start` to `to`, which may overlap
word = cast("Callable[[Bytes, int], np.uint64]", _word)  # eight bytes, little-endian
get = cast("Callable[[Any, int], int]", _get)  # one element of an array, without the look for a negative place
put = cast("Callable[[Any, int, Any], None]", _put)
big_word = cast("Callable[[Bytes, int], np.uint64]", _big_word)  # eight bytes, big-endian


@bare_helper
def put_bytes(out: Bytes, at: int, data: Bytes, start: int, size: int) -> None:
    """Copies `size` bytes, most often few. Both arrays have SLACK."""
    if size <= 32:
        copy32(out, at, data, start)
    else:
        copy(out, at, data, start, size)


@bare_helper
def masked(value: np.uint64, size: int) -> np.uint64:
    """The first `size` bytes of a word, one to eight."""
    return value & (_Word(0xFFFFFFFFFFFFFFFF) >> (_Word(64) - (_Word(size) << _Word(3))))


@bare_helper
def equal(one: Bytes, at: int, other: Bytes, start: int, size: int) -> bool:
    """Whether `size` bytes are the same. Both arrays have SLACK."""
    left = size
    while left > 8:
        if word(one, at) != word(other, start):
            return False
        at, start, left = at + 8, start + 8, left - 8
    return left == 0 or masked(word(one, at) ^ word(other, start), left) == _Word(0)
