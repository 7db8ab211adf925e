"""Finds the unions of a destination that do not have what `into` says."""

from __future__ import annotations

from collections.abc import Iterator

from spark_jobs.check.findings import Finding
from spark_jobs.lake.remedy import spelled_out
from spark_jobs.lake.tables import Lake
from spark_jobs.union.ended import ended
from spark_jobs.union.publish import refused

_WHAT = "the unions"


def united(lake: Lake, destination: str) -> Iterator[Finding]:
    """Yields a finding for each shard that its union cannot have, and for each union that `into` does not name and that
    names files of the destination all the same. Raises LakeError."""
    for union in lake.unions.all:
        for table, error in refused(lake, union).items():
            hint = spelled_out(error.hint, destination, table)
            yield Finding(_WHAT, (table,), f"its rows in {union.table} are old, or missing: {error.message}", hint)
    for table, log in ended(lake, destination):
        remedy = f"Name it in `into`, or remove {log}: nothing in it is needed. Other destinations make it again."
        yield Finding(_WHAT, (table,), f"`into` does not name it, and it has files of {destination}", remedy)
