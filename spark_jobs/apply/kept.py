"""A claim's changes of tables with an open snapshot, kept for it before the claim is acked.

A change that cannot be kept breaks the snapshot and delays nothing else: its reader starts again, or raises an error.
"""

from __future__ import annotations

from collections.abc import Collection

from cdc_core.contract.claim import TableRange
from cdc_core.errors import DecodeError, SchemaError, TableStopped
from spark_jobs.apply.result import BrokenSnapshot, Followed
from spark_jobs.apply.table import Batch
from spark_jobs.load.change_log import ChangeLog

_COPIED = "a run reloaded the table from the source"
_BY_KEY = (
    "a foreign key deletes or changes rows of the table, which the binlog does not record. Start again when nothing "
    "writes its parent, or reload the table while all others wait (sluice copy)"
)


def snapshots_of(batch: Batch) -> dict[str, str]:
    """Returns table and id of the open snapshots whose changes can be kept. The ack of a DDL statement on a table
    breaks its snapshot by itself."""
    claim = batch.claim
    return {table: name for table, name in claim.snapshots if not claim.redefines(table)}


def keep(batch: Batch, table: TableRange) -> BrokenSnapshot | None:
    """Keeps the table's changes if it has an open snapshot. Returns the snapshot that they invalidate, or None.
    Raises LakeError when they cannot be written."""
    claim, snapshot = batch.claim, snapshots_of(batch).get(table.name)
    if snapshot is None:
        return None
    log = ChangeLog(batch.lake, claim.destination, snapshot)
    try:
        log.append(claim, table.name, batch.door)
    except (DecodeError, SchemaError, TableStopped) as error:
        return BrokenSnapshot(table.name, snapshot, f"its changes cannot be kept: {error.message}. {error.hint}")
    return None


def broken_otherwise(batch: Batch, copies: Collection[Followed], cascaded: Collection[str]) -> list[BrokenSnapshot]:
    """Returns the snapshots of tables whose rows changed without the binlog: copied in the run, or by a foreign key at
    the source (`cascaded`)."""
    why = dict.fromkeys(cascaded, _BY_KEY) | {one.table: _COPIED for one in copies if one.kind == "copy"}
    return [BrokenSnapshot(table, name, why[table]) for table, name in snapshots_of(batch).items() if table in why]
