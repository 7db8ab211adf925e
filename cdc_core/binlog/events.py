"""The codes of events in MySQL and MariaDB, and how each type is treated. No bytes are read here.

Fails closed: a type that is not listed passes only when its header says that it may be ignored.
Source: MySQL source documentation, "Binlog event types"; MariaDB knowledge base, "Replication protocol".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

HEADER = 19  # bytes: timestamp 4, type 1, server id 4, size 4, end position 4, flags 2
CHECKSUM = 4  # bytes after an event, where the server writes checksums
MAX_EVENT = (1 << 30) + (1 << 20)  # bytes: servers send at most 1 GiB and a little
ARTIFICIAL = 0x20  # header flag LOG_EVENT_ARTIFICIAL_F: the event is in no journal
IGNORABLE = 0x80  # header flag LOG_EVENT_IGNORABLE_F
STATEMENT_END = 1  # rows event flag STMT_END_F: the statement ends, and with it its table maps
STANDALONE = 1  # MariaDB GTID flag FL_STANDALONE: no transaction follows


class EventType(IntEnum):
    """The types that we know, by code."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIA_ANNOTATE_ROWS = 160
    MARIA_BINLOG_CHECKPOINT = 161
    MARIA_GTID = 162
    MARIA_GTID_LIST = 163
    MARIA_START_ENCRYPTION = 164  # servers send decrypted events; ciphertext would not pass the framing
    MARIA_QUERY_COMPRESSED = 165
    MARIA_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIA_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIA_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIA_WRITE_ROWS_COMPRESSED = 169
    MARIA_UPDATE_ROWS_COMPRESSED = 170
    MARIA_DELETE_ROWS_COMPRESSED = 171


class Treatment(IntEnum):
    """What `stream.scan` does with the events of a type."""

    UNKNOWN = 0  # passes only when its header says that it may be ignored
    PASS = 1
    QUERY = 2
    XID = 3
    TABLE_MAP = 4
    ROWS = 5
    MARIA_GTID = 6
    NEW_FILE = 7
    XA_PREPARE = 8
    REFUSED = 9
    LOAD = 10


INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 1, 2, 3, 4  # what a row image says: codes of `op`
NOTHING = 0  # an image of a row that the lake does not see

_COMPRESSED: dict[int, int] = {
    EventType.MARIA_QUERY_COMPRESSED: EventType.QUERY,
    EventType.MARIA_WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.MARIA_UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.MARIA_DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.MARIA_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.MARIA_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.MARIA_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
_ROWS: dict[int, int] = {
    EventType.WRITE_ROWS_V1: INSERT,
    EventType.UPDATE_ROWS_V1: UPDATE_BEFORE,
    EventType.DELETE_ROWS_V1: DELETE,
    EventType.WRITE_ROWS: INSERT,
    EventType.UPDATE_ROWS: UPDATE_BEFORE,
    EventType.DELETE_ROWS: DELETE,
    EventType.PARTIAL_UPDATE_ROWS: UPDATE_BEFORE,
}
_TREATED: dict[int, int] = {
    EventType.QUERY: Treatment.QUERY,
    EventType.XID: Treatment.XID,
    EventType.TABLE_MAP: Treatment.TABLE_MAP,
    EventType.MARIA_GTID: Treatment.MARIA_GTID,
    EventType.FORMAT_DESCRIPTION: Treatment.NEW_FILE,
    EventType.XA_PREPARE: Treatment.XA_PREPARE,
    EventType.EXECUTE_LOAD_QUERY: Treatment.LOAD,
}

_REPORT = "This is a bug of Sluice: report it with the statement that was run."
REFUSALS: dict[int, tuple[str, str]] = {  # message and hint
    EventType.TRANSACTION_PAYLOAD: ("compressed transaction that was not expanded", _REPORT),
    EventType.XA_PREPARE: ("rows of an XA transaction that is only prepared", _REPORT),
    EventType.INCIDENT: (
        "incident: the server reports that its binlog has a gap",
        "Changes may be missing: start after this event, and reload the tables (sluice copy).",
    ),
    **dict.fromkeys(_COMPRESSED, ("compressed event that was not expanded", _REPORT)),
}


def name_of(code: int) -> str:
    """`TABLE_MAP (19)`, or `type 99` for a code without a name."""
    try:
        return f"{EventType(code).name} ({code})"
    except ValueError:
        return f"type {code}"


def _table(values: Mapping[int, int]) -> npt.NDArray[np.uint8]:
    """One value for each type code, 0 for codes that are not listed."""
    table = np.zeros(256, np.uint8)
    table[list(values)] = list(values.values())
    return table


TREATMENT = _table(
    dict.fromkeys(map(int, EventType), int(Treatment.PASS))
    | dict.fromkeys(REFUSALS, Treatment.REFUSED)
    | dict.fromkeys(_ROWS, Treatment.ROWS)
    | _TREATED
)
OPERATION = _table(_ROWS)  # of a rows event: INSERT, DELETE, or UPDATE_BEFORE for the pair of images
PLAIN = _table(_COMPRESSED)  # the type that a compressed event of MariaDB's stands for
GTIDS = _table(  # 1 for the types that begin a transaction's events
    dict.fromkeys((EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIA_GTID), 1)
)
