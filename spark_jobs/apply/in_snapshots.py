"""Passes the keys that left a parent to open snapshots: rows that were read before still name them.

The snapshot of a child keeps the keys, and its switch looks up the rows. If the keys are not known, or a table in
between is not in the lake, so that its lost keys are unknown, the snapshots are broken and start again.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_core.errors import TableStopped
from cdc_core.schema.names import full_name
from spark_jobs.apply.cascade_sql import KEYS
from spark_jobs.apply.lost_keys import MOST, Lost, create_known_keys, may_lose
from spark_jobs.apply.table import Batch
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.sql import quote
from spark_jobs.load.lost_keys import LostKeys
from spark_jobs.snapshot.foreign_keys import ForeignKey, descendants


def pass_on(batch: Batch, keys: Sequence[ForeignKey], key: ForeignKey, lost: Lost, *, taken: bool) -> set[str]:
    """Passes the keys that a parent lost to the snapshots of the child of `key`, and of the tables below it. Returns
    the tables whose snapshots this breaks. `keys` are all foreign keys; `taken`: the child takes changes in the
    lake."""
    snapshots = dict(batch.claim.snapshots)
    name, below = full_name(*key.child), {full_name(*one) for one in descendants(keys, key.child)} & snapshots.keys()
    if below and taken and _is_there(batch, key.child):
        below = set()  # the cascade of its own rows passes them on
    if not (name in snapshots or below) or not may_lose(batch, key, lost):
        return set()
    if name in snapshots and name not in below and not _kept(batch, key, lost, snapshots[name]):
        below |= {name}
    return below


def _is_there(batch: Batch, table: tuple[str, str]) -> bool:
    state = batch.lake.state(batch.lake.path(*table), "")
    return state is not None and not state.dropped


def _kept(batch: Batch, key: ForeignKey, lost: Lost, snapshot_id: str) -> bool:
    """Whether the keys are known and kept. Raises LakeError where they cannot be written."""
    try:
        with batch.sessions.take() as spark, lake_errors(batch.lake.path(*key.parent)):
            if not (known := create_known_keys(spark, batch, key, lost)):
                return known is not None
            listed = ", ".join(map(quote, key.referenced))
            found = spark.sql(f"SELECT DISTINCT {listed} FROM {KEYS} LIMIT {MOST + 1}").toArrow()  # noqa: S608
    except TableStopped:
        return False
    if found.num_rows > MOST:
        return False
    LostKeys(batch.lake, batch.claim.destination, snapshot_id).keep(key, found)
    return True
