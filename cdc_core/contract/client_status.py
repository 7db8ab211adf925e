"""The status of one client: its cursor, its marks in the ring, its claims, its stopped tables and open snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_core.contract.claim import Claim
from cdc_core.contract.fields import fields_of, known, position_from, position_to
from cdc_core.contract.reached import Reached
from cdc_core.contract.snapshot import Snapshot
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.position import EntryPosition


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """A claim that is outstanding."""

    batch_id: int
    owner: str
    lease_deadline: float
    start: EntryPosition
    end: EntryPosition
    rows: int

    @classmethod
    def of(cls, claim: Claim) -> ClaimStatus:
        return cls(claim.batch_id, claim.owner, claim.lease_deadline, claim.start, claim.end, claim.rows)

    def to_dict(self) -> dict[str, Any]:
        return fields_of(self) | {"start": self.start.to_dict(), "end": self.end.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ClaimStatus:
        places = {"start": position_from(fields["start"]), "end": position_from(fields["end"])}
        return cls(**known(cls, fields) | places)


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """One client. `reached` says how far rows were acked; `cursor` is the end of the last acked transaction.
    `rollbacks` counts since the destination started. `generation` is a token: it changes with every rollback and every
    start, so Dagster's run keys tell claims before and after apart. `backlog_ddl` counts DDL statements that wait.
    `identity` is the destination's, the same for all clients. `configured`: it is always subscribed.
    `holds_back_seconds`: how long a full ring has been waiting for an ack of this client; None when none does.
    `snapshots` are those of its tables that are open. `rules`: the fingerprint of what its lake sees of the tables; ""
    for all of them. `quarantined`: how many rows wait in the quarantine of a table, as its lake's writer reported it.
    `blocked`: tables whose change logs wait, as rows break what is expected of them; the run that merges reports them.
    """

    client_id: int
    cursor: EntryPosition | None
    reached: Reached | None
    epoch: int
    backlog_rows: int
    backlog_bytes: int
    put: int
    get: int
    ack: int
    claims: tuple[ClaimStatus, ...]
    stopped: tuple[StoppedTable, ...]
    rollbacks: int
    generation: int
    backlog_ddl: int = 0
    configured: bool = False
    holds_back_seconds: float | None = None
    identity: str = ""
    snapshots: tuple[Snapshot, ...] = ()
    rules: str = ""
    quarantined: Mapping[str, int] = field(default_factory=dict)
    blocked: tuple[StoppedTable, ...] = ()

    @property
    def waiting(self) -> int:
        """Rows and DDL statements that are not acked."""
        return self.backlog_rows + self.backlog_ddl

    @property
    def halted(self) -> tuple[StoppedTable, ...]:
        """All tables that take no changes: the service leaves them out of batches, or their change logs wait."""
        return (*self.stopped, *self.blocked)

    def to_dict(self) -> dict[str, Any]:
        return fields_of(self) | {
            "cursor": position_to(self.cursor),
            "reached": self.reached.to_dict() if self.reached else None,
            "claims": [claim.to_dict() for claim in self.claims],
            "stopped": [stopped.to_dict() for stopped in self.stopped],
            "snapshots": [snapshot.to_dict() for snapshot in self.snapshots],
            "quarantined": dict(self.quarantined),
            "blocked": [one.to_dict() for one in self.blocked],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ClientStatus:
        values = {
            "cursor": position_from(fields["cursor"]),
            "reached": Reached.from_dict(fields["reached"]) if fields["reached"] else None,
            "claims": tuple(map(ClaimStatus.from_dict, fields["claims"])),
            "stopped": tuple(map(StoppedTable.from_dict, fields["stopped"])),
            "snapshots": tuple(map(Snapshot.from_dict, fields.get("snapshots", ()))),
            "blocked": tuple(map(StoppedTable.from_dict, fields.get("blocked", ()))),
        }
        return cls(**known(cls, fields) | values)
