"""Bytes of binlogs as blocks with an index: read from the files of a server, or written by hand."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from cdc_core.binlog.block import INDEX, Block, BlockSlice
from orchestration.stack.mysql.server import MySqlServer

HEADER = struct.Struct("<IBIIIH")


def read_binlog(path: Path, journal_name: str | None = None, checksum: bool = True) -> Block:
    """A whole binlog file as one block. The CRC32 of each event is checked and cut off."""
    raw = path.read_bytes()
    assert raw[:4] == b"\xfebin"
    events, at = [], 4
    while at < len(raw):
        size = HEADER.unpack_from(raw, at)[3]
        event = raw[at : at + size]
        if event[4] == 15:  # the flag "in use" is not part of the checksum
            event = event[:17] + bytes([event[17] & 0xFE]) + event[18:]
        if checksum:
            assert zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
            event = event[:-4]
        at += size
        events.append((at, event))
    return block(events, journal_name or path.name)


def block(events: list[tuple[int, bytes]], journal_name: str = "mysql-bin.000001", start: int = 4) -> Block:
    """A block of events, each given by its end offset in the journal and its bytes (header and body)."""
    index = np.zeros(len(events), INDEX)
    offset = 0
    for row, (end, event) in zip(index, events, strict=True):
        timestamp, kind, _, _, _, flags = HEADER.unpack_from(event)
        row["end"], row["offset"], row["length"] = end, offset, len(event)
        row["timestamp"], row["type"], row["flags"], row["schema"] = timestamp, kind, flags, -1
        offset += len(event)
    data = np.frombuffer(b"".join(event for _, event in events), np.uint8)
    return Block(journal_name, start, data, index)


class Log:
    """Events written one after the other, as a server does."""

    def __init__(self, start: int = 4) -> None:
        self.events: list[tuple[int, bytes]] = []
        self.start = self.end = start

    def add(self, kind: int, body: bytes, flags: int = 0, timestamp: int = 1_700_000_000) -> None:
        size = HEADER.size + len(body)
        self.end += size + 4
        self.events.append((self.end, HEADER.pack(timestamp, kind, 1, size + 4, self.end & 0xFFFFFFFF, flags) + body))

    def query(self, text: str, database: str = "shop") -> None:
        name = database.encode()
        self.add(2, struct.pack("<IIBHH", 1, 0, len(name), 0, 0) + name + b"\0" + text.encode())

    def table_map(self, table_id: int, body: bytes) -> None:
        self.add(19, table_id.to_bytes(6, "little") + b"\1\0" + body)

    def rows(self, kind: int, table_id: int, columns: int, images: bytes, flags: int = 1) -> None:
        present = bytes([0xFF] * (columns // 8) + ([(1 << columns % 8) - 1] if columns % 8 else []))
        extra = b"\2\0" if kind >= 30 else b""
        twice = present * 2 if kind in (24, 31) else present
        head = table_id.to_bytes(6, "little") + flags.to_bytes(2, "little") + extra + bytes([columns])
        self.add(kind, head + twice + images)

    def block(self, journal_name: str = "mysql-bin.000001") -> Block:
        return block(self.events, journal_name, self.start)


def whole(block: Block) -> BlockSlice:
    """All events of a block."""
    return BlockSlice(block, 0, len(block.index))


def packed(text: bytes) -> bytes:
    """The bytes after their length in one byte."""
    return bytes([len(text)]) + text


def table_map_body(
    table: str, columns: list[tuple[str, int, bytes]], key: list[int], database: str = "shop", charset: int = 255
) -> bytes:
    """The body of a TABLE_MAP with FULL metadata. A column is (name, type code, metadata bytes)."""
    names = packed(database.encode()) + b"\0" + packed(table.encode()) + b"\0"
    metas = b"".join(meta for _, _, meta in columns)
    optional = [(1, bytes(1 + len(columns) // 8)[: (sum(c[1] in (1, 2, 3, 8, 9, 246) for c in columns) + 7) // 8])]
    optional.append((2, bytes([252]) + charset.to_bytes(2, "little") if charset > 250 else bytes([charset])))
    optional.append((4, b"".join(packed(name.encode()) for name, _, _ in columns)))
    if key:
        optional.append((8, bytes(key)))
    body = names + bytes([len(columns)]) + bytes(code for _, code, _ in columns) + packed(metas)
    body += b"\xff" * ((len(columns) + 7) // 8)
    return body + b"".join(bytes([kind]) + packed(value) for kind, value in optional)


def image(columns: list[tuple[str, int, bytes]], values: tuple[object, ...]) -> bytes:
    """One row image of BIGINT (8), INT (3), DOUBLE (5), FLOAT (4) and short VARCHAR (15) columns; bytes as they are."""
    nulls, out = bytearray((len(columns) + 7) // 8), b""
    for i, ((_, code, _), value) in enumerate(zip(columns, values, strict=True)):
        if value is None:
            nulls[i >> 3] |= 1 << (i & 7)
        elif isinstance(value, int):
            out += value.to_bytes(8 if code == 8 else 4, "little", signed=True)
        elif isinstance(value, bytes):
            out += value
        elif isinstance(value, float):
            out += struct.pack("<d" if code == 5 else "<f", value)
        else:
            out += packed(str(value).encode())
    return bytes(nulls) + out


def capture(server: MySqlServer, *statements: str) -> Block:
    """What these statements write to the binlog of a real server, as one block that starts with a new file."""
    connection = server.root()
    with connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("SHOW BINARY LOGS")
        name = cursor.fetchall()[-1][0]
        cursor.execute("SELECT @@log_bin_basename")
        row = cursor.fetchone()
    assert row is not None
    return read_binlog(Path(row[0]).parent / name)
