"""What a commit says of its batch: noted with it, so that a retry is judged by the same numbers as the first try.

A commit's user metadata has what the service counted; its operation metrics have what Delta counted. Both are in the
table's log as long as the log is kept, so a batch that failed its checks fails them again when it is claimed again,
also with other boundaries. What the log does not tell any more is said, not taken for good.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cdc_core.session.claim import Claim
from spark_jobs.checks import TableResult
from spark_jobs.epochs import again
from spark_jobs.lake import Lake

_COUNTED = {
    "inserts": "raw_inserts",
    "updates": "raw_updates",
    "deletes": "raw_deletes",
    "net_rows": "rows",
    "upserts": "upserts",
    "net_deletes": "deletes",
}


def note(claim: Claim, table: str, run_id: str, after: int | None, counts: Mapping[str, Any]) -> str:
    """Delta's user metadata of a batch's commit."""
    fields = {"destination": claim.destination, "client_id": claim.client_id, "epoch": claim.epoch, "table": table}
    fields |= {"batch_id": claim.batch_id, "run_id": run_id, "gtid": claim.end.gtid, "after": after}
    places = {"start": str(claim.start), "end": str(claim.end), "low": claim.start.version()}
    return json.dumps(fields | places | {"version": claim.end.version(), "counts": counted(counts)})


def counted(counts: Mapping[str, Any]) -> dict[str, int]:
    """A plan's counts by the names of a `TableResult`."""
    return {name: int(counts[told]) for name, told in _COUNTED.items()}


def of_commit(commit: Mapping[str, Any], result: TableResult) -> TableResult:
    """`result` with the numbers of one commit, the service's and Delta's."""
    noted = _noted(commit)
    metrics: Mapping[str, Any] = commit.get("operationMetrics", {})

    def number(name: str) -> int:
        return int(metrics.get(name, 0))

    after, low = noted["after"], noted["low"]
    merged = "numTargetRowsInserted" in metrics
    return replace(
        result,
        **noted["counts"],
        after=after,
        again=result.keyed and again(result.floor, after, low),
        version=noted["version"],
        inserted=number("numTargetRowsInserted" if merged else "numOutputRows"),
        updated=number("numTargetRowsUpdated"),
        deleted=number("numTargetRowsDeleted"),
        delta_version=commit["version"],
    )


def with_earlier(lake: Lake, path: str, claim: Claim, result: TableResult) -> TableResult:
    """`result` with what earlier tries of this range committed, found where the lake was ahead of the claim's start."""
    start, end = claim.start.version(), claim.end.version()
    if not result.keyed:  # up to there other epochs' commits have it
        start = max(start, result.floor or 0)
    if result.after is None or min(result.after, end) <= start:
        return result
    ours = {"destination": claim.destination, "client_id": claim.client_id, "epoch": claim.epoch, "table": result.table}
    parts: list[TableResult] = []
    whole = False  # whether the log goes back to the claim's start
    for commit in lake.commits(path):
        noted = _noted(commit)
        if ours.items() <= noted.items():
            floor = max(noted["after"] or 0, noted["low"])
            if noted["version"] > start and floor < end:
                parts.append(of_commit(commit, replace(result, replayed=False)))
            whole = floor <= start
        whole = whole or commit["version"] == 0
        if whole:
            break
    if not parts or not whole:
        return replace(result, unjudged="the lake has rows of it already, but its log has no commit that tells of them")
    return replace(result, parts=tuple(reversed(parts)))


def _noted(commit: Mapping[str, Any]) -> dict[str, Any]:
    """The note of a commit, empty for one that is not a batch's."""
    try:
        fields = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) and "counts" in fields else {}
