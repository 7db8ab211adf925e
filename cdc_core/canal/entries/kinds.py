"""The kinds of entries and of what happened, with Canal's numbers. Source: EntryProtocol.proto of Canal 1.1.8."""

from __future__ import annotations

from enum import IntEnum


class EntryType(IntEnum):
    """What an Entry's store value is."""

    TRANSACTIONBEGIN = 1
    ROWDATA = 2
    TRANSACTIONEND = 3
    HEARTBEAT = 4
    GTIDLOG = 5


class CanalEventType(IntEnum):
    """What happened to the rows or the table of an Entry."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    CREATE = 4
    ALTER = 5
    ERASE = 6
    QUERY = 7
    TRUNCATE = 8
    RENAME = 9
    CINDEX = 10
    DINDEX = 11
    GTID = 12
    XACOMMIT = 13
    XAROLLBACK = 14
    MHEARTBEAT = 15
