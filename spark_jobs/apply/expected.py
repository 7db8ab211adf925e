"""Evaluates the expectations of a claim's tables when all of them are ready and none is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from spark_jobs.apply.own_images import images_read
from spark_jobs.apply.result import Refusal
from spark_jobs.apply.table import Batch, ReadyShare
from spark_jobs.changes.table_changes import Changes, OfClaim
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.write.evaluation import BatchFacts, EvaluatedTable, Evaluator

_BATCHES = 20  # whose rows are what is usual


def is_evaluated(batch: Batch, table: str) -> bool:
    """Whether a table must be evaluated before it is written: something is expected of it, other tables reference it,
    or rows of it wait."""
    expected = batch.expectations
    if not expected:
        return False
    return bool(expected.of(table)) or table in expected.referenced or table in _quarantines(batch)


def evaluate(batch: Batch, begun: Mapping[str, ReadyShare]) -> dict[str, ReadyShare | Refusal]:
    """Returns the tables as they may be written, by name, or why they stay as they were. Raises LakeError."""
    claim, history = batch.claim, cache(partial(_history, batch))
    age = batch.clock() - min(second for second, _ in claim.execute_times) if claim.execute_times else None
    evaluator = Evaluator(
        batch.lake,
        batch.sessions,
        batch.fence,
        claim.destination,
        batch.expectations,
        Acceptances(batch.lake, claim.destination, claim.client_id),
        partial(_unavailable, batch),
        batch.max_splits,
    )
    tables = [
        EvaluatedTable(
            share.ready,
            partial(_images, batch, share.ready.changes),
            claim.batch_id,
            BatchFacts(share.ready.changes.counts.raw, age, lambda name=name: history().get(name, ())),  # type: ignore[misc]
        )
        for name, share in begun.items()
    ]
    found: dict[str, ReadyShare | Refusal] = {}
    for name, evaluation in evaluator.evaluate(tables).items():
        if evaluation.stop is not None:
            found[name] = Refusal(name, evaluation.stop, expected=evaluation.results)
        else:
            assert evaluation.ready is not None
            found[name] = replace(begun[name], ready=evaluation.ready, evaluation=evaluation)
    return found


def _images(batch: Batch, changes: Changes) -> Changes:
    """Returns the changes with all their images. Raises what the service raises."""
    if not isinstance(changes.source, OfClaim) or changes.source.images:
        return changes
    return changes.as_images(images_read(changes, batch.claim, batch.door))


def _unavailable(batch: Batch, table: str) -> str:
    """Returns why the table's rows are not those of the batch, or ""."""
    if table in batch.stopped or table in batch.claim.stopped:
        return "is stopped, so the lake may lack its rows"
    if any(name == table for name, _ in batch.claim.snapshots):
        return "is being read by a snapshot, so the lake may lack its rows"
    if batch.modes.of(table).lands and table not in batch.notes.instead:
        return "lands first, so its rows come after the batch"
    return ""


def _quarantines(batch: Batch) -> frozenset[str]:
    """Returns the tables that have a quarantine, as the run found them first."""
    if batch.notes.quarantines is None:
        batch.notes.quarantines = frozenset(batch.lake.quarantines(batch.claim.destination))
    return batch.notes.quarantines


def _history(batch: Batch) -> Mapping[str, Sequence[int]]:
    """Returns, by table, the rows of its last batches in the ledger. Raises LakeError."""
    found: dict[str, list[int]] = {}
    for text in batch.ledger.last_batches(_BATCHES):
        for name, note in json.loads(text).items():
            if rows := note["inserts"] + note["updates"] + note["deletes"]:
                found.setdefault(name, []).append(rows)
    return found
