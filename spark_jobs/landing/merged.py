"""Whether a change log that is missing, or older than the ledger knows it, took rows with it that were not merged.

A log is the only place of changes that were acked and not merged. The merged table goes on from any log, so it alone
would hide that changes are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.landing.log import OpenedLog, TableLog

ALL = 1 << 63  # beyond every version


def merged_to(log: TableLog, epochs: Sequence[int]) -> dict[int, int]:
    """By epoch, the version up to which the merged table has the epoch's changes; 0 for none. What a copy replaced, it
    has."""
    apps = [app_id(log.destination, log.client_id, log.name, epoch) for epoch in epochs]
    states = log.lake.states(log.lake.path(*split_name(log.name)), apps)
    return dict.fromkeys(epochs, 0) | {epoch: _has(state, epoch) for epoch, state in zip(epochs, states, strict=False)}


def _has(state: TableState, epoch: int) -> int:
    copied = state.copied
    if copied is not None and copied.epoch > epoch:
        return ALL
    return max(state.applied or 0, copied.low if copied is not None and copied.epoch == epoch else 0)


def check_known(log: TableLog, opened: OpenedLog | None, ledger: Ledger, claim: Claim) -> None:
    """Raises TableStopped where changes were acked that are neither in the log nor merged, nor come again."""
    for epoch, noted in ledger.landed(log.name, claim.epoch, ledger.opened()).items():
        end = opened.end(epoch) if opened else None
        if end is not None and end >= noted:
            continue
        there = merged_to(log, [epoch])[epoch]
        if there >= noted or _comes_again(ledger, claim, epoch, there):
            continue
        what = "is gone" if opened is None else "is older than it was: somebody restored it"
        hint = "Restore the folder as it was, and reset the destination to the stop. Where it cannot be restored: "
        raise TableStopped(
            f"its change log {what}, and changes in it were acked and not merged",
            place=log.path,
            hint=hint + copy_hint(log.destination, log.name),
        )


def _comes_again(ledger: Ledger, claim: Claim, epoch: int, there: int) -> bool:
    """Whether a rewind brings what the merged table lacks of an epoch, or all that the epoch had."""
    if epoch < claim.moved or epoch == claim.epoch:
        return False
    begun = ledger.stretches()
    later = [begun[one].start for one in range(epoch + 1, claim.epoch + 1) if one in begun]
    if claim.epoch not in begun:
        later.append(claim.start.version())
    return min(later) <= max(there, begun[epoch].start if epoch in begun else 0)
