"""Deletion vectors, made by the specification of Roaring bitmaps."""

from __future__ import annotations

import struct

import numpy as np

ARRAY, BITMAP, RUN = "array", "bitmap", "run"


def container(values: list[int], kind: str) -> bytes:
    """The values, all below 65,536, as a container of that kind."""
    if kind == ARRAY:
        return np.array(values, "<u2").tobytes()
    if kind == BITMAP:
        bits = np.zeros(1 << 16, np.uint8)
        bits[values] = 1
        return np.packbits(bits, bitorder="little").tobytes()
    starts = [one for one in values if one - 1 not in values]
    ends = [one for one in values if one + 1 not in values]
    return struct.pack("<H", len(starts)) + b"".join(
        struct.pack("<HH", low, high - low) for low, high in zip(starts, ends, strict=True)
    )


def bitmap(containers: dict[int, tuple[list[int], str]]) -> bytes:
    """A bitmap of these containers by their number; with runs if one of them is a run."""
    kinds = [kind for _, kind in containers.values()]
    heads = b"".join(struct.pack("<HH", number, len(values) - 1) for number, (values, _) in containers.items())
    if RUN in kinds:
        flags = np.packbits(np.array([kind == RUN for kind in kinds], np.uint8), bitorder="little").tobytes()
        head = struct.pack("<I", 12347 | (len(kinds) - 1) << 16) + flags + heads
        offsets = b"\0" * 4 * len(kinds) if len(kinds) >= 4 else b""
    else:
        head, offsets = struct.pack("<II", 12346, len(kinds)) + heads, b"\0" * 4 * len(kinds)
    return head + offsets + b"".join(container(values, kind) for values, kind in containers.values())


def vector(bitmaps: dict[int, bytes]) -> bytes:
    """The bitmaps by their upper 32 bits, as a deletion vector has them."""
    head = struct.pack("<iq", 1681511377, len(bitmaps))
    return head + b"".join(struct.pack("<I", high) + data for high, data in bitmaps.items())
