"""What earlier epochs of a client have put into a table: after a rewind the same rows come again.

By its key a row that comes again is the same again; its counts alone differ. Without a key it would be there twice,
so what the table has is left out. That it has it must be sure: the epochs' batches, by the ledger, must reach without
a gap from the claim's start to where the table is. Else the table stops, as it does where the source was another
server, whose positions say nothing; unless reading went on there by GTID, which tells nothing twice, and the table had
no more than the cursor.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc_core.errors import TableStopped
from cdc_core.session.claim import Claim
from spark_jobs.lake import Lake, app_id
from spark_jobs.ledger import Ledger

ALWAYS = 1 << 63  # beyond every version
_REBUILD = "Make the table anew from a copy: without a primary key it cannot tell rows that come again from new ones."


def earlier_apps(claim: Claim, table: str) -> list[str]:
    """The app ids of the epochs before the claim's, in order."""
    return [app_id(claim.destination, claim.client_id, table, epoch) for epoch in range(claim.epoch)]


def told_again(lake: Lake, path: str, claim: Claim, table: str, *, keyed: bool) -> int | None:
    """The version up to which the table's rows may come again, None when none can.

    Raises TableStopped for a table without a key where that cannot be known.
    """
    reached = lake.applied(path, earlier_apps(claim, table))
    applied = {epoch: version for epoch, version in enumerate(reached) if version}
    for epoch in over(claim, applied):
        applied.pop(epoch, None)
    if not applied:
        return None
    foreign = min(applied) < claim.moved
    if keyed:
        return ALWAYS if foreign else max(applied.values())
    if foreign:
        raise TableStopped(
            "the destination moved to another server: which of its rows the lake has cannot be known",
            place=path,
            hint=_REBUILD,
        )
    start, end = claim.start.version(), max(applied.values())
    if start < end:
        begun = Ledger(lake, claim.destination, claim.client_id).starts()
        if not covered(start, end, [(begun[epoch], at) for epoch, at in applied.items() if epoch in begun]):
            raise TableStopped(
                "it was rewound to rows of which the lake has an unknown part", place=path, hint=_REBUILD
            )
    return end


def over(claim: Claim, applied: Mapping[int, int]) -> set[int]:
    """The epochs of which nothing comes again: all since then began seamlessly, and the table was not ahead of the
    cursor that was left."""
    left, found = dict(claim.seamless), set[int]()
    for epoch in reversed(range(claim.epoch)):
        if epoch + 1 not in left:
            break
        if applied.get(epoch, 0) <= left[epoch + 1]:
            found.add(epoch)
    return found


def covered(start: int, end: int, stretches: list[tuple[int, int]]) -> bool:
    """Whether the stretches, joined, reach from `start` to `end`."""
    for low, high in sorted(stretches):
        if low <= start < high:
            start = high
    return start >= end


def again(floor: int | None, after: int | None, start: int) -> bool:
    """Whether rows beyond both `after` and `start` may be there from an earlier epoch."""
    return floor is not None and max(after or 0, start) < floor


def merging(counts: Mapping[str, object], *, there: bool) -> dict[str, object]:
    """A plan's counts for the choice of the statement: an insert may meet its row where rows come again."""
    return {**counts, "insert_only": 0} if there else dict(counts)
