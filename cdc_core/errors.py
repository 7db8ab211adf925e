"""The errors that an operator may see: each says what is wrong, where, and what to do.

`message` says what is wrong. `place` says where: a position, a file with line and key, a table, a node's path. An error
about the binlog names the start of the event. `hint` says what to do. The log, the service's page, HTTP, Flight and
Dagster show the same three parts, and the error's code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self

UNNAMED = "DESTINATION"
"""Stands in a hint for the destination, where its name is not known."""

BEGIN_ANEW = (
    f"If what is missing cannot be had: `sluice reset {UNNAMED} --anew --yes` goes on at the source's end and stops "
    f"all tables, and `sluice snapshot {UNNAMED} --lake LAKE --conf CONF` reloads them; in Dagster, the job "
    f"reset_{UNNAMED} with `anew`, then snapshot_{UNNAMED}."
)
"""The remedy where the source no longer has changes that the lake lacks."""

_NAMED = re.compile(rf"(?<![\w.`])([a-z]+_)?{UNNAMED}(?!\w)")  # not in the name of a table


def safe_name(destination: str) -> str:
    """The destination in the names of its jobs: Dagster's have letters, digits and underscores alone."""
    return re.sub("[^A-Za-z0-9_]", "_", destination)


def naming(hint: str, destination: str) -> str:
    """The hint with the destination in the place of the word for it, by itself or in a job's name."""
    return _NAMED.sub(lambda found: f"{found[1]}{safe_name(destination)}" if found[1] else destination, hint)


class ErrorCode(StrEnum):
    """What kind of error it is, as `error` says on the wire. A code never changes; a class may be renamed."""

    SLUICE = "SluiceError"
    CONFIG = "ConfigError"
    SOURCE = "SourceError"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    SOURCE_BEHIND = "SourceBehind"
    SOURCE_CHANGED = "SourceChanged"
    POSITION = "PositionError"
    PURGED = "PositionPurged"
    SOURCE_SET_BACK = "SourceSetBack"
    DECODE = "DecodeError"
    SCHEMA = "SchemaError"
    STORE = "StoreError"
    STORE_DAMAGED = "StoreDamaged"
    RANGE_GONE = "RangeGone"
    SESSION = "SessionError"
    UNKNOWN_DESTINATION = "UnknownDestination"
    CURSOR = "CursorError"
    LEADERSHIP_LOST = "LeadershipLost"
    RUNS_ELSEWHERE = "RunsElsewhere"
    RUNS_NOWHERE = "RunsNowhere"
    ACCESS_DENIED = "AccessDenied"
    BAD_REQUEST = "BadRequest"  # a call whose fields are malformed: no class has it
    INTERNAL = "InternalError"  # a fault of the service itself: no class has it
    SERVICE_UNAVAILABLE = "ServiceUnavailable"
    QUEUE = "QueueError"
    LAKE = "LakeError"
    TABLE_STOPPED = "TableStopped"
    PROCESS = "ProcessError"


class SluiceError(Exception):
    """Base of all errors that an operator may see."""

    code: ClassVar[ErrorCode] = ErrorCode.SLUICE

    def __init__(self, message: str, *, hint: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __init_subclass__(cls, code: ErrorCode | None = None) -> None:
        """A subclass without a code of its own is seen from outside as its base."""
        if code is not None:
            cls.code = code
            _CLASSES[code.value] = cls

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return f"{self.message}{where}. {self.hint}"

    def named(self, destination: str) -> Self:
        """Puts the destination's name into the hint."""
        self.hint = naming(self.hint, destination)
        return self

    def as_dict(self) -> dict[str, str]:
        """The error's one JSON form."""
        return {"error": self.code.value, "message": self.message, "place": self.place, "hint": self.hint}


_CLASSES: dict[str, type[SluiceError]] = {ErrorCode.SLUICE.value: SluiceError}


def error_from(fields: Mapping[str, Any]) -> SluiceError:
    """The error whose `as_dict` gave `fields`; the base class when its code is not known here."""
    code = str(fields.get("error", ""))
    message, place, hint = (str(fields.get(key) or "") for key in ("message", "place", "hint"))
    if code in _CLASSES:
        return _CLASSES[code](message, place=place, hint=hint)
    return SluiceError(f"{code}: {message}" if code else message, place=place, hint=hint)


class ConfigError(SluiceError, code=ErrorCode.CONFIG):
    """A configuration file or a setting is wrong. Place: file, line and key."""


class SourceError(SluiceError, code=ErrorCode.SOURCE):
    """The MySQL server refuses us, or is not set up for row based change capture."""


class SourceUnavailable(SourceError, code=ErrorCode.SOURCE_UNAVAILABLE):
    """The MySQL server cannot be reached or went away. Trying again may help."""


class SourceBehind(SourceUnavailable, code=ErrorCode.SOURCE_BEHIND):
    """The server lacks transactions that were read from another one. A replica may still receive them."""


class SourceChanged(SourceError, code=ErrorCode.SOURCE_CHANGED):
    """Another server answers at the address, and the position has no equivalent in its journals."""


class PositionError(SluiceError, code=ErrorCode.POSITION):
    """A position does not exist, was purged, or is malformed."""


class PositionPurged(PositionError, code=ErrorCode.PURGED):
    """The source has purged what follows a position. Only reloaded tables have those rows."""


class SourceSetBack(PositionError, code=ErrorCode.SOURCE_SET_BACK):
    """The server does not have what was read from it before. Only a person can decide what the lake should have."""


class DecodeError(SluiceError, code=ErrorCode.DECODE):
    """Bytes of the binlog are damaged or not supported. Place: journal and offset of the event's start."""


class RowsWithoutTable(DecodeError):
    """A rows event without a table map before it: reading began inside a transaction, or bytes are damaged.

    The source may recover by reading from the transaction's start; outside it is a DecodeError like any other.
    """


class SchemaError(SluiceError, code=ErrorCode.SCHEMA):
    """A table's definition is missing or does not fit its rows. Place: table and position."""


class StoreError(SluiceError, code=ErrorCode.STORE):
    """The ring cannot serve the request."""


class RangeGone(StoreError, code=ErrorCode.RANGE_GONE):
    """The range behind a claim or a ticket was acked, rolled back, or lost with a restart."""


class StoreDamaged(StoreError, code=ErrorCode.STORE_DAMAGED):
    """The store on disk does not hold what was written to it. Place: the file and the offset of the record."""


class SessionError(SluiceError, code=ErrorCode.SESSION):
    """A call does not fit the client's session: unknown client, foreign batch, ack out of order."""


class UnknownDestination(SessionError, code=ErrorCode.UNKNOWN_DESTINATION):
    """No destination of that name is configured."""


class CursorError(SluiceError, code=ErrorCode.CURSOR):
    """A cursor cannot be read or written. Place: the node's path."""


class LeadershipLost(CursorError, code=ErrorCode.LEADERSHIP_LOST):
    """A write was refused because another server took over the destination. Place: the node that was checked."""


class RunsElsewhere(SluiceError, code=ErrorCode.RUNS_ELSEWHERE):
    """This server is on standby for the destination. Place: the server that runs it."""


class RunsNowhere(SluiceError, code=ErrorCode.RUNS_NOWHERE):
    """No server runs the destination at the moment; one takes it over within seconds. Place: the destination."""


class AccessDenied(SluiceError, code=ErrorCode.ACCESS_DENIED):
    """The caller sent no token, or a wrong one."""


class ServiceUnavailable(SluiceError, code=ErrorCode.SERVICE_UNAVAILABLE):
    """The service cannot be reached, or did not answer in time. Trying again may help. Place: its URL."""


class QueueError(SluiceError, code=ErrorCode.QUEUE):
    """A message queue's broker is down or refuses a message. Place: topic and partition, or the broker."""


class LakeError(SluiceError, code=ErrorCode.LAKE):
    """The lake cannot be read or written, or contradicts the cursor. Place: table or path."""


class TableStopped(LakeError, code=ErrorCode.TABLE_STOPPED):
    """A table cannot take a change. The table stops; the others go on."""
