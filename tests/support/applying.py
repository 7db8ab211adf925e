"""A claim applied as a run applies it, with a fence and an empty token where the test names none."""

from __future__ import annotations

from typing import Any

from cdc_core.client.changes import RowsDoor
from cdc_core.contract.claim import Claim
from spark_jobs.apply import batch
from spark_jobs.apply.cascade import Cascades
from spark_jobs.apply.ddl.copies import Copier
from spark_jobs.apply.result import BatchResult
from spark_jobs.apply.table import Batch
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions


def apply_batch(
    claim: Claim,
    lake: Lake,
    sessions: Sessions,
    flight_url: str,
    *,
    fence: Fence | None = None,
    token: str = "",
    parallelism: int = 4,
    cascades: Cascades | None = None,
    copier: Copier | None = None,
    **fields: Any,
) -> BatchResult:
    """Applies the claim. `fields` are those of the batch."""
    door = RowsDoor(flight_url, token)
    made = Batch(claim, lake, sessions, door, fence or Fence(lake, sessions), **fields)
    return batch.apply_batch(made, parallelism, cascades=cascades, copier=copier)
