"""What earlier epochs of a client have put into a table: after a rewind the same rows come again.

A row with a primary key may come again: its MERGE changes nothing, only its counts differ. A row without a key would
be there twice, so the rows that the table has are left out. It must be certain that it has them: the epochs' batches,
by the ledger, must reach without a gap from the claim's start to where the table is. Where they do not, the table
stops. It also stops after a move to another server, whose positions say nothing about the first one's; unless reading
went on there by GTID, which repeats nothing, and the table had no more than the cursor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltalake import DeltaTable

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from spark_jobs.lake.copied import CopyNote
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake

ALWAYS = 1 << 63  # beyond every version
_REBUILD = "Make the table anew (sluice copy): without a primary key, repeated rows cannot be told from new ones."


def earlier_apps(claim: Claim, table: str) -> list[str]:
    """The app ids of the epochs before the claim's, in order."""
    return [app_id(claim.destination, claim.client_id, table, epoch) for epoch in range(claim.epoch)]


def followed_to(claim: Claim, state: TableState) -> int | None:
    """The version up to which the table has everything, rows and DDL statements, because in an earlier epoch it
    followed a statement there, or was copied there: such rows have the columns of before. None where there was none.

    Raises CopyNeeded where that epoch was another server's, so that the statement itself may come again unnoticed.
    """
    places = [state.followed, (state.copied.epoch, state.copied.low) if state.copied else None]
    epoch, version = max((place for place in places if place and place[0] < claim.epoch), default=(0, None))
    if version is None:
        return None
    if epoch >= claim.moved:
        return version
    if state.dropped and epoch not in epochs_not_repeated(claim, {epoch: version}):
        raise CopyNeeded("it was dropped or renamed on another server, and its rows come again", claim.destination)
    return None


def recurring_to(
    lake: Lake,
    path: str,
    claim: Claim,
    table: str,
    *,
    keyed: bool,
    copied: CopyNote | None = None,
    reached: Sequence[int | None] | None = None,
) -> int | None:
    """The version up to which rows of the table may come again, None when none can. `copied`: the copy that the table
    was made from, before which nothing counts. `reached`: by epoch how far the table is before the claim's rows, where
    that is not what it has now.

    Raises TableStopped for a table without a key where that is not certain.
    """
    if reached is None:
        reached = [state.applied for state in lake.states(path, earlier_apps(claim, table))]
    earlier = _earlier(lake, path, claim, reached, keyed=keyed, copied=copied)
    if copied is None or copied.epoch != claim.epoch or copied.high == copied.low:
        return earlier
    return max(copied.high, earlier or 0)


def _earlier(
    lake: Lake, path: str, claim: Claim, reached: Sequence[int | None], *, keyed: bool, copied: CopyNote | None
) -> int | None:
    """The same for rows of earlier epochs."""
    since = copied.epoch if copied else 0
    applied = {epoch: version for epoch, version in enumerate(reached) if version and epoch >= since}
    if copied and copied.epoch in applied:
        applied[copied.epoch] = max(applied[copied.epoch], copied.high)
    for epoch in epochs_not_repeated(claim, applied):
        applied.pop(epoch, None)
    if not applied:
        return None
    other_server = min(applied) < claim.moved
    if keyed:
        return ALWAYS if other_server else max(applied.values())
    if other_server:
        message = "the destination moved to another server, and which of its rows the lake has is unknown"
        raise TableStopped(message, place=path, hint=_REBUILD)
    start, end = claim.start.version(), max(applied.values())
    if start < end:
        begun = Ledger(lake, claim.destination, claim.client_id).stretches()
        ranges = [(begun[epoch].start, at) for epoch, at in applied.items() if epoch in begun]
        if copied:
            ranges.append((0, applied.get(copied.epoch, 0)))  # the copy brought every row from the beginning
        if not is_covered(start, end, ranges):
            message = "the destination was rewound to rows of which the lake has an unknown part"
            raise TableStopped(message, place=path, hint=_REBUILD)
    return end


def check_commits(
    lake: Lake, path: str, claim: Claim, table: str, state: TableState | None, ledger: DeltaTable | None
) -> None:
    """Raises CopyNeeded for a table whose last commit is torn, and for one that lacks commits which the opened `ledger`
    noted, where their rows do not come again. A power cut can leave a local lake so; and somebody may put an older copy
    of a table in its place. Delta itself takes a commit without a byte for one that changed nothing."""
    if state is not None and lake.is_torn(path, state.version):
        raise CopyNeeded(f"its commit {state.version} has no byte: the lake lost what was written last", table)
    since = state.copied.epoch if state and state.copied else 0
    noted = Ledger(lake, claim.destination, claim.client_id).merged(table, claim.epoch, ledger)
    if not (noted := {epoch: end for epoch, end in noted.items() if epoch >= since}):
        return
    apps = [app_id(claim.destination, claim.client_id, table, epoch) for epoch in noted]
    there = [one.applied or 0 for one in lake.states(path, apps)] or [0] * len(apps)
    for (epoch, end), applied in zip(noted.items(), there, strict=True):
        again = claim.moved <= epoch and claim.start.version() <= applied
        if applied < end and not again:
            raise CopyNeeded("commits of it are gone that were acked: the lake lost its last writes", table)


def epochs_not_repeated(claim: Claim, applied: Mapping[int, int]) -> set[int]:
    """The epochs of which no row comes again: every epoch since then began seamlessly, and the table was not ahead of
    the cursor that it left. `applied`: by epoch, how far the table had come."""
    left, found = dict(claim.seamless), set[int]()
    for epoch in reversed(range(claim.epoch)):
        if epoch + 1 not in left:
            break
        if applied.get(epoch, 0) <= left[epoch + 1]:
            found.add(epoch)
    return found


def is_covered(start: int, end: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether the ranges, joined, reach from `start` to `end`."""
    for low, high in sorted(ranges):
        if low <= start < high:
            start = high
    return start >= end
