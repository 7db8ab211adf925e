"""Statements that come again from another server, after a failover by time: its positions do not show it.

A table with a key goes back in time with its rows and statements, and is right again when it has caught up. There are
two exceptions. After a RENAME, few rows come again under the old name, and the table has all of them under the new one.
Without a key, repeated rows look like new ones. After a statement that makes the old rows irrelevant every table is
right.
"""

from __future__ import annotations

from cdc_core.schema.ddl import EffectKind
from spark_jobs.apply.ddl.standing import DdlTarget
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.lake.copying import CopyNeeded


def check_again(at: DdlTarget, step: Step) -> None:
    """Raises CopyNeeded for a table that may have the statement from another server, and rows after it."""
    if at.live is None or step.begins_anew or (step.kind is not EffectKind.RENAME and at.live.primary_key):
        return
    if at.progress is not None and at.progress.crosses(at.batch.range.epoch):
        what = f"its {step.kind.upper()} may come again"
        raise CopyNeeded(f"the destination moved to another server, and {what}", at.table)
