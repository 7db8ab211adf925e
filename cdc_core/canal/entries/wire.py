"""Protocol Buffers' wire format, for kernels and for the few parts that are made once.

Numbers are varints; a tag is `field << 3 | type`. Fields of zero and empty strings are left out, as proto3 does.
"""

from __future__ import annotations

from cdc_core.compiled.kernel import Bytes, helper, int64
from cdc_core.compiled.memory import move

_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """A number as the wire has it; a negative one takes ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int, *, always: bool = False) -> bytes:
    """A number's field; nothing for 0, unless it is `always` written (a field of a oneof)."""
    return varint(field << 3 | _VARINT) + varint(value) if value or always else b""


def block(field: int, value: bytes) -> bytes:
    """A message's field, also of an empty one."""
    return varint(field << 3 | _LENGTH) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A string's field; nothing for an empty one."""
    return block(field, value.encode("utf-8", "surrogateescape")) if value else b""


def pair(field: int, key: str, value: str) -> bytes:
    """A Pair's field: `props` of every message."""
    return block(field, text(1, key) + text(2, value))


@helper
def varint_size(value: int) -> int:
    """Bytes of a number that is not negative."""
    size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


@helper
def put_varint(value: int, out: Bytes, at: int) -> int:
    """Writes a number that is not negative; returns the end."""
    while value > 0x7F:
        out[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@helper
def block_size(size: int) -> int:
    """Bytes of a field with a tag of one byte, a length and a value of so many bytes."""
    return 1 + varint_size(size) + size


@helper
def put_head(tag: int, size: int, out: Bytes, at: int) -> int:
    """Writes a tag of one byte and the length of the value after it; returns the end."""
    out[at] = tag
    return put_varint(size, out, at + 1)


@helper
def put_part(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Copies `data[start:end]`; returns the end."""
    move(out, at, data, start, end - start)
    return at + end - start


@helper
def digits_of(value: int) -> int:
    """Characters of a number that is not negative."""
    count = 1
    while value > 9:
        value //= 10
        count += 1
    return count


@helper
def put_digits(value: int, out: Bytes, at: int) -> int:
    """Writes a number that is not negative in decimal; returns the end."""
    end = at + digits_of(value)
    for k in range(end - 1, at - 1, -1):
        out[k] = int64(48) + value % 10
        value //= 10
    return end
