"""The name of an XA transaction (its xid), in statements and in XA_PREPARE events.

Source: MySQL manual, "XA Transaction SQL Statements"; MySQL source documentation, "XA_prepare_event".
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from cdc_core.binlog.damage import damaged
from cdc_core.errors import DecodeError

_TEXT = re.compile(r"XA\s+\w+\s+X'((?:[0-9a-f]{2})*)'\s*,\s*X'((?:[0-9a-f]{2})*)'\s*,\s*(-?\d+)", re.IGNORECASE)
_HEAD = struct.Struct("<BIII")  # one phase, format id, lengths of gtrid and bqual


@dataclass(frozen=True, slots=True)
class Xid:
    """A server never has two open transactions of one name."""

    gtrid: bytes
    bqual: bytes
    format_id: int

    def __str__(self) -> str:
        """As the binlog and `XA RECOVER CONVERT XID` write it."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


def named_in(text: str, place: str) -> Xid:
    """The xid of a statement such as `XA COMMIT X'..',X'..',1`: binlogs have no other form. Raises DecodeError."""
    found = _TEXT.match(text)
    if found is None:
        raise DecodeError(f"{text[:80]!r} names no XA transaction", place=place, hint="Report this with the statement.")
    return Xid(
        bytes.fromhex(found[1]), bytes.fromhex(found[2]), int(found[3]) & 0xFFFFFFFF
    )  # as many bits as events hold


def prepared_in(body: bytes, place: str) -> tuple[Xid, bool]:
    """The xid of an XA_PREPARE event's body, and whether it also commits (one phase). Raises DecodeError."""
    if len(body) >= _HEAD.size:
        once, format_id, first, second = _HEAD.unpack_from(body)
        if first + second == len(body) - _HEAD.size:
            names = body[_HEAD.size :]
            return Xid(names[:first], names[first:], format_id), once == 1
    raise damaged("an XA_PREPARE event", "its lengths do not add up", place)
