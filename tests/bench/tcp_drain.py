"""A client of Canal's TCP protocol that counts rows in the entries' bytes, without reading values: a process.

Arguments and lines as `bench/canal/Drain.java`: PORT DESTINATION ROWS_TO_WARM_UP ROWS_IN_ALL.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from numba import types

from cdc_core.canal.client.connector import CanalConnector
from cdc_core.canal.protocol.declared import Get, PacketType
from cdc_core.compiled.kernel import BYTES, PAIR, helper, int64, kernel

_BATCH = 4096  # in units of 1 KB, as Canal counts
_WAIT = 10  # milliseconds


@helper
def _varint(data: Any, at: int) -> tuple[int, int]:
    value, shift = int64(0), 0
    while True:
        byte = int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


@helper
def _behind(data: Any, at: int, wire: int) -> int:
    """Where a field's value ends."""
    if wire == 1 or wire == 5:
        return at + (8 if wire == 1 else 4)
    size, at = _varint(data, at)
    return at + size if wire == 2 else at


@kernel(PAIR(BYTES, types.int64))
def count(data: Any, at: int) -> tuple[int, int]:
    """The batch's id and the rows of a Messages body that begins at `at`: fields 12 of all RowChange messages."""
    batch, rows, end = int64(0), int64(0), len(data)
    while at < end:
        tag, at = _varint(data, at)
        if tag == 8:
            batch, at = _varint(data, at)
            continue
        if tag != 0x12:
            at = _behind(data, at, tag & 7)
            continue
        size, at = _varint(data, at)
        entry_end, rowdata = at + size, False
        while at < entry_end:
            tag, at = _varint(data, at)
            if tag == 0x10:
                kind, at = _varint(data, at)
                rowdata = kind == 2
            elif tag == 0x1A and rowdata:
                size, at = _varint(data, at)
                change_end = at + size
                while at < change_end:
                    tag, at = _varint(data, at)
                    rows += tag == 0x62
                    at = _behind(data, at, tag & 7)
            else:
                at = _behind(data, at, tag & 7)
    return batch, rows


def take(connector: CanalConnector, seen: int, until: int) -> int:
    """Takes batches until so many rows were seen in all; how many were."""
    link = connector._connected()
    get = Get(destination=connector.destination, client_id="1001", fetch_size=_BATCH, timeout=_WAIT, unit=2)
    while seen < until:
        link.send(PacketType.GET, get)
        body = np.frombuffer(link.receive(PacketType.MESSAGES, 60), np.uint8)
        batch, rows = count(body, 0)
        if batch > 0:
            seen += rows
            connector.ack(batch)
    return seen


def main(port: str, destination: str, warm: str, rows: str) -> None:
    with CanalConnector("127.0.0.1", int(port), destination, rollback_on_connect=False) as connector:
        behind = take(connector, 0, int(warm))
        print("begin", flush=True)
        began = time.monotonic()
        seen = take(connector, behind, int(rows))
        print(json.dumps({"rows": seen - behind, "seconds": time.monotonic() - began}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
