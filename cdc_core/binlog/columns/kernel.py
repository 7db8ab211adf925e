"""What every family of column types shares: the types of kernels, their answers, and the cells that they read.

A kernel is compiled ahead for one signature, releases the GIL, and never raises: it answers a code and an image, and
`Cells.check` makes an error of them that names table, column and value. Buffers go to Arrow without a copy.
Promises nothing about where values end in an event: that is the row walker's business; a kernel only never reads
beyond `data`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit, types

from cdc_core.errors import DecodeError, SchemaError
from cdc_core.schema.table import Column

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
ZeroDates = Literal["fail", "null", "string"]
Answer = tuple[int, int]  # code, image

OK = 0
SHORT = 1  # the value reaches beyond the data
MALFORMED = 2  # bytes that the type's format does not allow
ZERO_DATE = 3  # a zero, partial or impossible date
TOO_LARGE = 4  # more bytes than one Arrow array of this kind holds
FULL = 5  # the output buffer is used up: call again with a larger one

MAX_TEXT = 2**31 - 1  # offsets of Arrow's string and binary are 32 bit

READ_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
READ_LONGS = types.Array(types.int64, 1, "C", readonly=True)
BYTES = types.uint8[::1]
INTS = types.int32[::1]
LONGS = types.int64[::1]
ANSWER = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
int64 = cast("Callable[[Any], int]", np.int64)  # in kernels: typed as what it is there, a machine word

_BROKEN = {
    SHORT: "the value reaches beyond the event's data",
    MALFORMED: "bytes that its type does not allow",
    TOO_LARGE: "more than 2 GiB of bytes in one batch",
}
_DAMAGED = "The binlog is damaged or was written by an unknown server version; compare with mysqlbinlog --verbose."


def kernel(*signature: Any) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Compiles a kernel for one signature that answers (code, image); cached on disk."""
    compiled: Callable[[Callable[..., Answer]], Callable[..., Answer]]
    compiled = njit(ANSWER(*signature), nogil=True, cache=True)
    return compiled


@dataclass(frozen=True, slots=True)
class Cells:
    """One column's values: where each image's value starts in `data`; negative is NULL."""

    table: str
    column: Column
    data: Bytes
    starts: Longs
    zero_dates: ZeroDates = "fail"
    place: Callable[[int], str] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column.name}"

    def present(self) -> Bytes:
        """1 where there is a value, 0 for NULL."""
        return (self.starts >= 0).view(np.uint8)

    def error(self, image: int, found: str, hint: str = _DAMAGED) -> DecodeError:
        """What is wrong with one value, with its first bytes."""
        start = int(self.starts[image])
        head = bytes(self.data[start : start + 12]).hex(" ") if start >= 0 else "NULL"
        place = self.place(image) if self.place else ""
        return DecodeError(f"{self.name}, row image {image}: {found} ({head})", place=place, hint=hint)

    def check(self, answer: Answer) -> None:
        """Raises what a kernel answered."""
        code, image = answer
        if code == TOO_LARGE:
            raise self.error(image, _BROKEN[code], "Claim fewer rows at a time (batch_size).")
        if code:
            raise self.error(image, _BROKEN[code])


def unsupported(column: Column, what: str, hint: str = "") -> SchemaError:
    """A column that has no Arrow type here; who knows the table adds it."""
    leave_out = "Leave the table out by canal.instance.filter.black.regex."
    return SchemaError(f"column {column.name}: {what}", hint=hint or leave_out)


def fixed(kind: pa.DataType, values: npt.NDArray[Any], present: Bytes) -> pa.Array:
    """An Arrow array over a buffer of fixed width."""
    return pa.Array.from_buffers(kind, len(present), [validity(present), pa.py_buffer(values)])


def variable(kind: pa.DataType, offsets: npt.NDArray[np.int32], out: Bytes, present: Bytes) -> pa.Array:
    """An Arrow string or binary array over offsets and bytes."""
    buffers = [validity(present), pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(kind, len(present), buffers)


def numbers(values: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """An Arrow array without NULL over the numbers themselves. Here and below: `pa.array` would load pandas, 45 MB."""
    return pa.Array.from_buffers(kind or pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def strings(values: Iterable[str | None]) -> pa.Array:
    """An Arrow array of a few strings."""
    coded = [None if value is None else value.encode() for value in values]
    offsets = np.cumsum([0, *(len(value or b"") for value in coded)]).astype(np.int32)
    present = np.array([value is not None for value in coded], np.uint8)
    out = np.frombuffer(b"".join(value or b"" for value in coded), np.uint8)
    return variable(pa.string(), offsets, out, present)


def validity(present: Bytes) -> pa.Buffer | None:
    """Arrow's bitmap; None when nothing is NULL."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
