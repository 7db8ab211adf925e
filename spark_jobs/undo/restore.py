"""`Restorer`: gives tables the rows that they had at a place, once the cursor has been set there.

A restored table is a copy whose rows come from its own past: the rows that `as_of` shows, in one commit with the app id
of the new epoch, and the note of a copy at the place. So all that holds for a copy holds for it: what earlier epochs
applied no longer counts, rows up to the place are left out, and those after it apply once, also without a key. Delta's
RESTORE is not used: it takes no txnVersion back and carries none, so a table would be between two places for a moment.
Spark makes the commit only where `set_back` does not.

The cursor comes first. From then on the lake is as after any rewind, which is safe whatever is killed: a table that is
not restored is right again when reading has come to where the table was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest

from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from spark_jobs.as_of.as_of import TablesAsOf, as_of
from spark_jobs.as_of.batches import Batches, Place
from spark_jobs.as_of.choice import Chosen
from spark_jobs.as_of.reading import read_batches
from spark_jobs.as_of.views import as_of_sql, lacks_values
from spark_jobs.expectations.quarantine_table import AFTER_STATEMENT, QuarantineTable
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.record import CopyNote, Mark, copied_properties
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.replacement import no_rows, replace_table, rows_of
from spark_jobs.lake.seen_columns import made_otherwise
from spark_jobs.lake.state import FENCE, UNFILLED_NUMBER, TableState
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.load.replacement import Target, one_commit
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.session import Sessions
from spark_jobs.snapshot.place import SnapshotPlace
from spark_jobs.undo.set_back import SetBack, set_back

_RESTORED = "restored"  # in the user metadata of a commit


@dataclass(frozen=True, slots=True)
class LakePlace:
    """The place to which the lake is set: `position` at the source, read on from there in `epoch`."""

    epoch: int
    position: EntryPosition

    @property
    def note(self) -> CopyNote:
        """What a table says that is exactly there."""
        return CopyNote(self.epoch, self.position.version(), self.position.version())


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of a table: the `version` of the commit, None for one that was at the place already."""

    table: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Restorer:
    """Restores tables of one client. `run_id` and the `number` of the correction are written into the commits."""

    tables: ClientTables
    sessions: Sessions
    run_id: str = ""
    number: int = 0

    def plan(self, to: str) -> TablesAsOf:
        """Returns the versions of all tables at a place. Raises NotAsOf if a table has none, LakeError, also for rows
        that other rules made than those of now, or that waited in a quarantine there."""
        found, batches = as_of(self.tables, to), cache(lambda: read_batches(self.tables.ledger))
        for chosen in found.tables.values():
            if why := self._why_not(chosen, found.place, batches):
                hint = (
                    "Restore to another place; or set the cursor alone (`sluice reset`), and changes are merged again "
                    "into what is there."
                )
                place = self.tables.path(chosen.table)
                raise LakeError(f"{chosen.table} cannot be restored: {why}", place=place, hint=hint)
        return found

    def table(self, chosen: Chosen, place: LakePlace) -> Restored:
        """Restores a table. Raises WentOn if a run wrote it since the cursor was set: then the cursor must be set
        again; TableStopped for a table of others, LakeError if it cannot be written."""
        tables, table = self.tables, chosen.table
        client = LakeClient(tables.destination, tables.client_id, place.epoch, self.run_id)
        target = Target.fenced(tables.lake, self.sessions, client, table)
        now = tables.lake.state(target.path, target.app)
        if now is not None and is_there(now, chosen, place):
            if now.copied == place.note:  # a run may have died between its commit and what comes after it
                noted = (one.user_metadata for one in tables.lake.commits(target.path) if _RESTORED in one.note)
                target.committed(next(noted))
            return Restored(table, None)
        entered = target.entered()
        if entered is not None and (entered.applied or 0) > place.note.low:
            raise WentOn(target.path)
        made = _Made.of(self, target, chosen, entered, place)
        if entered is None or not _set_back(tables, made):
            _replace(self.sessions, tables, made)
        return Restored(table, target.committed(made.about))

    def _why_not(self, chosen: Chosen, place: Place, batches: Callable[[], Batches]) -> str:
        """Returns why the rows of a table at the place must not come back, or ""."""
        tables, path = self.tables, self.tables.path(chosen.table)
        then = None if chosen.version is None else tables.lake.state(path, "", chosen.version)
        now = tables.lake.state(path, "")
        if then is not None and now is not None and made_otherwise(then, now):
            return "rules have changed since: the rows of then may show what they hide"
        if chosen.later and then is not None and (why := lacks_values(tables, chosen, then)):
            return f"{why}, and its log does not have these values"
        quarantine = QuarantineTable(tables.lake, tables.destination, chosen.table)
        if quarantine.exists and waited(quarantine.noted(), place, batches(), then):
            return "rows waited in its quarantine there, which would be in neither of them"
        return ""


def waited(noted: Sequence[tuple[int, int, int]], place: Place, batches: Batches, then: TableState | None) -> bool:
    """Whether rows waited at a place, as far as the quarantine's commits say: epoch, version and count of rows of each,
    in order. Rows from before the base of the table as it was `then` did not count. Pure."""
    base, reached = then.base if then is not None else None, replace(place, version=place.version + AFTER_STATEMENT)
    for (epoch, version, rows), later in zip_longest(noted, noted[1:]):
        counts = rows and (base is None or (epoch, version) > (base.epoch, base.low))
        ended = later is not None and later[0] == epoch and batches.place(*later[:2]) <= reached
        if counts and not ended and batches.place(epoch, version) <= reached:
            return True
    return False


def is_there(now: TableState, chosen: Chosen, place: LakePlace) -> bool:
    """Whether the table has the rows of the place, and no later ones: since it was restored, or all the time. Pure."""
    if chosen.later:
        return False
    if now.copied == place.note:
        return now.applied == place.note.low
    return chosen.version == now.version and not now.applied


@dataclass(frozen=True, slots=True)
class _Made:
    """What a table becomes: `state` is that of the version with the rows, None for a table without one."""

    target: Target
    chosen: Chosen
    state: TableState
    properties: dict[str, str]
    mark: Mark
    about: str

    @classmethod
    def of(cls, restorer: Restorer, target: Target, chosen: Chosen, now: TableState | None, place: LakePlace) -> _Made:
        """Raises WentOn for a table that is beyond the place, LakeError for one without a version."""
        version = chosen.version if chosen.version is not None else (now.version if now else None)
        state = None if version is None else target.lake.state(target.path, "", version)
        if state is None:
            hint = copy_hint(target.client.destination, target.name)
            raise LakeError("the lake has no version of it any more", place=target.path, hint=hint)
        mark = target.mark(now, place.note.low)
        about = json.loads(
            target.client.note(target.name, SnapshotPlace(place.position, place.position), 0, copied=place.note)
        )
        about |= {_RESTORED: {"version": chosen.version, "number": restorer.number, "token": target.fence.token}}
        properties = {**state.own_properties, **copied_properties(place.note, mark), FENCE: target.fence.token}
        if now is not None and UNFILLED_NUMBER in now.properties:  # a note of old values never repeats a number
            properties[UNFILLED_NUMBER] = now.properties[UNFILLED_NUMBER]
        return cls(target, chosen, state, properties, mark, json.dumps(about).replace("$", "\\u0024"))


def _set_back(tables: ClientTables, made: _Made) -> bool:
    """Makes the commit without Spark if it can be, and returns whether it has. Raises WentOn as below."""
    target, chosen = made.target, made.chosen
    if chosen.version is None or chosen.later:
        return False
    wanted = SetBack(made.properties, made.state.comment, target.app, made.mark.upto, made.about)
    try:
        now, then = tables.lake.open(target.path), tables.lake.open(target.path, chosen.version)
        applied = now.transaction_version(target.app)
        is_ours = now.metadata().configuration.get(FENCE) == target.fence.token
        if not is_ours or (applied is not None and applied >= made.mark.upto):
            raise WentOn(target.path)
        return set_back(now, then, wanted)
    except CommitFailedError as error:
        raise WentOn(target.path) from error
    except (DeltaError, OSError):  # Spark says what is wrong
        return False


def _replace(sessions: Sessions, tables: ClientTables, made: _Made) -> None:
    """Makes the commit. Raises WentOn if another one came in between, LakeError."""
    target, state = made.target, made.state
    remedy = copy_hint(tables.destination, target.name)
    with (
        sessions.take() as spark,
        lake_errors(target.path, remedy),
        one_commit(spark, target.path, target.app, made.mark.upto, made.about),
    ):
        rows = _rows(spark, tables, made)
        replace_table(target.path, rows, state.columns, made.properties, state.comment)


def _rows(spark: SparkSession, tables: ClientTables, made: _Made) -> DataFrame:
    """Returns the rows: those of the version, with Sluice's columns too; with later rows of the log where it has
    some."""
    chosen, state = made.chosen, made.state
    if chosen.later:
        return spark.sql(as_of_sql(tables, chosen, whole=True))
    if chosen.version is None:
        return no_rows(spark, state.columns)
    return rows_of(spark, made.target.path, chosen.version)
