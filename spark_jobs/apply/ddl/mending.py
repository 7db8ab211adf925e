"""Statements that resume a stopped table: after TRUNCATE, DROP or CREATE its old rows no longer matter.

The commits of such a step record it. A run that dies between them and the ack leaves the stop; the next run finds the
step in the table's log, and resumes the table all the same. A step from before the stop resumes nothing.
"""

from __future__ import annotations

from cdc_core.errors import TableStopped
from cdc_core.schema.ddl import Effect, EffectKind
from spark_jobs.apply.commits import is_step, mends
from spark_jobs.apply.ddl.consent import check_consent
from spark_jobs.apply.ddl.creation import create, drop, truncate
from spark_jobs.apply.ddl.standing import DdlTarget, retire, set_dropped, standing
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.apply.table import Batch
from spark_jobs.lake.policies import Changed

_DROPS = (EffectKind.DROP, EffectKind.DROP_DATABASE)
_CREATES = (EffectKind.CREATE, EffectKind.CREATE_FILLED)


def mend(batch: Batch, step: Step, effect: Effect, table: str) -> str | None:
    """Returns the statement's outcome for a stopped table, or None if the table stays stopped."""
    if not step.begins_anew or (effect.schema and effect.schema.defect):
        return None
    try:
        at = standing(batch, table, anew=True)
        if at.has(step):
            return "done before" if is_mended(at, step) else None
        if effect.kind in _DROPS:
            return drop(at, step)
        if effect.kind in _CREATES:
            return create(at, step, effect)
        return _truncate(at, step, effect)
    except TableStopped:  # it has its reason already
        return None


def mend_old_name(at: DdlTarget, step: Step) -> str | None:
    """Resumes the old name of a stopped table that was renamed, and returns the outcome; the rows stay, as after a
    DROP. The table of the new name is handled by itself. None if the table stays stopped."""
    try:
        if at.has(step):
            return "done before" if is_mended(at, step) else None
        if at.live is None:
            return "the lake has no such table"
        check_consent(at, step)
    except TableStopped:
        return None
    set_dropped(at, step)
    return "kept, and marked as dropped"


def is_mended(at: DdlTarget, step: Step) -> bool:
    """Whether a stopped table that has the step is right by it, or by a copy that an earlier try made after it."""
    state, claim = at.state, at.batch.claim
    if state is None or state.dropped:
        return True
    if state.copied and state.copied.has((claim.epoch, step.version)):
        return True
    commits = at.batch.lake.commits(at.path)
    return any(is_step(commit, claim, at.table, step.version) and mends(commit) for commit in commits)


def _truncate(at: DdlTarget, step: Step, effect: Effect) -> str:
    """Empties the table, and returns the outcome. It gets the present columns if its policy allows: while it was
    stopped it did not follow the statements that altered them."""
    check_consent(at, step)
    if at.live is not None and at.batch.policies.of(at.table).changed is not Changed.EVOLVE:
        return truncate(at, step)
    if effect.schema is not None:
        create(at, step, effect)
    elif at.live is not None:
        retire(at, step)
    return "all rows are deleted"
