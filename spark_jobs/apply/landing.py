"""Lands tables of a claim instead of merging them. A table that cannot be landed is merged, and the run says why."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cdc_core.contract.claim import TableRange
from cdc_core.errors import LakeError, TableStopped
from cdc_core.rows.system_columns import LACKS_COLUMNS
from cdc_core.schema.ddl import Effect, EffectKind
from cdc_core.schema.names import full_name, split_name
from spark_jobs.apply.result import Refusal
from spark_jobs.apply.table import Batch, check_ledger
from spark_jobs.changes.log_images import Emptied
from spark_jobs.lake.failures import tried_twice
from spark_jobs.landing.append import Landed, LandingTask, append
from spark_jobs.landing.evolution import why_not
from spark_jobs.landing.log import TableLog
from spark_jobs.landing.merged import check_known
from spark_jobs.landing.modes import Mode
from spark_jobs.landing.whole import gone_past

_EMPTYING = (EffectKind.TRUNCATE, EffectKind.DROP, EffectKind.RENAME)  # the rows of a renamed one go
_MAKING = (EffectKind.CREATE, EffectKind.CREATE_FILLED)  # it may have replaced another one (CREATE OR REPLACE)


def lands(batch: Batch, table: TableRange) -> bool:
    """Whether the table's changes go to its log. Notes the reason if they should and cannot."""
    if not batch.modes.of(table.name).lands or table.name in batch.notes.instead:
        return False
    reason = why_not(table.schema)
    if not reason and table.name in batch.cascading:
        reason = "a foreign key of it deletes or changes rows without the binlog"
    if reason:
        batch.notes.instead[table.name] = reason
    return not reason


def land(batch: Batch, table: TableRange) -> Landed | None:
    """Lands the table's changes; returns None if their images leave columns out, so that they are merged. Raises
    TableStopped for a table that cannot take them."""
    try:
        landed = append(_share(batch, table.name))
    except TableStopped as error:
        if LACKS_COLUMNS not in error.message:
            raise
        batch.notes.instead[table.name] = "row images leave columns out (binlog_row_image is not FULL)"
        return None
    wanted = batch.modes.of(table.name) is Mode.HISTORY and not table.schema.primary_key
    return replace(landed, no_history="it has no primary key, which versions need") if wanted else landed


def check_log(batch: Batch, table: str) -> None:
    """Checks the table's log once a run. Raises TableStopped if acked changes were lost with the log, also before the
    table is merged without it; LakeError if the ledger is lost."""
    claim, log = batch.claim, _log(batch, table)
    if (table, claim.epoch) in batch.notes.checked or _never_landed(batch, table):
        return
    opened = log.open()
    if opened is not None and not opened.is_owned:
        opened = None
    check_known(log, opened, batch.ledger, batch.range)
    check_ledger(batch, opened.end(claim.epoch) if opened else None, log.path)
    batch.notes.past[table] = gone_past(opened, claim.epoch) if opened else {}
    batch.notes.checked.add((table, claim.epoch))


def merge_log(batch: Batch, table: str) -> None:
    """Merges the table's whole log, before something else writes the table; once, unless the run lands more. Raises
    TableStopped if it cannot."""
    if table in batch.notes.merged or (batch.modes.of(table) is Mode.APPEND and table not in batch.notes.instead):
        return
    if _never_landed(batch, table):
        return
    check_log(batch, table)
    opened = _log(batch, table).open()
    if opened is not None and opened.is_owned:
        _merge_all(batch, table)
    batch.notes.merged.add(table)


def _never_landed(batch: Batch, table: str) -> bool:
    """Whether the table is merged, and none of its acked changes is in a log: the log's path holds another table."""
    return not batch.modes.of(table).lands and not _acked(batch, table)


def _acked(batch: Batch, table: str) -> dict[int, int]:
    """Returns by epoch the version up to which landed changes of the table were acked before this run; reads the ledger
    once."""
    return batch.ledger.landed(table, batch.claim.epoch, batch.ledger_before)


def merge_before_statements(batch: Batch, parallelism: int = 1) -> dict[str, Refusal]:
    """Merges the logs of the tables that the claim's statements name, because rows before a statement have the older
    columns; and once a run, the logs of tables that are no longer landed. Up to `parallelism` at a time. Returns the
    tables whose log cannot be merged, which do not follow. Any other error is raised when all tables are at rest."""
    names = sorted((_named(batch) | _left(batch)) - {*batch.stopped})
    with ThreadPoolExecutor(max(1, min(parallelism, len(names))), thread_name_prefix="log") as pool:
        futures = [pool.submit(_merge_or_refuse, batch, name) for name in names]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            pool.shutdown(cancel_futures=True)
    return {refusal.table: refusal for future in futures if (refusal := future.result())}


def _merge_or_refuse(batch: Batch, table: str) -> Refusal | None:
    try:
        tried_twice(partial(merge_log, batch, table))
    except TableStopped as error:
        return Refusal(table, error, copy_needed=True).with_remedy(batch.claim.destination)
    return None


def _left(batch: Batch) -> set[str]:
    """Returns, once a run, the tables with a log that are merged now: they may have no further changes."""
    if batch.notes.swept:
        return set()
    batch.notes.swept = True
    with suppress(LakeError):  # the next use of such a folder raises it
        logs = batch.lake.logs(batch.claim.destination)
        return {name for name in logs if not batch.modes.of(name).lands}
    return set()


def _named(batch: Batch) -> set[str]:
    """Returns the tables that the claim's statements name; of a dropped database all tables of the lake."""
    found: set[str] = set()
    for effect in (effect for ddl in batch.claim.ddl for effect in ddl.effects):
        if effect.kind is EffectKind.DROP_DATABASE:
            found |= {*_logs_of(batch, effect), *batch.lake.tables(effect.database, batch.claim.destination)}
        else:
            found |= {effect.name, full_name(*effect.to)} if effect.to else {effect.name}
    return found


def land_statements(batch: Batch, stopped: Collection[str]) -> tuple[list[Landed], list[Refusal]]:
    """The rows of statements that emptied landed tables which have no other rows in the claim."""
    landed: list[Landed] = []
    refused: list[Refusal] = []
    if not batch.modes.any_lands:
        return landed, refused
    others = {name for name in _emptied(batch) if batch.modes.of(name).lands} - {one.name for one in batch.claim.tables}
    for name in sorted(others - {*stopped, *batch.notes.instead}):
        try:
            found = append(replace(_share(batch, name), has_rows=False))
        except TableStopped as error:
            refused.append(Refusal(name, error).with_remedy(batch.claim.destination))
        else:
            landed += [found] if found.images else []
    return landed, refused


def _share(batch: Batch, table: str) -> LandingTask:
    claim, log = batch.claim, _log(batch, table)
    emptied = _emptied(batch).get(table, [])
    merged = batch.modes.of(table) is not Mode.APPEND
    check_log(batch, table)
    batch.notes.merged.discard(table)
    return LandingTask(
        claim, log, batch.door, batch.run_id, batch.fence, batch.clock,
        after=_followed(batch, table) if merged else None, emptied=emptied, past=batch.notes.past.get(table, {}),
        merge_all=(lambda: _merge_all(batch, table)) if merged else None,
    )  # fmt: skip


def _merge_all(batch: Batch, table: str) -> None:
    """Merges the whole log. Raises TableStopped if it cannot be merged, LakeError if this process merges no logs."""
    if batch.catch_up is None:
        hint = f"Drain {batch.claim.destination} from Dagster, whose runs merge change logs; the batch stays claimable."
        raise LakeError("its change log must be merged first, and this command merges none", place=table, hint=hint)
    try:
        batch.catch_up(batch, table)
    except TableStopped as error:
        error.message = f"its change log cannot be merged, which must come first: {error.message}"
        raise


def _followed(batch: Batch, table: str) -> int | None:
    """Returns the version up to which rows come again from before a statement that the table has followed: the table
    has them, under newer columns."""
    progress = batch.record(table) if batch.claim.epoch else None
    return progress.inherited(batch.range.epoch) if progress else None


def _emptied(batch: Batch) -> dict[str, list[Emptied]]:
    """By table, the claim's statements after which it has no rows."""
    found: dict[str, list[Emptied]] = {}
    for ddl in batch.claim.ddl:
        for effect in ddl.effects:
            for name in _emptied_by(batch, effect):
                found.setdefault(name, []).append(Emptied(ddl.position))
    return found


def _emptied_by(batch: Batch, effect: Effect) -> list[str]:
    """Returns the tables that have no rows after the effect; of a dropped database those that have a log."""
    if effect.kind is EffectKind.DROP_DATABASE:
        return _logs_of(batch, effect)
    emptied = effect.kind in _EMPTYING or (effect.kind in _MAKING and not effect.conditional)
    return [effect.name] if emptied else []


def _logs_of(batch: Batch, effect: Effect) -> list[str]:
    """Returns the tables of the effect's database that have a log."""
    return [name for name in batch.lake.logs(batch.claim.destination) if split_name(name)[0] == effect.database]


def _log(batch: Batch, table: str) -> TableLog:
    return TableLog(batch.lake, batch.claim.destination, batch.claim.client_id, table)
