"""Writes one part of one log, or one comparison with the table, into a history, as one commit.

The commit carries the history's own app id of the epoch, and the version up to which the changes go; a comparison's
version is a little higher, where no event ends. A repeated part adds nothing; a late statement, of a dead run, is
skipped or refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from cdc_core.errors import TableStopped
from spark_jobs.changes.net import NOT_A_ROW
from spark_jobs.following.history import statements
from spark_jobs.following.history.columns import MOVE_AWAY, work_of
from spark_jobs.following.history.note import HistoryNote
from spark_jobs.following.history.own import OwnHistories
from spark_jobs.following.history.standing import Histories, HistoryState, lacks, standing, upto
from spark_jobs.following.merge import every_part
from spark_jobs.following.merged import Merged
from spark_jobs.following.others import leaving
from spark_jobs.following.pending import Follows, Part, Pending
from spark_jobs.following.together import Readied
from spark_jobs.lake.failures import lake_errors, tried_twice
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import Mark, marked_property
from spark_jobs.lake.sql import table_at
from spark_jobs.lake.transaction import FEW_ROWS, MANY_ROWS, transaction
from spark_jobs.landing.log import OpenedLog
from spark_jobs.session import Sessions
from spark_jobs.write.choice import key_range
from spark_jobs.write.order import Form, Order, Outcome, form_of
from spark_jobs.write.ready import asked_of
from spark_jobs.write.sorted_images import SortedImages, row_versions
from spark_jobs.write.transaction import run_statement
from spark_jobs.write.vectors import give_vectors

_VIEW = "sluice_versions"


@dataclass(frozen=True, slots=True)
class Historian:
    """Keeps histories for one run, whose `fence` keeps the statements of earlier ones out."""

    follows: Follows
    sessions: Sessions
    fence: Fence
    run_id: str = ""
    clock: Callable[[], float] = time.time

    @property
    def histories(self) -> Histories:
        follows = self.follows
        return Histories(follows.lake, follows.destination, follows.client_id, follows.part_rows)

    @property
    def _own(self) -> OwnHistories:
        return OwnHistories(self.histories, self.sessions, self.fence)

    def pending(self, table: str) -> Pending | None:
        """Returns what the history lacks, or None while it has all, or waits for its table."""
        return lacks(self.histories, table)

    def whole(self, table: str, *, sleep: Callable[[float], None] = time.sleep) -> Merged:
        """Writes all that the log has by now, as far as the history need not wait for the table."""
        return sum(every_part(table, self.next, sleep), Merged(table))

    def next(self, table: str) -> Merged:
        """Writes the first part that the history lacks; or all up to its table's place, and the comparison with it.

        Raises TableStopped when the history cannot take it, TakenOver when another run writes it, LakeError."""
        return replace(tried_twice(lambda: self._next(table)), table=work_of(table))

    def begin(self, table: str) -> None:
        """Creates the history if there is none. Called before the table takes more of its log, so that the history gets
        these changes.

        Raises LakeError for trouble that passes: the table waits until then."""
        with suppress(TableStopped):  # trouble of the history alone, which its own turn reports
            found = standing(self.histories, table)
            if found is not None and found.state is None:
                self._own.entered(table, found)

    def _next(self, table: str) -> Merged:
        histories = self.histories
        found = standing(histories, table)
        if found is None or lacks(histories, table) is None:
            return Merged(table)
        with leaving(self.follows.lake, self.fence, histories.path(table)):
            found = self._own.entered(table, found)
            if found.waits:
                return Merged(table)
            return self._compared(table, found) if found.is_due else self._part(table, found)

    def readied(self, table: str) -> Readied | Merged | None:
        """Prepares the first part that the history lacks for the job of many tables. Returns it; the empty result if
        there is nothing to write; None if the history needs statements."""
        began, histories, lake = time.perf_counter(), self.histories, self.follows.lake
        found, path = standing(histories, table), histories.path(table)
        if found is None:
            return Merged(work_of(table))
        with leaving(lake, self.fence, path):
            found = self._own.entered(table, found)
            if found.is_due and not found.waits:
                return None
            pending = None if found.waits else histories.pending(table)
            if pending is None:
                return Merged(work_of(table))
            log, part = found.log, pending.part
            columns, key = self._own.widened(path, log.columns, log)
            changes = log.changes(part, part.rows)
            if form_of(changes, self._own.state(path)) is not Form.KEYED:
                return None
            asked = asked_of(changes, self._emptied(pending, log))
        order = Order(
            path, histories.app(table, part.epoch), part.upto, part.note(histories.ledger, table, self.run_id),
            self.fence.token, Form.VERSIONS, tuple(columns), key, asked, storage=lake.storage,
        )  # fmt: skip

        def result(outcome: Outcome, share: int) -> Merged:
            seconds = (time.perf_counter() - began) / share
            return replace(Merged.of(pending, outcome, self.clock(), seconds), table=work_of(table))

        return Readied(order, result)

    def _part(self, table: str, found: HistoryState) -> Merged:
        pending = self.histories.pending(table)
        return self._took(pending, found) if pending else Merged(table)

    def _took(self, pending: Pending, found: HistoryState) -> Merged:
        """Writes one part; only up to the first entry that emptied the table, if there is one."""
        path = self.histories.path(pending.table)
        try:
            return self._wrote(pending, found)
        except TableStopped as error:
            if NOT_A_ROW not in str(error.__cause__):
                raise
        log, part = _log(found), pending.part
        with self.sessions.take() as spark, lake_errors(path, MOVE_AWAY):
            row = spark.sql(statements.first_emptying(log, part.sql)).collect()[0]
        upto_, micros = int(row[0]), row[1]
        before = replace(pending, part=replace(part, upto=upto_ - 1, whole=False))
        done = self._wrote(before, found)
        note = HistoryNote.of(self._own.state(path).properties)
        self._own.note(path, replace(note, emptied=(part.epoch, upto_, micros)))
        emptying = replace(pending, part=replace(part, after=upto_ - 1, upto=upto_, rows=1, whole=False))
        place = (part.epoch, upto_)
        return done + self._committed(emptying, statements.close_all(path, place, statements.moment(micros)))

    def _wrote(self, pending: Pending, found: HistoryState) -> Merged:
        path, log = self.histories.path(pending.table), found.log
        columns, key = self._own.widened(path, log.columns, log)
        part, source = pending.part, _log(found)
        between = key_range(self.follows.lake, path, log.changes(part, part.rows), self._own.state(path))
        place, since = (part.epoch, part.after), self._emptied(pending, log)
        with row_versions(
            self.follows.lake, self.follows.destination, log.table, part, part.rows, columns, key
        ) as changes:
            if changes is not None:
                rows = statements.staged_changes(_VIEW, path, place)
            else:
                rows = statements.changes(source, part.sql, columns, key, path, place)
            statement = statements.merge_versions(path, rows, columns, key, between, statements.moment(since))
            return self._committed(pending, statement, changes)

    def _emptied(self, pending: Pending, log: OpenedLog) -> int | None:
        """Returns when the table was last emptied before the part, in microseconds: a row without a version in the
        history came then, by a RENAME or a CREATE with rows. None if the log does not have all changes since."""
        histories, part, table = self.histories, pending.part, pending.table
        last = HistoryNote.of(self._own.state(histories.path(table)).properties).emptied
        if last is None or last[:2] > (part.epoch, -1 if part.after is None else part.after):
            return None
        lacks = ((epoch, log.lacks_to(epoch) or 0) for epoch in range(last[0], part.epoch + 1))
        whole = all(place <= last[:2] or not place[1] for place in lacks)
        return last[2] if whole else None

    def _compared(self, table: str, found: HistoryState) -> Merged:
        """Brings the history to its table's place, and makes its current rows those of the table there."""
        histories, path = self.histories, self.histories.path(table)
        done, place, merged = Merged(table), found.table, found.merged
        assert place is not None
        assert merged is not None
        while (pending := upto(histories, found, table)) is not None:
            done += self._took(pending, found)
        columns, key = self._own.widened(path, merged.columns, found.log)
        where = (place.epoch, place.version)
        (last,) = histories.lake.applied(path, [histories.app(table, place.epoch)])
        mark = Mark.next(*where, last)
        if mark is None:
            hint = "Nothing is lost: it goes on with the next change of the table."
            raise TableStopped("the history was compared too often at the same place", place=path, hint=hint)
        with self.sessions.take() as spark, lake_errors(path, MOVE_AWAY):
            micros = spark.sql(statements.last_time(_log(found), *where)).collect()[0][0]
            if micros is None:  # the log has no row any more; without an end, closed versions would seem to last
                micros = spark.sql(statements.last_known(path)).collect()[0][0]
            at = statements.moment(micros)
        rows = statements.rows_of(self.follows.path(table), merged.version, columns, merged.own, gone=merged.dropped)
        begins = found.note.compared < 0 and found.note.begun is not None
        kept = found.log.dropped(merged.columns)
        source = statements.differences(path, rows, merged.columns, key, where, at, begins=begins, kept=kept)
        part = Part(place.epoch, place.version, mark.upto, 0, self.clock(), whole=False)
        step = Pending(table, part, 0, part.since, mark.upto, found.log, found.state)
        said = self._own.state(path).properties
        # Noted before the commit: if the run is killed after it, the history is still known to be at its table's place.
        self._own.note(path, HistoryNote.of(said), marked_property(said, mark))
        done += self._committed(step, statements.merge_versions(path, source, columns, key))
        note = HistoryNote.of(self._own.state(path).properties)
        passed = {**note.passed, str(place.epoch): max(place.version, note.passed.get(str(place.epoch), 0))}
        compared = replace(note, stamp=found.stamp, compared=max(note.compared, place.epoch), passed=passed)
        self._own.note(path, compared)
        return done

    def _committed(self, pending: Pending, statement: str, changes: SortedImages | None = None) -> Merged:
        """Executes one statement as one commit with the part's version. `changes`: what it reads, as `_VIEW`."""
        began, histories, part = time.perf_counter(), self.histories, pending.part
        path, app = histories.path(pending.table), histories.app(pending.table, part.epoch)
        metadata = part.note(histories.ledger, pending.table, self.run_id)
        with self.sessions.take() as spark, lake_errors(path, MOVE_AWAY):
            self.fence.check(path)
            give_vectors(spark, histories.lake, self.fence, path, self._own.state(path))
            if changes is not None:
                changes.create_view(spark, _VIEW)
            few, many, fixed = 0 < part.rows <= FEW_ROWS, part.rows >= MANY_ROWS, changes is not None
            small = histories.lake.is_small(path)
            with transaction(spark, app, part.upto, metadata, few=few, rewrites=small, fixed=fixed, many=many):
                run_statement(spark, statement, path)
        state = histories.lake.state(path, app)
        if part.rows and (state is None or state.applied is None or state.applied < part.upto):
            self._pass(path, part)
        commit = histories.lake.commit_noted(path, metadata)
        counts = Outcome(
            commit.version, commit.count("numTargetRowsInserted"),
            commit.count("numTargetRowsUpdated", "numUpdatedRows"),
        ) if commit else None  # fmt: skip
        return Merged.of(pending, counts, self.clock(), time.perf_counter() - began)

    def _pass(self, path: str, part: Part) -> None:
        """Notes a part for which there was nothing to write: Delta makes no commit of a statement that changes no row,
        such as a TRUNCATE of an empty table."""
        note = HistoryNote.of(self._own.state(path).properties)
        self._own.note(path, replace(note, passed={**note.passed, str(part.epoch): part.upto}))


def _log(found: HistoryState) -> str:
    """Returns the SQL for the log as it was when the part was chosen."""
    return table_at(found.log.path, found.log.version)
