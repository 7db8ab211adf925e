"""Keeps the number of files small in Sluice's own tables that grow by a small commit a batch, such as the ledger.

Only their newest version is read, so old versions serve only readers that have begun. Without Spark.
"""

from __future__ import annotations

from deltalake import DeltaTable

EVERY = 200  # commits: each leaves a small file
_HOURS = 24  # for a reader who has begun
_PROPERTIES = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


def tidy(table: DeltaTable) -> None:
    """Now and then joins small files into one; the joined files are deleted a day later, as are commits. Raises what
    delta-rs raises."""
    if table.version() % EVERY != EVERY - 1:
        return
    table.optimize.compact()
    if not _PROPERTIES.items() <= table.metadata().configuration.items():
        table.alter.set_table_properties(_PROPERTIES)
    table.vacuum(_HOURS, dry_run=False, enforce_retention_duration=False, full=True)
