"""COMPRESSED columns of MariaDB: a header byte, then the deflated value; or a zero byte, then the plain value.

The header has 8 in its upper half for zlib, bit 3 for a stream without zlib's frame, and in its lower bits the width of
the inflated length that follows (big-endian). Each value is a stream of its own; the length bounds what comes out.
Source: MariaDB's `sql/field_comp.cc`.
"""

from __future__ import annotations

import zlib
from itertools import pairwise

import numpy as np

from cdc_core.charsets.unicode import Offsets
from cdc_core.compiled.fault import MAX_TEXT, Fault
from cdc_core.compiled.kernel import Bytes
from cdc_core.rows.columns.cells import Cells

_PLAIN, _ZLIB, _BARE = 0, 8, 8


def inflated(cells: Cells, raw: Bytes, offsets: Offsets) -> tuple[Bytes, Offsets]:
    """The inflated values. Raises DecodeError."""
    parts, ends, total = [], np.zeros(len(offsets), np.int32), 0
    for image, (low, high) in enumerate(pairwise(offsets.tolist())):
        part = _inflate(cells, image, raw[low:high].tobytes(), MAX_TEXT - total)
        parts.append(part)
        total += len(part)
        ends[image + 1] = total
    return np.frombuffer(bytearray(b"".join(parts)), np.uint8), ends


def _inflate(cells: Cells, image: int, value: bytes, room: int) -> bytes:
    if not value or value[0] == _PLAIN:
        return value[1:]
    method, wrap, width = value[0] >> 4, value[0] & _BARE, value[0] & 7
    length = int.from_bytes(value[1 : 1 + width], "big")
    if method != _ZLIB:
        raise cells.error(image, f"its compression method {method} is not known")
    if length > room:
        cells.check((Fault.TOO_LARGE, image))
    stream = zlib.decompressobj(-zlib.MAX_WBITS if wrap else zlib.MAX_WBITS)
    try:
        out = stream.decompress(value[1 + width :], length + 1)
    except zlib.error as error:
        raise cells.error(image, f"its compressed bytes are damaged: {error}") from None
    if len(out) != length or not stream.eof:
        raise cells.error(image, f"its content does not have the {length} bytes that it states")
    return out
