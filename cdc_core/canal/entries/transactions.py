"""The store values of TRANSACTIONBEGIN and TRANSACTIONEND: the thread that wrote it, and its number (the xid)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.events import HEADER, EventType
from cdc_core.canal.entries.sequence import BEGIN
from cdc_core.canal.entries.window import Window
from cdc_core.canal.entries.wire import digits_of, put_digits, put_head, put_varint, varint_size
from cdc_core.compiled.kernel import BYTES, LONGS, OUT_BYTES, OUT_LONGS, Bytes, Longs, helper, int64, kernel, records
from cdc_core.compiled.memory import little


def sizes(window: Window, events: Longs, codes: Bytes) -> Longs:
    """The bytes of these events' store values. `codes`: BEGIN or END."""
    found = np.empty(len(events), np.int64)
    _measure(window.data, window.index, events, codes, found)
    return found


def write(window: Window, events: Longs, codes: Bytes, places: Longs, out: Bytes) -> None:
    """Writes each event's store value at its place."""
    _write(window.data, window.index, events, codes, places, out)


@helper
def _number(data: Bytes, event: Any) -> int:
    """The thread of a BEGIN, or the xid of an XID event; 0 where the event has none."""
    body = int64(event.offset) + HEADER
    if event.type == EventType.QUERY:
        return little(data, body, 4)
    if event.type == EventType.XID and event.length >= HEADER + 8:
        return little(data, body, 8) & 0x7FFFFFFFFFFFFFFF
    return int64(0)


@kernel(types.void(BYTES, records(INDEX), LONGS, BYTES, OUT_LONGS))
def _measure(data: Any, index: Any, events: Any, codes: Any, found: Any) -> None:
    for i in range(len(events)):
        event = index[events[i]]
        number = _number(data, event)
        if codes[i] == BEGIN:
            found[i] = 1 + varint_size(number) if number else 0
        else:
            found[i] = 2 + digits_of(number if event.type == EventType.XID else int64(0))


@kernel(types.void(BYTES, records(INDEX), LONGS, BYTES, LONGS, OUT_BYTES))
def _write(data: Any, index: Any, events: Any, codes: Any, places: Any, out: Any) -> None:
    for i in range(len(events)):
        event = index[events[i]]
        number, at = _number(data, event), places[i]
        if codes[i] == BEGIN:
            if number:
                out[at] = 0x20
                put_varint(number, out, at + 1)
        else:
            number = number if event.type == EventType.XID else int64(0)
            put_digits(number, out, put_head(0x12, digits_of(number), out, at))
