"""Results of the binary protocol, written by plain Python: what a server sends for values that are known."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema

FULL_PACKET = 0xFFFFFF
_UTF8, _BINARY = 255, 63


@dataclass(frozen=True)
class Kind:
    """A column's type in a definition and on the wire, and how its values are written."""

    type_code: int
    meta: int
    sent: int
    write: Callable[[Any], bytes]
    unsigned: bool = False
    charset: int = _BINARY
    decimals: int = 0


def length_encoded(raw: bytes) -> bytes:
    size = len(raw)
    if size <= 250:
        return bytes([size]) + raw
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little") + raw
    if size < 1 << 24:
        return b"\xfd" + size.to_bytes(3, "little") + raw
    return b"\xfe" + size.to_bytes(8, "little") + raw


def _number(size: int, *, signed: bool = True) -> Callable[[int], bytes]:
    return lambda value: value.to_bytes(size, "little", signed=signed)


def _moment(value: datetime) -> bytes:
    """As short as the server writes it."""
    day, clock = struct.pack("<HBB", value.year, value.month, value.day), (value.hour, value.minute, value.second)
    if value.microsecond:
        return length_encoded(day + bytes(clock) + struct.pack("<I", value.microsecond))
    return length_encoded(day + bytes(clock) if any(clock) else day)


def _day(value: date) -> bytes:
    return length_encoded(struct.pack("<HBB", value.year, value.month, value.day))


def _span(value: int) -> bytes:
    """Microseconds."""
    seconds, micros = divmod(abs(value), 1_000_000)
    if not value:
        return b"\x00"
    hours, rest = divmod(seconds, 3600)
    whole = struct.pack("<BIBBB", value < 0, hours // 24, hours % 24, *divmod(rest, 60))
    return length_encoded(whole + struct.pack("<I", micros) if micros else whole)


KINDS = {
    "tiny": Kind(Type.TINY, 0, Type.TINY, _number(1)),
    "int": Kind(Type.LONG, 0, Type.LONG, _number(4)),
    "big": Kind(Type.LONGLONG, 0, Type.LONGLONG, _number(8)),
    "unsigned": Kind(Type.LONGLONG, 0, Type.LONGLONG, _number(8, signed=False), unsigned=True),
    "double": Kind(Type.DOUBLE, 8, Type.DOUBLE, lambda value: struct.pack("<d", value)),
    "decimal": Kind(
        Type.NEWDECIMAL, 38 << 8 | 9, Type.NEWDECIMAL, lambda value: length_encoded(f"{value:f}".encode()), decimals=9
    ),
    "text": Kind(
        Type.BLOB, 4, Type.BLOB, lambda value: length_encoded(value.encode()), charset=_UTF8
    ),
    "bytes": Kind(Type.VARCHAR, 900, Type.VAR_STRING, length_encoded),
    "date": Kind(Type.DATE, 0, Type.DATE, _day),
    "datetime": Kind(Type.DATETIME2, 6, Type.DATETIME, _moment),
    "time": Kind(Type.TIME2, 6, Type.TIME, _span),
}  # fmt: skip


def schema_of(kinds: Sequence[str]) -> TableSchema:
    columns = [
        Column(f"c{at}", int(KINDS[kind].type_code), KINDS[kind].meta, KINDS[kind].unsigned, True, KINDS[kind].charset)
        for at, kind in enumerate(kinds)
    ]
    return TableSchema("db", "t", tuple(columns))


def row(kinds: Sequence[str], values: Sequence[Any]) -> bytes:
    """The payload of one row."""
    bitmap = bytearray((len(kinds) + 9) // 8)
    cells = b""
    for at, (kind, value) in enumerate(zip(kinds, values, strict=True), 2):
        if value is None:
            bitmap[at >> 3] |= 1 << (at & 7)
        else:
            cells += KINDS[kind].write(value)
    return b"\x00" + bytes(bitmap) + cells


def definitions(kinds: Sequence[str]) -> list[bytes]:
    """The payloads before the rows, but for the EOF packet: how many columns, and what they are."""
    count = len(kinds)
    found = [bytes([count]) if count <= 250 else b"\xfc" + count.to_bytes(2, "little")]
    for kind in kinds:
        one = KINDS[kind]
        ending = struct.pack("<BHIBHB2x", 12, one.charset, 99, one.sent, 32 if one.unsigned else 0, one.decimals)
        found.append(b"\x03def" + b"\x00" * 3 + b"\x01c\x00" + ending)
    return found


def packets(payloads: Iterable[bytes], sequence: int = 1) -> bytes:
    """Payloads in packets, large ones in several."""
    stream = bytearray()
    for payload in payloads:
        for at in range(0, len(payload) + 1, FULL_PACKET):
            piece = payload[at : at + FULL_PACKET]
            stream += len(piece).to_bytes(3, "little") + bytes([sequence & 0xFF]) + piece
            sequence += 1
    return bytes(stream)


def eof() -> bytes:
    return b"\xfe\x00\x00\x02\x00"


def ok() -> bytes:
    """What ends a result where there is no EOF: OK with EOF's first byte."""
    return b"\xfe\x00\x00\x02\x00\x00\x00"


def error(code: int, text: str) -> bytes:
    return b"\xff" + code.to_bytes(2, "little") + b"#HY000" + text.encode()


def pieces(stream: bytes, sizes: Iterable[int]) -> Callable[[memoryview], int]:
    """A socket that gives so many bytes at a time, then all that fit, then its end."""
    left, cuts = memoryview(stream), iter(sizes)

    def receive(into: memoryview) -> int:
        nonlocal left
        count = min(next(cuts, len(into)), len(into), len(left))
        into[:count] = left[:count]
        left = left[count:]
        return count

    return receive


def shown(kind: str, value: Any) -> Any:
    """A value as Arrow gives it back."""
    return value if kind != "unsigned" or value is None else Decimal(value)
