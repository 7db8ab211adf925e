"""What a session knows of each client, and what it hands out while the client's range changes hands."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_core.contract.claim import Claim
from cdc_core.contract.reached import Reached
from cdc_core.meta.epoch import Epoch
from cdc_core.position import EntryPosition
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.store.range import Range


@dataclass(frozen=True, slots=True)
class Batch:
    """An outstanding claim as the source has it, the range of the ring behind it, the rules by which its owner sees
    both, and when it was claimed."""

    claim: Claim
    range: Range
    rules: Rules = NO_RULES
    since: float = 0.0  # seconds since the epoch

    @property
    def id(self) -> int:
        return self.claim.batch_id


@dataclass(frozen=True, slots=True)
class PendingAck:
    """A range that will be acked once `cursor` is written.

    `end` is where the range ends. `cursor` is None when no transaction ends in it; `batch_id` is None when nobody
    claimed it, because it is empty. `tables`: those of which it has changes; `redefined`: those on which it has DDL
    statements; `mended`: stopped ones that the lake has as the source has them where the range ends. `since`: when it
    was claimed.
    """

    client_id: int
    range: Range
    end: EntryPosition
    cursor: EntryPosition | None
    batch_id: int | None = None
    tables: tuple[str, ...] = ()
    redefined: frozenset[str] = frozenset()
    mended: tuple[str, ...] = ()
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Dropped:
    """What clients had of a transaction that the source lost, by client: the claims that were rolled back, and the
    position up to which rows of it were acked."""

    claims: dict[int, list[int]]
    acked: dict[int, EntryPosition]


@dataclass(slots=True)
class ClientState:
    """One client. While `busy`, an ack of it is being written, and nothing else may move it."""

    client_id: int
    cursor: EntryPosition | None  # the last acked transaction end; None before the first transaction came
    next_start: EntryPosition | None  # where the next claim starts
    epoch: Epoch
    generation: int  # another number after every rollback and every start
    rollbacks: int = 0
    batches: list[Batch] = field(default_factory=list)
    busy: bool = False
    reached: Reached | None = None  # what the client's lake must have
    last_acked: tuple[int, str] | None = None  # batch and owner: an ack whose answer was lost may be made again
