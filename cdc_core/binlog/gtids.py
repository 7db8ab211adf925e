"""The last transaction's GTID within annotated events: the name that a position has on other servers too.

Reads MySQL's GTID events, with tags (MySQL 8.3 and later) and without, and MariaDB's.
Source: MySQL source documentation, "Gtid_event" and "Message serialization library".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import HEADER, EventType
from cdc_core.errors import DecodeError

_KINDS = (EventType.GTID, EventType.GTID_TAGGED, EventType.MARIA_GTID)


def last_gtid(data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> str | None:
    """`uuid:number` or `uuid:tag:number` (MySQL), `domain-server-number` (MariaDB) of the last GTID event; or None."""
    event = _last(data, index)
    if event is None:
        return None
    kind, raw = event
    body = raw[HEADER:]
    if kind != EventType.GTID_TAGGED and len(body) < (25 if kind == EventType.GTID else 12):
        raise unreadable()
    if kind == EventType.GTID:
        return f"{uuid.UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}"
    if kind == EventType.MARIA_GTID:
        domain, number = int.from_bytes(body[8:12], "little"), int.from_bytes(body[:8], "little")
        return f"{domain}-{int.from_bytes(raw[5:9], 'little')}-{number}"
    return str(_tagged(body))


def last_commit_time(data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> int | None:
    """When the last transaction was committed at its original server, in microseconds since the epoch.

    MySQL 8.0 and later say so in the GTID event; None where they do not."""
    event = _last(data, index)
    if event is not None and event[0] == EventType.GTID_TAGGED:
        return _tagged(event[1][HEADER:]).committed
    if event is None or event[0] != EventType.GTID or len(event[1]) < HEADER + 49:
        return None
    at = HEADER + 42  # flags 1, uuid 16, number 8, logical clock 1 + 8 + 8
    immediate = int.from_bytes(event[1][at : at + 7], "little")
    original = int.from_bytes(event[1][at + 7 : at + 14], "little")
    return original if immediate >> 55 and len(event[1]) >= at + 14 else immediate & (1 << 55) - 1


@dataclass(frozen=True, slots=True)
class _Tagged:
    """What a tagged GTID event tells: fields with a number each, in rising order, some left out."""

    source: bytes
    number: int
    tag: str
    committed: int | None

    def __str__(self) -> str:
        return ":".join(filter(None, [str(uuid.UUID(bytes=self.source)), self.tag, str(self.number)]))


_FLAGS, _SOURCE, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE, _COMMITTED, _COMMITTED_FIRST = range(8)


def _tagged(body: bytes) -> _Tagged:
    found: dict[int, int] = {}
    source, tag = bytes(16), ""
    try:
        at = _packed(body, _packed(body, _packed(body, 0)[1])[1])[1]  # version, size, last field to be understood
        while at < len(body):
            field, at = _packed(body, at)
            if field > _COMMITTED_FIRST:
                break
            if field == _SOURCE:
                numbers = []
                for _ in range(16):
                    number, at = _packed(body, at)
                    numbers.append(number)
                source = bytes(numbers)
            elif field == _TAG:
                size, at = _packed(body, at)
                tag, at = body[at : at + size].decode(), at + size
            else:
                found[field], at = _packed(body, at)
        when = found.get(_COMMITTED_FIRST, found.get(_COMMITTED))
        return _Tagged(source, found[_NUMBER] >> 1, tag, when)  # its lowest bit is the sign
    except (IndexError, KeyError, ValueError) as error:
        raise unreadable() from error


def unreadable() -> DecodeError:
    return DecodeError(
        "the GTID of a transaction cannot be read",
        hint="Check the source's binlog with mysqlbinlog --verify-binlog-checksum.",
    )


def _packed(body: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends: its first byte has a one for each byte more, then a zero, from its lowest bit on."""
    more = (~body[at] & body[at] + 1).bit_length() - 1
    if at + more >= len(body):
        raise IndexError(at)
    return int.from_bytes(body[at : at + more + 1], "little") >> min(more + 1, 8), at + more + 1


def _last(data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> tuple[int, bytes] | None:
    found = np.flatnonzero(np.isin(index["type"], _KINDS))
    if not len(found):
        return None
    row = index[found[-1]]
    return int(row["type"]), data[row["offset"] : row["offset"] + row["length"]].tobytes()
