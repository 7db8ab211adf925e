"""The last transaction's GTID within annotated events: the name that a position has on other servers too.

Reads MySQL's GTID events and MariaDB's; of tagged GTIDs (MySQL 8.3 and later) nothing is read, and none is told.
"""

from __future__ import annotations

import uuid

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import HEADER, EventType

_KINDS = (EventType.GTID, EventType.GTID_TAGGED, EventType.MARIA_GTID)


def last_gtid(data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> str | None:
    """`uuid:number` (MySQL) or `domain-server-number` (MariaDB) of the last GTID event; None without one."""
    event = _last(data, index)
    if event is None:
        return None
    kind, raw = event
    body = raw[HEADER:]
    if kind == EventType.GTID:
        return f"{uuid.UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}"
    if kind == EventType.MARIA_GTID:
        domain, number = int.from_bytes(body[8:12], "little"), int.from_bytes(body[:8], "little")
        return f"{domain}-{int.from_bytes(raw[5:9], 'little')}-{number}"
    return None


def last_commit_time(data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> int | None:
    """When the last transaction was committed at its original server, in microseconds since the epoch.

    MySQL 8.0 and later say so in the GTID event; None where they do not."""
    event = _last(data, index)
    if event is None or event[0] != EventType.GTID or len(event[1]) < HEADER + 49:
        return None
    at = HEADER + 42  # flags 1, uuid 16, number 8, logical clock 1 + 8 + 8
    immediate = int.from_bytes(event[1][at : at + 7], "little")
    original = int.from_bytes(event[1][at + 7 : at + 14], "little")
    return original if immediate >> 55 and len(event[1]) >= at + 14 else immediate & (1 << 55) - 1


def _last(data: npt.NDArray[np.uint8], index: npt.NDArray[np.void]) -> tuple[int, bytes] | None:
    found = np.flatnonzero(np.isin(index["type"], _KINDS))
    if not len(found):
        return None
    row = index[found[-1]]
    return int(row["type"]), data[row["offset"] : row["offset"] + row["length"]].tobytes()
