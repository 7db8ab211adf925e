"""A server's journals written by hand, cut into blocks anywhere: transactions whose bytes occur once."""

from __future__ import annotations

import struct

import numpy as np

from cdc_core.binlog.block import INDEX, Block
from cdc_core.binlog.events import EventType
from cdc_core.stream.group import part

EVENTS = 5  # of a transaction
_BEGIN = struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0BEGIN"  # thread, seconds, length of the database, error, variables


def journal(name: str, tables: list[str], salt: int = 0) -> Block:
    """A transaction for each table of the database `d`, as GTID, BEGIN, TABLE_MAP, rows and XID."""
    events = []
    for number, table in enumerate(tables):
        mark = struct.pack("<II", salt, number)
        identity = sum(map(ord, table)).to_bytes(6, "little")
        names = b"\1d\0" + bytes([len(table)]) + table.encode() + b"\0"
        events += [
            (EventType.GTID, bytes(1) + mark.ljust(41, b"\0")),
            (EventType.QUERY, _BEGIN),
            (EventType.TABLE_MAP, identity + bytes(2) + names),
            (EventType.WRITE_ROWS, identity + b"\1\0" + mark),
            (EventType.XID, mark),
        ]
    index, data, end = np.zeros(len(events), INDEX), bytearray(), 4
    for row, (kind, body) in enumerate(events):
        length = 19 + len(body)
        index[row]["offset"], index[row]["length"], index[row]["type"] = len(data), length, kind
        end += length
        index[row]["end"], index[row]["schema"] = end, -1
        data += struct.pack("<IBIIIH", 1, kind, 1, length, end, 0) + body
    return Block(name, 4, np.frombuffer(bytes(data), np.uint8).copy(), index)


def cut(whole: Block, low: int, high: int) -> Block:
    """The events [low, high) as a connection brings them: with bytes and an index of their own."""
    found = part(whole, low, high)
    return Block(found.journal_name, found.start, found.data.copy(), found.index.copy())
