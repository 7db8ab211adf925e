"""What kernels that read values return: a code, and the row image that it is about."""

from __future__ import annotations

from enum import IntEnum

from numba import types

Answer = tuple[int, int]  # a Fault and the image; with OK, whatever the kernel says
ANSWER = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
MAX_TEXT = 2**31 - 1  # offsets of Arrow's string and binary have 32 bits


class Fault(IntEnum):
    """Why a kernel stopped."""

    OK = 0
    SHORT = 1  # the value reaches beyond the data
    MALFORMED = 2  # bytes that the type's format does not allow
    ZERO_DATE = 3  # a zero, partial or impossible date
    TOO_LARGE = 4  # more bytes than one Arrow array of this kind holds
    FULL = 5  # the output buffer is used up: call again with a larger one
