"""Reloads tables that need a copy from the source, in the same run if they are small enough.

The run holds the claim, so that no row after the copy's position is acked meanwhile. The claim's further rows of such a
table are in the copy. A table that the source no longer has is retired up to that position. If the lake has none to
retire, it stays stopped until the statement that took it away: otherwise the next rows would begin a table without the
earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pymysql

from cdc_core.contract.claim import Claim
from cdc_core.errors import SluiceError, SourceError, TableStopped
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.ddl import Ddl, Effect, EffectKind
from cdc_core.schema.names import full_name, split_name
from spark_jobs.apply.ddl.standing import retire, standing
from spark_jobs.apply.ddl.steps import steps
from spark_jobs.apply.result import Followed, Refusal
from spark_jobs.apply.table import Batch
from spark_jobs.lake.consent import TAKES_DELETED
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.policies import Changed
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import Copied, LakeClient, NoSuchTable
from spark_jobs.load.view import copy_table
from spark_jobs.snapshot.binlog import ddl_on
from spark_jobs.snapshot.failures import asked
from spark_jobs.snapshot.source import Source, connect

_MISJUDGED = 2  # statistics are off by less than this factor, or they are of another time
_SIZE = "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"


@dataclass(frozen=True, slots=True)
class Copier:
    """The source of copies. `zero_dates` is the destination's setting; tables of at most about `rows` rows are copied
    without a request."""

    source: Source
    rows: int
    zero_dates: ZeroDates = "fail"


def copied(
    batch: Batch, copier: Copier, refused: Sequence[Refusal]
) -> tuple[tuple[Followed, ...], tuple[Refusal, ...]]:
    """Returns the copied tables, and the tables that are still refused, with the reason: too large, a policy of `ask`,
    deleted rows that a copy would remove, or a failed copy."""
    done: list[Followed] = []
    left: list[Refusal] = []
    for refusal in refused:
        if not _is_wanted(batch, copier, refusal):
            left.append(refusal)
            continue
        if _keeps_deleted(batch, refusal.table):
            refusal.error.message = f"{TAKES_DELETED}: {refusal.error.message}"
            left.append(refusal)
            continue
        try:
            done.append(_copy(batch, copier, refusal))
        except SluiceError as error:
            refusal.error.message += f"; a copy failed: {error.message}"
            left.append(refusal)
    return tuple(done), tuple(left)


def _is_wanted(batch: Batch, copier: Copier, refusal: Refusal) -> bool:
    if not isinstance(refusal.error, CopyNeeded):
        return False
    if batch.policies.of(refusal.table).changed not in (Changed.EVOLVE, Changed.LENIENT):
        return False
    rows = _rows(copier.source, refusal.table)
    return rows is not None and rows <= copier.rows


def _keeps_deleted(batch: Batch, table: str) -> bool:
    """Whether the table has, or may have, rows that the source no longer has."""
    with suppress(TableStopped):
        state = batch.lake.state(batch.lake.path(*split_name(table)), "")
        return state is not None and state.own.soft and not state.dropped
    return False


def _rows(source: Source, table: str) -> int | None:
    """Returns the estimated number of the table's rows, 0 if it does not exist, None if the source has no estimate."""
    try:
        connection = connect(source)
        try:
            with connection.cursor() as cursor:
                cursor.execute(_SIZE, split_name(table))
                row = cursor.fetchone()
                return int(row[0] or 0) if row else 0
        finally:
            connection.close()
    except (pymysql.MySQLError, SluiceError):
        return None


def _bounded(copier: Copier, table: str) -> Callable[[int], None]:
    """Gives a copy up that turns out to be larger than the source's statistics say: the run holds the claim."""
    most = copier.rows * _MISJUDGED

    def check(rows: int) -> None:
        if rows > most:
            hint = "Copy it while the stream goes on (sluice copy), or raise ddl.copy_rows."
            raise SourceError(
                f"it has more than {most:,} rows, far more than its statistics say", place=table, hint=hint
            )

    return check


def _copy(batch: Batch, copier: Copier, refusal: Refusal) -> Followed:
    claim, table, why = batch.claim, refusal.table, refusal.error.message
    client = LakeClient(claim.destination, claim.client_id, claim.epoch, batch.run_id)
    database, name = split_name(table)
    target, progress = Target(batch.lake, batch.fence, client, database, name), _bounded(copier, table)
    made = copy_table(
        copier.source, target, batch.sessions, zero_dates=copier.zero_dates, progress=progress,
        expectations=batch.expectations,
    )  # fmt: skip
    match made:
        case Copied():
            return Followed(table, "copy", why, made.place.low, f"copied from the source: {made.rows} rows")
        case NoSuchTable():
            gone = Ddl(made.place.low, database, why, (Effect(EffectKind.DROP, database, name),))
            at = standing(batch, table, whole=False)
            if at.live is None and not _is_taken_away(claim, table) and not _was_no_table(copier.source, claim, made):
                hint = "The statement that took it away comes later, and ends the stop."
                raise SourceError("the source no longer has the table", place=table, hint=hint)
            if at.live is not None:
                retire(at, steps(gone)[0])
            now = f"it is a {made.kind.lower()}" if made.kind else "the source no longer has the table"
            return Followed(table, "copy", why, made.place.low, now)


def _was_no_table(source: Source, claim: Claim, found: NoSuchTable) -> bool:
    """Whether a view has had the name since the claim, as after a RENAME of tables and views. No rows come for it."""
    if not found.kind or claim.epoch < claim.moved:
        return False
    with asked(source, full_name(found.database, found.table)) as connection:
        return ddl_on(connection, found.database, found.table, claim.end, found.place.high) is None


def _is_taken_away(claim: Claim, table: str) -> bool:
    """Whether the claim's last statement that makes or removes a table of that name removes it."""
    gone = False
    for effect in (effect for ddl in claim.ddl for effect in ddl.effects):
        if effect.to is not None and full_name(*effect.to) == table:
            gone = False
        elif effect.name == table:
            gone = effect.kind in (EffectKind.DROP, EffectKind.RENAME)
        elif effect.kind == EffectKind.DROP_DATABASE and effect.database == split_name(table)[0]:
            gone = True
    return gone
