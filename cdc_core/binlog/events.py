"""Event types of MySQL and MariaDB, and how each is treated. Numbers and sentences only; no bytes are read here.

Fails closed: a type that is not listed passes only when its header says that it may be ignored.
Source: MySQL source documentation, "Binlog event types"; MariaDB knowledge base, "Replication protocol".
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

HEADER = 19  # bytes: timestamp 4, type 1, server id 4, size 4, end position 4, flags 2
IGNORABLE = 0x80  # header flag LOG_EVENT_IGNORABLE_F
STATEMENT_END = 1  # rows event flag STMT_END_F: the table maps of the statement end here
STANDALONE = 1  # MariaDB GTID flag FL_STANDALONE: no transaction follows


class EventType(IntEnum):
    """The codes of the events that we know by name."""

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
    MARIA_START_ENCRYPTION = 164  # the events behind it come decrypted; ciphertext would not pass the framing
    MARIA_QUERY_COMPRESSED = 165
    MARIA_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIA_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIA_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIA_WRITE_ROWS_COMPRESSED = 169
    MARIA_UPDATE_ROWS_COMPRESSED = 170
    MARIA_DELETE_ROWS_COMPRESSED = 171


# Treatments: what the annotator does with a type.
UNKNOWN, PASS, QUERY, XID, TABLE_MAP, ROWS, MARIA_GTID, NEW_FILE, XA_PREPARE, REFUSED, LOAD = range(11)

_INSIDE = "Report this with the statement that was run: it should have been opened before."
REFUSALS: dict[int, tuple[str, str]] = {
    EventType.TRANSACTION_PAYLOAD: (
        "compressed transaction where none can be",
        _INSIDE,
    ),
    EventType.XA_PREPARE: (
        "rows of an XA transaction that is only prepared",
        "Report this: they should have been set aside before.",
    ),
    EventType.INCIDENT: (
        "incident: the server reports that its binlog has a gap",
        "Changes may be missing; take a new snapshot and start behind this event.",
    ),
    **dict.fromkeys(range(165, 172), ("compressed event where none can be", _INSIDE)),
}

PARTIAL_UPDATE_ROWS = int(EventType.PARTIAL_UPDATE_ROWS)  # for kernels
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 1, 2, 3, 4  # codes of `op`


def name_of(code: int) -> str:
    """`TABLE_MAP (19)`, or `type 99` for a code without a name."""
    try:
        return f"{EventType(code).name} ({code})"
    except ValueError:
        return f"type {code}"


def _treatments() -> npt.NDArray[np.uint8]:
    table = np.full(256, UNKNOWN, np.uint8)
    for event in EventType:
        table[event] = PASS
    for code in REFUSALS:
        table[code] = REFUSED
    table[[23, 24, 25, 30, 31, 32, 39]] = ROWS
    table[EventType.QUERY] = QUERY
    table[EventType.XID] = XID
    table[EventType.TABLE_MAP] = TABLE_MAP
    table[EventType.MARIA_GTID] = MARIA_GTID
    table[EventType.FORMAT_DESCRIPTION] = NEW_FILE
    table[EventType.XA_PREPARE] = XA_PREPARE
    table[EventType.EXECUTE_LOAD_QUERY] = LOAD
    return table


def _operations() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    table[[23, 30]] = INSERT
    table[[24, 31, 39]] = UPDATE_BEFORE
    table[[25, 32]] = DELETE
    return table


def _plain() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    table[165:172] = (EventType.QUERY, 23, 24, 25, 30, 31, 32)
    return table


def _gtids() -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    table[[EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIA_GTID]] = 1
    return table


TREATMENT = _treatments()
GTIDS = _gtids()  # 1 for the types that begin a transaction's events
OPERATION = _operations()  # a rows event's op; UPDATE_BEFORE stands for the pair
PLAIN = _plain()  # what MariaDB's compressed types stand for; 0 for all others
