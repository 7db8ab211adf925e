"""The props of a transaction's entries that name its GTID: `curtGtid`, and MySQL's `curtGtidSn` and `curtGtidLct`.

Source: Canal 1.1.8, `LogEventConvert.createHeader`; MySQL source documentation, "Gtid_event".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.binlog.block import INDEX
from cdc_core.binlog.events import HEADER, EventType
from cdc_core.binlog.gtid_events import tagged
from cdc_core.canal.entries.wire import put_digits
from cdc_core.compiled.kernel import (
    BYTES,
    LONGS,
    OUT_INTS,
    Bytes,
    Ints,
    Longs,
    helper,
    int64,
    kernel,
    records,
)
from cdc_core.compiled.memory import little

PROPS = 192  # bytes of a transaction's props at most
_CURRENT = np.frombuffer(b"curtGtid", np.uint8)
_SEQUENCE = np.frombuffer(b"curtGtidSn", np.uint8)
_LAST = np.frombuffer(b"curtGtidLct", np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_TEXT = 96  # bytes of a GTID as text: a UUID, a tag of 32 and a number
_TIMESTAMPS = 2  # the type code of the logical timestamps after the number


def gtid_props(data: Bytes, index: npt.NDArray[np.void], gtids: Longs) -> tuple[npt.NDArray[np.uint8], Ints]:
    """The props of each of these GTID events, and how many bytes they are: none for one that cannot be read."""
    out, sizes = np.zeros((len(gtids), PROPS), np.uint8), np.zeros(len(gtids), np.int32)
    _write(data, index, gtids, out, sizes)
    return out, sizes


@helper
def _put_uuid(data: Bytes, at: int, out: Bytes, to: int) -> int:
    for k in range(16):
        if k in (4, 6, 8, 10):
            out[to] = 0x2D
            to += 1
        out[to], out[to + 1] = _HEX[data[at + k] >> 4], _HEX[data[at + k] & 15]
        to += 2
    return to


@helper
def _put_prop(key: Bytes, value: Bytes, size: int, out: Bytes, at: int) -> int:
    """Writes field 12 of the header, a Pair; all lengths are below 128."""
    out[at], out[at + 1], out[at + 2], out[at + 3] = 0x62, 4 + len(key) + size, 0x0A, len(key)
    at += 4
    for k in range(len(key)):
        out[at + k] = key[k]
    at += len(key)
    out[at], out[at + 1] = 0x12, size
    for k in range(size):
        out[at + 2 + k] = value[k]
    return at + 2 + size


@kernel(types.void(BYTES, records(INDEX), LONGS, types.uint8[:, ::1], OUT_INTS))
def _write(data: Any, index: Any, gtids: Any, out: Any, sizes: Any) -> None:
    text, source = np.empty(_TEXT, np.uint8), np.empty(49, np.uint8)
    for i in range(len(gtids)):
        event = index[gtids[i]]
        at, stop = int64(event.offset) + HEADER, int64(event.offset) + int64(event.length)
        size, sequence, last = 0, int64(-1), int64(-1)
        if event.type == EventType.MARIA_GTID:
            size = put_digits(little(data, at + 8, 4), text, 0)
            text[size] = 0x2D
            size = put_digits(little(data, at - HEADER + 5, 4), text, size + 1)
            text[size] = 0x2D
            size = put_digits(little(data, at, 8), text, size + 1)
        elif event.type == EventType.GTID_TAGGED:
            source[16] = 0
            number = tagged(data, at, stop, source)
            if number <= 0:
                continue
            size = _put_uuid(source, 0, text, 0)
            if source[16]:
                text[size] = 0x3A
                for k in range(source[16]):
                    text[size + 1 + k] = source[17 + k]
                size += 1 + source[16]
            text[size] = 0x3A
            size = put_digits(number, text, size + 1)
        elif stop - at >= 25:
            size = _put_uuid(data, at + 1, text, 0)
            text[size] = 0x3A
            size = put_digits(little(data, at + 17, 8), text, size + 1)
            if stop - at >= 42 and data[at + 25] == _TIMESTAMPS:
                last, sequence = little(data, at + 26, 8), little(data, at + 34, 8)
        to = _put_prop(_CURRENT, text, size, out[i], 0)
        if sequence >= 0:
            to = _put_prop(_SEQUENCE, text, put_digits(sequence, text, 0), out[i], to)
            to = _put_prop(_LAST, text, put_digits(last, text, 0), out[i], to)
        sizes[i] = to
