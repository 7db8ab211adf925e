"""Applies the verdicts of a batch's checks to its tables, before the ack.

A table that contradicts its changes in a way that no statement repairs is stopped: it takes no more changes until it is
reloaded. The other tables go on, and the batch is acked.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from spark_jobs.apply.checks import Verdict, expected, judge
from spark_jobs.apply.result import BatchResult, Refusal
from spark_jobs.lake.remedy import copy_hint


def gate(claim: Claim, batch: BatchResult) -> tuple[BatchResult, tuple[Verdict, ...]]:
    """The batch with the tables that failed a blocking check among the refused ones, and all verdicts."""
    verdicts = tuple(verdict for result in batch.applied for verdict in judge(claim, result))
    verdicts += tuple(verdict for one in batch.refused for verdict in expected(one.table, one.expected))
    contradictions: dict[str, list[str]] = {}
    refused = {one.table for one in batch.refused}
    for verdict in verdicts:
        if verdict.blocks and verdict.table not in refused:
            contradictions.setdefault(verdict.table, []).append(verdict.text)
    stopped = tuple(_stopped(claim, table, texts) for table, texts in contradictions.items())
    applied = tuple(result for result in batch.applied if result.table not in contradictions)
    return replace(batch, applied=applied, refused=batch.refused + stopped), verdicts


def _stopped(claim: Claim, table: str, texts: list[str]) -> Refusal:
    place = f"{table}, batch {claim.batch_id}, {claim.start} to {claim.end}"
    error = TableStopped("; ".join(texts), place=place, hint=copy_hint(claim.destination, table))
    return Refusal(table, error, copy_needed=True)
