"""Changes to captured events that must not change a row: in bytes that the decoder does not use, or may skip."""

from __future__ import annotations

import struct
from random import Random

from cdc_core.binlog.events import HEADER, IGNORABLE, OPERATION, EventType
from tests.support.damage import columns_at

_TEXTS = (EventType.ROWS_QUERY, EventType.MARIA_ANNOTATE_ROWS, EventType.XID, EventType.GTID, EventType.ANONYMOUS_GTID)
_UNKNOWN_FIELD = 200  # of a TABLE_MAP's metadata
_EXTRA = HEADER + 8  # where the extra data of rows events of version 2 start, with their length


def touched(rng: Random, events: list[bytes]) -> list[bytes]:
    """The same events with a few such changes."""
    out: list[bytes] = []
    for event in events:
        event = event[:5] + rng.randbytes(4) + event[9:]  # the server that wrote it
        if event[4] in _TEXTS:
            event = event[:HEADER] + rng.randbytes(len(event) - HEADER)
        elif event[4] == EventType.TABLE_MAP:
            event = _spare_bits(rng, event)
            event += bytes([_UNKNOWN_FIELD, 3]) + rng.randbytes(3) if rng.random() < 0.5 else b""
        elif OPERATION[event[4]]:
            event = _rows(rng, event)
        out.append(event)
        if event[4] != EventType.ROTATE and rng.random() < 0.2:
            out.append(struct.pack("<IBIIIH", 0, 99, 1, 0, 0, IGNORABLE) + rng.randbytes(9))
    return out


def _spare_bits(rng: Random, event: bytes) -> bytes:
    """The bits after that of the last column in the bitmap of nullable columns."""
    at, count = columns_at(event)
    at += count + 1 + event[at + count] + count // 8
    return event[:at] + bytes([event[at] | _beyond(rng, count)]) + event[at + 1 :] if count % 8 else event


def _rows(rng: Random, event: bytes) -> bytes:
    """Table flags other than the end of the statement, extra data, and the spare bits of the columns present."""
    event = event[: HEADER + 7] + rng.randbytes(1) + event[HEADER + 8 :]
    at = _EXTRA
    if event[4] >= EventType.WRITE_ROWS:
        extra = rng.randbytes(rng.randrange(40))
        event = event[:at] + (2 + len(extra)).to_bytes(2, "little") + extra + event[at + 2 :]
        at += 2 + len(extra)
    count = event[at]
    at += 1 + count // 8
    return event[:at] + bytes([event[at] | _beyond(rng, count)]) + event[at + 1 :] if count % 8 else event


def _beyond(rng: Random, count: int) -> int:
    """Some bits in the last byte of a bitmap that belong to no column."""
    return rng.randrange(256) & (0xFF << count % 8) & 0xFF
