"""Damages binary JSON at random and prints it by the uncompiled kernels. Fails on any index out of bounds.

Run it with NUMBA_DISABLE_JIT=1; it prints how many damaged documents were tried.
"""

from __future__ import annotations

import random
import struct
from typing import Any, SupportsIndex

import numpy as np

from cdc_core.rows.columns.json_text import write_document

_SMALL = 2  # bytes of counts and offsets


def encoded(value: Any) -> bytes:
    """A document in the small format, as MySQL writes it."""
    kind, body = _encoded(value)
    return bytes([kind]) + body


def _encoded(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 0x04, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return 0x0B, struct.pack("<d", value)
    if isinstance(value, str):
        return 0x0C, _size(len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return 0x0F, value[:1] + _size(len(value) - 1) + value[1:]
    keys = sorted((key.encode() for key in value), key=lambda key: (len(key), key)) if isinstance(value, dict) else []
    values = [value[key.decode()] for key in keys] if isinstance(value, dict) else value
    return (0x00 if isinstance(value, dict) else 0x02), _container(keys, [_encoded(item) for item in values])


def _integer(value: int) -> tuple[int, bytes]:
    for kind, form in ((0x05, "<h"), (0x06, "<H"), (0x07, "<i"), (0x08, "<I"), (0x09, "<q"), (0x0A, "<Q")):
        try:
            return kind, struct.pack(form, value)
        except struct.error:
            continue
    raise OverflowError(value)


def _size(length: int) -> bytes:
    out = b""
    while length > 0x7F:
        out += bytes([length & 0x7F | 0x80])
        length >>= 7
    return out + bytes([length])


def _container(keys: list[bytes], values: list[tuple[int, bytes]]) -> bytes:
    header = 4 + 4 * len(keys) + 3 * len(values)
    entries, bodies = b"", b""
    for key in keys:
        entries += struct.pack("<HH", header + len(bodies), len(key))
        bodies += key
    for kind, body in values:
        if kind in (0x04, 0x05, 0x06):
            entries += bytes([kind]) + body.ljust(_SMALL, b"\0")
        else:
            entries += struct.pack("<BH", kind, header + len(bodies))
            bodies += body
    return struct.pack("<HH", len(values), header + len(bodies)) + entries + bodies


class Guarded(list[int]):
    """A buffer without negative indices and without slices."""

    def __getitem__(self, index: Any) -> Any:
        return list.__getitem__(self, _within(index, len(self)))

    def __setitem__(self, index: Any, value: Any) -> None:
        list.__setitem__(self, _within(index, len(self)), int(value))


def _within(index: SupportsIndex, length: int) -> int:
    if not 0 <= index.__index__() < length:
        raise IndexError(f"{index} of {length}")
    return index.__index__()


_VALUES: list[Any] = [
    {"a": [1, 70000, -5, None, "x\n" * 40], "bb": {"c": 1.5, "d": [[], {}, [True, False]]}, "e": 2**40},
    [b"\xf6" + bytes.fromhex("0402800c32"), b"\x0c" + struct.pack("<q", 1 << 50), b"\x0f" + b"abcdefg" * 20],
    {str(i): i * 40000 for i in range(20)},
    [[[[[[[["deep"]]]]]]], "tail"],
    "plain",
    1e300,
]


def damaged(rng: random.Random, document: bytes) -> bytes:
    """The document with some bytes overwritten, perhaps cut off."""
    out = bytearray(document)
    for _ in range(rng.randint(1, 4)):
        out[rng.randrange(len(out))] = rng.choice(
            [0, 1, 2, 3, 0x0B, 0x0C, 0x0F, 0x7F, 0x80, 0xF6, 0xFF, rng.randrange(256)]
        )
    return bytes(out[: rng.randint(1, len(out))] if rng.random() < 0.3 else out)


def main() -> None:
    rng = random.Random(11)
    documents = [encoded(value) for value in _VALUES]
    tried = 0
    for _ in range(250):
        for document in documents:
            text = damaged(rng, document)
            data, out = Guarded(text), Guarded([0] * (16 * len(text) + 1024))
            write_document(data, 0, len(text), out, 0, np.zeros((100, 6), np.int64))
            tried += 1
    print(tried)


if __name__ == "__main__":
    main()
