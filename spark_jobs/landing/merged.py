"""Checks whether unmerged rows were lost with a change log that is missing, or older than the ledger knows it.

A log is the only place of changes that were acked and not merged. The merged table continues from any log, so it alone
would hide the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_core.errors import TableStopped
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import Range, TableProgress
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.landing.log import OpenedLog, TableLog


def merged_to(log: TableLog, epochs: Sequence[int]) -> dict[int, int]:
    """Returns by epoch the version up to which the merged table has the epoch's changes, or 0. Changes that a copy
    replaced count as merged."""
    ledger = Ledger(log.lake, log.destination, log.client_id)
    progress = TableProgress.read(ledger, log.name, max(epochs, default=0))
    return {epoch: progress.end(epoch) if progress else 0 for epoch in epochs}


def check_known(log: TableLog, opened: OpenedLog | None, ledger: Ledger, wanted: Range) -> None:
    """Raises TableStopped if acked changes are neither in the log nor merged, and do not come again in the range."""
    for epoch, noted in ledger.landed(log.name, wanted.epoch.number, ledger.opened()).items():
        end = opened.end(epoch) if opened else None
        if end is not None and end >= noted:
            continue
        there = merged_to(log, [epoch])[epoch]
        if there >= noted or _comes_again(ledger, wanted, epoch, there):
            continue
        what = "is gone" if opened is None else "is older than it was: somebody restored it"
        hint = "Restore the folder as it was, and reset the destination to the stop. Where it cannot be restored: "
        raise TableStopped(
            f"its change log {what}, and changes in it were acked and not merged",
            place=log.path,
            hint=hint + copy_hint(log.destination, log.name),
        )


def _comes_again(ledger: Ledger, wanted: Range, epoch: int, there: int) -> bool:
    """Whether a rewind brings the changes of an epoch that the merged table lacks, or all changes of the epoch."""
    now = wanted.epoch
    if epoch < now.moved or epoch == now.number:
        return False
    begun = ledger.stretches()
    later = [begun[one].start for one in range(epoch + 1, now.number + 1) if one in begun]
    if now.number not in begun:
        later.append(wanted.start)
    return min(later) <= max(there, begun[epoch].start if epoch in begun else 0)
