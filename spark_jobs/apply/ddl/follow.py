"""Follows a claim's DDL statements before its rows: several at the same time, but in order for each table.

A table that cannot follow stops alone; so do tables that should get its rows. A stopped table follows only statements
that resume it. A replay finds in each table's version which steps it has. Nothing here acks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from cdc_core.errors import TableStopped
from cdc_core.schema.ddl import Ddl, Effect, EffectKind
from cdc_core.schema.names import full_name, split_name
from cdc_core.schema.sql_text import SHOWN, shown
from spark_jobs.apply.ddl.again import check_again
from spark_jobs.apply.ddl.altering import alter
from spark_jobs.apply.ddl.creation import create, drop, truncate
from spark_jobs.apply.ddl.mending import mend
from spark_jobs.apply.ddl.passing import note_passed, passes_by
from spark_jobs.apply.ddl.renaming import rename
from spark_jobs.apply.ddl.standing import standing
from spark_jobs.apply.ddl.steps import Step, independent, steps
from spark_jobs.apply.result import DONE_BEFORE, Followed, Refusal
from spark_jobs.apply.table import Batch


@dataclass(frozen=True, slots=True)
class Following:
    """The outcome of a claim's statements. `mended`: the tables that were stopped before and are resumed."""

    followed: tuple[Followed, ...] = ()
    refused: tuple[Refusal, ...] = ()
    mended: tuple[str, ...] = ()


def follow(batch: Batch, parallelism: int = 1) -> Following:
    """Follows every statement of the claim; for the batch's stopped tables only those that resume them. Up to
    `parallelism` at a time, but statements on one table in order.

    Any error but TableStopped is raised when all tables are at rest, and no further statement begins.
    """
    groups = independent(batch.claim.ddl)
    with ThreadPoolExecutor(max(1, min(parallelism, len(groups))), thread_name_prefix="follow") as pool:
        futures = [pool.submit(_follow, batch, group) for group in groups]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            pool.shutdown(cancel_futures=True)
    done = [future.result() for future in futures]
    followed = sorted((one for group in done for one in group.followed), key=lambda one: one.position)
    refused = tuple(one for group in done for one in group.refused)
    return Following(tuple(followed), refused, tuple(sorted(name for group in done for name in group.mended)))


def _follow(batch: Batch, statements: Sequence[Ddl]) -> Following:
    """Follows statements that have no table in common with the others, one after the other."""
    followed: list[Followed] = []
    refused: dict[str, Refusal] = {}
    mended: set[str] = set()
    destination = batch.claim.destination
    for step in _steps_of(batch, statements):
        for outcome in _outcomes(batch, step, {*batch.stopped, *refused} - mended):
            if isinstance(outcome, Refusal):
                refused[outcome.table] = replace(outcome.with_remedy(destination), copy_needed=True)
                mended.discard(outcome.table)
            else:
                if outcome.table in {*batch.stopped, *refused}:
                    refused.pop(outcome.table, None)
                    mended.add(outcome.table)
                followed.append(outcome)
    return Following(tuple(followed), tuple(refused.values()), tuple(mended))


def _steps_of(batch: Batch, statements: Sequence[Ddl]) -> Iterator[Step]:
    """Yields every step of the statements; the batch's progress counts the statements."""
    for ddl in statements:
        with batch.progress.statement([effect.name for effect in ddl.effects]):
            yield from steps(ddl)


def _outcomes(batch: Batch, step: Step, stopped: Collection[str]) -> Iterator[Followed | Refusal]:
    if step.kind is EffectKind.RENAME:
        passing = [name for name in step.tables if passes_by(batch, name)]
        if passing:
            note_passed(batch, step, [full_name(*effect.to) for effect in step.effects if effect.to])
            yield from _unseen(step, {*passing} - {*stopped})
        if len(passing) < len(step.tables):
            yield from rename(batch, step, stopped)
        return
    (effect,) = step.effects
    names = [effect.name]
    if step.kind is EffectKind.DROP_DATABASE:
        logs = batch.lake.logs(batch.claim.destination) if batch.modes.any_lands else []
        there = batch.lake.tables(effect.database, batch.claim.destination)
        names = sorted({*there, *(name for name in (*logs, *stopped) if split_name(name)[0] == effect.database)})
    for name in names:
        if passes_by(batch, name):
            note_passed(batch, step, [name])
            yield from _unseen(step, {name} - {*stopped})
            continue
        if name in stopped:
            mended = mend(batch, step, effect, name)
            if mended is not None:
                yield Followed(name, step.kind, shown(step.ddl.text, SHOWN), step.ddl.position, mended)
        else:
            try:
                outcome = _outcome(batch, step, effect, name)
            except TableStopped as error:
                yield Refusal(name, error)
            else:
                if outcome:
                    yield Followed(name, step.kind, shown(step.ddl.text, SHOWN), step.ddl.position, outcome)


def _unseen(step: Step, tables: Collection[str]) -> Iterator[Refusal]:
    """Refuses the tables, of those whose log alone goes on over the step, that the lake cannot have after it."""
    for name in sorted(tables):
        try:
            step.check_seen(name)
        except TableStopped as error:
            yield Refusal(name, error)


def _outcome(batch: Batch, step: Step, effect: Effect, table: str) -> str:
    step.check_seen(table)
    at = standing(batch, table, anew=step.begins_anew)
    if at.has(step):
        return DONE_BEFORE
    check_again(at, step)
    match effect.kind:
        case EffectKind.CREATE | EffectKind.CREATE_FILLED:
            return create(at, step, effect)
        case EffectKind.DROP | EffectKind.DROP_DATABASE:
            return drop(at, step)
        case EffectKind.TRUNCATE:
            return truncate(at, step)
        case _:
            return alter(at, step, effect)
