"""One hierarchy of errors: each names the thing, the place and the remedy.

`message` says what is wrong, `place` where (a position, a file and line, a table, a key) and `hint` what mends it.
The log, the status page, HTTP answers and Dagster all show the same three parts.
"""

from __future__ import annotations


class SluiceError(Exception):
    """Base of all errors that an operator may see."""

    def __init__(self, message: str, *, hint: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return f"{self.message}{where}. {self.hint}"

    def as_dict(self) -> dict[str, str]:
        return {"error": type(self).__name__, "message": self.message, "place": self.place, "hint": self.hint}


class ConfigError(SluiceError):
    """A configuration file or a setting is wrong; place is the file, line and key."""


class SourceError(SluiceError):
    """The MySQL server refuses us, or is not set up for row based change capture."""


class SourceUnavailable(SourceError):
    """The MySQL server cannot be reached or went away: worth trying again."""


class SourceBehind(SourceUnavailable):
    """The server lacks what was read from another one; a replica may get it yet."""


class SourceChanged(SourceError):
    """Another server answers at the address: what was read from the one before has no place in its journals."""


class PositionError(SluiceError):
    """A position does not exist, was purged, or is malformed."""


class DecodeError(SluiceError):
    """Bytes of the binlog that are damaged or not understood; place is the journal and offset."""


class RowsWithoutTable(DecodeError):
    """Rows of a table that nothing before them describes: reading began inside a transaction, or bytes are damaged."""

    def as_dict(self) -> dict[str, str]:
        """To those who look on it is what it is in the end: bytes that cannot be understood."""
        return super().as_dict() | {"error": DecodeError.__name__}


class SchemaError(SluiceError):
    """A table's definition cannot be had or does not fit its rows; place is the table and position."""


class StoreError(SluiceError):
    """The ring cannot serve what was asked for."""


class RangeGone(StoreError):
    """The range behind a claim or a ticket was acked, rolled back or lost with a restart."""


class SessionError(SluiceError):
    """A client's call does not fit its session: unknown client, foreign batch, ack out of order."""


class UnknownDestination(SessionError):
    """No instance of that name is configured."""


class CursorError(SluiceError):
    """A cursor cannot be read or written; place is the node's path."""


class LeadershipLost(CursorError):
    """A write was refused because another server took over the destination; place is the node that says so."""


class RunsElsewhere(SluiceError):
    """This server stands by for the destination; place is where it runs."""


class RunsNowhere(SluiceError):
    """Nobody runs the destination just now; a server takes it within seconds. Place is the destination."""


class AccessDenied(SluiceError):
    """The caller gave no token or a wrong one."""


class LakeError(SluiceError):
    """The lake cannot be read or written, or contradicts the cursor; place is the table or path."""


class TableStopped(LakeError):
    """A change that one table cannot take: that table stops, the others go on."""
