"""COMPRESSED columns of MariaDB: each value is a header byte, then deflated bytes, or the plain ones behind a zero.

Header: 8 in the upper half for zlib, bit 3 for a stream without zlib's frame, then how many bytes (big-endian) tell the
length that comes out. Value by value, since each is a stream of its own; what comes out is bounded by that length.
Source: MariaDB's `sql/field_comp.cc`.
"""

from __future__ import annotations

import zlib
from itertools import pairwise

import numpy as np

from cdc_core.binlog.columns.kernel import MAX_TEXT, TOO_LARGE, Bytes, Cells
from cdc_core.binlog.columns.unicode import Offsets

BLOB, VARCHAR = 140, 141
_PLAIN, _ZLIB, _BARE = 0, 8, 8


def inflated(cells: Cells, raw: Bytes, offsets: Offsets) -> tuple[Bytes, Offsets]:
    """The same values as they are without COMPRESSED."""
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
        raise cells.error(image, f"compressed by method {method}, which is not known")
    if length > room:
        cells.check((TOO_LARGE, image))
    stream = zlib.decompressobj(-zlib.MAX_WBITS if wrap else zlib.MAX_WBITS)
    try:
        out = stream.decompress(value[1 + width :], length + 1)
    except zlib.error as error:
        raise cells.error(image, f"a compressed value is broken: {error}") from None
    if len(out) != length or not stream.eof:
        raise cells.error(image, f"a compressed value has not the {length} bytes that it tells")
    return out
