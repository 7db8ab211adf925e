"""Positions in the binlog, with their numeric order and Canal's JSON.

Order is by journal number, then offset, never by the journal's name as text.
Source: Canal's `EntryPosition`, `LogPosition`, `LogIdentity`; MySQL manual, "The Binary Log".
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from typing import Any

from cdc_core.errors import PositionError
from cdc_core.gtid import Gtid, Gtids, parse_gtid_field

JOURNAL_START = 4  # a journal's first event follows its magic number
OFFSET_BITS = 38  # journals of up to 256 GiB; 25 bits are left for their number in a signed 64 bit integer
_MAX_OFFSET = (1 << OFFSET_BITS) - 1
_MAX_NUMBER = (1 << (63 - OFFSET_BITS)) - 1
_LOG_POSITION_TYPE = "com.alibaba.otter.canal.protocol.position.LogPosition"


def journal_number(journal_name: str) -> int:
    """The number after the last dot: 7 for `mysql-bin.000007`. Raises PositionError for a name without one."""
    number = journal_name.rpartition(".")[2]
    if not (number.isascii() and number.isdigit()):
        raise PositionError(
            f"journal name {journal_name!r} has no number after its last dot",
            hint="Give a journal as SHOW BINARY LOGS lists it, for example mysql-bin.000001.",
        )
    return int(number)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A fingerprint that shows whether a server still has the event that ends at a position. `start` is where the event
    begins, `digest` a checksum of its time, its server and its body. With `start` 0 the digest is when the journal was
    begun, in epoch seconds: for a position before which no event was read."""

    start: int
    digest: int

    @staticmethod
    def to_json(anchor: Anchor | None) -> list[int] | None:
        """A value for JSON."""
        return [anchor.start, anchor.digest] if anchor else None

    @classmethod
    def from_json(cls, value: list[Any] | None) -> Anchor | None:
        """Raises TypeError or ValueError for another value."""
        return cls(*map(int, value)) if value else None


def journal_base(journal_name: str) -> str:
    """What the names of one server's journals have in common: `mysql-bin` for `mysql-bin.000007`."""
    return journal_name.rpartition(".")[0]


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class EntryPosition:
    """A place between two events: the journal, and the offset in it where the next event starts.

    `timestamp` is in milliseconds since the epoch. `gtid` is the last transaction before the place, or in GTID mode the
    set of all before it. `anchor` is not part of Canal's JSON. Equality and order use the journal's number and the
    offset alone.
    """

    journal_name: str
    position: int
    timestamp: int | None = None
    server_id: int | None = None
    gtid: Gtid | Gtids | None = None
    included: bool = False
    anchor: Anchor | None = None

    @property
    def order(self) -> tuple[int, int]:
        return journal_number(self.journal_name), self.position

    def version(self) -> int:
        """The position as one 64 bit integer of the same order: Delta's txnVersion. Raises PositionError."""
        number, offset = self.order
        if offset > _MAX_OFFSET or number > _MAX_NUMBER:
            raise PositionError(
                "the position does not fit 64 bits",
                place=str(self),
                hint="Reset the binlogs of the source, then set the cursors with sluice reset.",
            )
        return number << OFFSET_BITS | offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntryPosition) and self.order == other.order

    def __lt__(self, other: EntryPosition) -> bool:
        return self.order < other.order

    def __hash__(self) -> int:
        return hash(self.order)

    def __str__(self) -> str:
        return f"{self.journal_name}:{self.position}"

    def to_dict(self) -> dict[str, Any]:
        """Canal's field names, as in its JSON."""
        return {
            "gtid": str(self.gtid or ""),
            "included": self.included,
            "journalName": self.journal_name,
            "position": self.position,
            "serverId": self.server_id,
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> EntryPosition:
        """Raises PositionError when a field is missing or of the wrong kind."""
        try:
            position = cls(
                journal_name=str(fields["journalName"]),
                position=int(fields["position"]),
                timestamp=fields.get("timestamp"),
                server_id=fields.get("serverId"),
                gtid=parse_gtid_field(fields.get("gtid") or ""),
                included=bool(fields.get("included", False)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PositionError(
                f"not a position: {fields!r}", hint='Give it as {"journalName": "mysql-bin.000001", "position": 4}.'
            ) from error
        position.version()
        return position


def split_version(version: int) -> tuple[int, int]:
    """The journal number and offset of `EntryPosition.version()`."""
    return version >> OFFSET_BITS, version & _MAX_OFFSET


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position and the server that it belongs to: the content of a cursor."""

    address: str
    port: int
    postion: EntryPosition  # Canal's spelling, kept as on the wire
    slave_id: int = -1

    def to_json(self) -> str:
        """The content of Canal's cursor node, with its fields in Canal's order."""
        node = {
            "@type": _LOG_POSITION_TYPE,
            "identity": {"slaveId": self.slave_id, "sourceAddress": {"address": self.address, "port": self.port}},
            "postion": self.postion.to_dict(),
        }
        return json.dumps(node, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> LogPosition:
        """Reads what a Java Canal or this service wrote. Raises PositionError."""
        try:
            node = json.loads(text)
            source = node["identity"]["sourceAddress"]
            return cls(
                address=str(source["address"]),
                port=int(source["port"]),
                postion=EntryPosition.from_dict(node["postion"]),
                slave_id=int(node["identity"].get("slaveId", -1)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PositionError(
                f"not a cursor in Canal's JSON: {text[:200]!r}", hint="Correct or remove the node, then start again."
            ) from error

    def at(self, position: EntryPosition) -> LogPosition:
        """The same server at another position."""
        return replace(self, postion=position)
