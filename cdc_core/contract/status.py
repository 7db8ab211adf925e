"""A destination's status as a frozen value, which every reader shares: doors, pages, metrics, clients and commands.

`to_dict` makes the JSON of the HTTP door; `from_dict` reads it. Times are in seconds since the epoch. The defaults are
the status of a destination that does not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.expiry_report import ExpiryReport
from cdc_core.contract.failover import Detected
from cdc_core.contract.fields import fields_of, known, position_from, position_to
from cdc_core.errors import SluiceError, error_from
from cdc_core.position import EntryPosition


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error's parts, and the time since when it lasts; None where unknown."""

    error: str
    message: str
    place: str
    hint: str
    since: float | None = None

    @classmethod
    def of(cls, error: Exception, since: float | None = None) -> ErrorReport:
        if isinstance(error, SluiceError):
            return cls(**error.as_dict(), since=since)
        message, hint = str(error) or "an unexpected error", "This is a bug: report it with the service's log."
        return cls(type(error).__name__, message, "", hint, since)

    def same_as(self, other: ErrorReport | None) -> bool:
        """Whether both report the same error, at whatever time."""
        return other is not None and self.parts == other.parts

    @property
    def parts(self) -> dict[str, str]:
        return {"error": self.error, "message": self.message, "place": self.place, "hint": self.hint}

    def as_error(self) -> SluiceError:
        return error_from(self.parts)

    def to_dict(self) -> dict[str, Any]:
        return fields_of(self)


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The MySQL server that is read, or would be. `detected` is None while no server has been chosen."""

    address: str | None = None
    version: str | None = None
    server_id: int | None = None
    connected: bool = False
    detected: Detected | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "version": self.version,
            "server_id": self.server_id,
            "connected": self.connected,
            **(self.detected.to_dict() if self.detected else {}),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SourceStatus:
        detected = Detected.from_dict(fields) if "role" in fields else None
        return cls(fields["address"], fields["version"], fields["server_id"], fields["connected"], detected)


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """Sequences of put, get and ack, and how full the ring is. get and ack are those of the client furthest behind."""

    put: int = 0
    get: int = 0
    ack: int = 0
    items: int = 0
    bytes: int = 0
    capacity_items: int | None = 0
    capacity_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StartReport:
    """How reading began: by which rule, what the rule looked at, the position it chose, and how long that took.
    `lost` says why rows were given up."""

    rule: str
    looked_at: str
    chosen: EntryPosition
    seconds: float
    lost: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return fields_of(self) | {"chosen": self.chosen.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> StartReport:
        return cls(**known(cls, fields) | {"chosen": EntryPosition.from_dict(fields["chosen"])})


@dataclass(frozen=True, slots=True)
class ActiveServer:
    """The server of the cluster that runs the destination. None is unknown."""

    address: str | None
    http: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """`start` says how reading began, `binlog` how far the cursors are from being purged; both are None until known.
    `note` says why the destination deliberately does not read. Only a standby has `active`.
    `stages`: where the seconds of the last minute went, by stage; empty for one that does not run."""

    destination: str
    state: str
    source: SourceStatus = SourceStatus()
    start: StartReport | None = None
    binlog: ExpiryReport | None = None
    position: EntryPosition | None = None
    store: StoreFigures = StoreFigures()
    lag_seconds: float | None = None
    backlog_rows: int = 0
    clients: tuple[ClientStatus, ...] = field(default=())
    error: ErrorReport | None = None
    note: str | None = None
    active: ActiveServer | None = None
    stages: Mapping[str, float] = field(default_factory=dict)

    def client(self, client_id: int) -> ClientStatus | None:
        """None for a client that the destination does not have."""
        return next((one for one in self.clients if one.client_id == client_id), None)

    def to_dict(self) -> dict[str, Any]:
        fields = fields_of(self) | {
            "source": self.source.to_dict(),
            "start": self.start.to_dict() if self.start else None,
            "binlog": self.binlog.to_dict() if self.binlog else None,
            "position": position_to(self.position),
            "store": asdict(self.store),
            "clients": [client.to_dict() for client in self.clients],
            "error": self.error.to_dict() if self.error else None,
            "active": asdict(self.active) if self.active else None,
            "stages": {stage: round(seconds, 3) for stage, seconds in self.stages.items()},
        }
        return fields if self.active else {key: value for key, value in fields.items() if key != "active"}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Status:
        """Reads what `to_dict` gave; fields that are unknown here are ignored."""
        start, binlog, error = fields.get("start"), fields.get("binlog"), fields["error"]
        active = fields.get("active")
        values = {
            "source": SourceStatus.from_dict(fields["source"]),
            "start": StartReport.from_dict(start) if start else None,
            "binlog": ExpiryReport.from_dict(binlog) if binlog else None,
            "position": position_from(fields["position"]),
            "store": StoreFigures(**known(StoreFigures, fields["store"])),
            "clients": tuple(map(ClientStatus.from_dict, fields["clients"])),
            "error": ErrorReport(**known(ErrorReport, error)) if error else None,
            "active": ActiveServer(**active) if active else None,
        }
        return cls(**known(cls, fields) | values)
