"""What a batch's numbers prove: pure functions over a table's result, the gate in front of the ack.

Without a snapshot a lake may lack rows that the source has, so a keyed table is held to what is provable for any lake:
every upsert met at most one row, and no more rows went than were deleted. A table that began with the source's first
row (`sluice.complete`) is held to exact arithmetic, and so is every table without a key; after a rewind only beyond
what the lake had before. A replay is held to what its commits said when they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition, split_version
from cdc_core.session.claim import Claim


@dataclass(frozen=True, slots=True)
class TableResult:
    """What happened to one table in one batch.

    `inserts`, `updates`, `deletes` are the source's operations after the version that the lake had (`after`);
    `upserts`, `net_deletes` what was left of them per key; `inserted`, `updated`, `deleted` Delta's own counts.
    `replayed`: the lake had it all, nothing was written. `parts`: what earlier tries of this range committed; they
    are judged again with it. `unjudged`: why they cannot be. `floor`: how far an earlier epoch had applied the table;
    `again`: rows up to there may be among these, so that an insert may meet its row. `stop`: it cannot take the batch.
    """

    table: str
    keyed: bool = True
    complete: bool = False
    replayed: bool = False
    created: bool = False
    added_columns: tuple[str, ...] = ()
    after: int | None = None
    version: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    net_rows: int = 0
    upserts: int = 0
    net_deletes: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    delta_version: int | None = None
    merge_seconds: float = 0.0
    applied_at: float = 0.0
    parts: tuple[TableResult, ...] = ()
    unjudged: str = ""
    floor: int | None = None
    again: bool = False
    stop: TableStopped | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one check."""

    passed: bool
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


def key_unique(results: Sequence[TableResult]) -> Verdict:
    """Each upsert met at most one row of the target: its key is there once now."""
    wrong = [
        f"{r.table}: {r.upserts} keys met {r.inserted + r.updated} rows"
        for r in _applied(results)
        if r.keyed and r.inserted + r.updated != r.upserts
    ]
    checked = sum(r.upserts for r in _applied(results) if r.keyed)
    return _verdict(wrong, f"{checked} keys, each once in its table", {"keys": checked})


def rows_add_up(results: Sequence[TableResult]) -> Verdict:
    """What Delta counts agrees with what the source did."""
    wrong = [f"{r.table}: {words}" for r in _applied(results) if (words := _sum(r))]
    unknown = sum(max(0, r.net_deletes - r.deleted) for r in _applied(results) if r.keyed and not r.complete)
    applied = _applied(results)
    counts = {"inserted": sum(r.inserted for r in applied), "deleted": sum(r.deleted for r in applied)}
    return _verdict(wrong, "rows in the lake and changes at the source agree", counts | {"deletes_unmatched": unknown})


def position_monotone(claim: Claim, results: Sequence[TableResult], ledger_end: EntryPosition | None = None) -> Verdict:
    """The batch goes forward, every table stands at its end now, and what was committed before can still be judged."""
    wrong = [] if claim.start < claim.end else [f"the batch goes from {claim.start} to {claim.end}"]
    end = claim.end.version()
    wrong += [f"{r.table}: applied {r.version}, not {end}" for r in results if not _rests(r) and r.version != end]
    for result in _applied(results):
        if result.after is not None and result.after >= result.version:
            number, offset = split_version(result.after)
            wrong.append(f"{result.table}: applied {result.version}, the lake stood at journal {number}:{offset}")
    wrong += [f"{r.table}: {r.unjudged}" for r in results if r.unjudged and r.stop is None]
    told = {"start": str(claim.start), "end": str(claim.end), "ledger": str(ledger_end) if ledger_end else ""}
    return _verdict(wrong, f"{claim.start} to {claim.end}", told)


def _rests(result: TableResult) -> bool:
    return result.replayed or result.stop is not None


def _applied(results: Sequence[TableResult]) -> list[TableResult]:
    """Every commit that the claim's rows rest on: of this try and of earlier ones."""
    taken = [result for result in results if result.stop is None]
    return [one for result in taken for one in (*result.parts, *(() if result.replayed else (result,)))]


def _sum(r: TableResult) -> str:
    grown, told = r.inserted - r.deleted, r.inserts - r.deletes
    if ((r.complete and not r.again) or not r.keyed) and grown != told:
        return f"grew by {grown} rows in the lake, by {told} at the source"
    if r.keyed and r.deleted > r.net_deletes:
        return f"{r.deleted} rows went for {r.net_deletes} deleted keys"
    return ""


def _verdict(wrong: list[str], fine: str, metadata: dict[str, Any]) -> Verdict:
    return Verdict(not wrong, "; ".join(wrong) or fine, metadata)
