"""Finds what a history lacks: changes of its log, or a comparison with its table. By the logs of Delta, without Spark.

The log has each change once for each epoch. Some changes of the table are in no log: those by a copy, a repair, a DDL
statement, or a run that merges without the log. If the table may have such a change, both are compared when they are at
the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.following.history.columns import MOVE_AWAY
from spark_jobs.following.history.note import HistoryNote
from spark_jobs.following.history.stamp import EpochVersion, stamp_of
from spark_jobs.following.pending import Follows, Part, Pending, parts
from spark_jobs.lake.progress import ALWAYS, TableProgress
from spark_jobs.lake.record import ROOM
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.landing.files import epochs_in, log_files
from spark_jobs.landing.log import OpenedLog


@dataclass(frozen=True, slots=True)
class Histories(Follows):
    """The histories of one client of one destination, and their logs: they are followed as tables are."""

    def app(self, table: str, epoch: int) -> str:
        return app_id(self.destination, self.client_id, f"{table}:history", epoch)

    def path(self, table: str) -> str:
        return self.lake.history_path(*split_name(table))

    def table_app(self, table: str, epoch: int) -> str:
        """Returns the app id of the table's own commits."""
        return Follows.app(self, table, epoch)

    def table_path(self, table: str) -> str:
        return Follows.path(self, table)

    def _check_whole(self, log: OpenedLog, epoch: int, after: int | None) -> None:
        """Checks nothing: a comparison brings the changes that the log lacks."""

    def progress(self, table: str, upto: int, version: int | None = None) -> TableProgress | None:
        """Returns how far the history is, or None if there is no history."""
        apps = [self.app(table, epoch) for epoch in range(upto + 1)]
        states = self.lake.states(self.path(table), apps, version)
        if not states:
            return None
        note = HistoryNote.of(states[0].properties)
        known = {epoch: note.applied(epoch, state.applied) for epoch, state in enumerate(states)}
        ends = {epoch: end for epoch, end in known.items() if end is not None}
        return TableProgress(self.ledger, table, states[-1], ends, keyed=True)

    def table_progress(self, table: str, upto: int, version: int | None = None) -> TableProgress | None:
        return Follows.progress(self, table, upto, version)

    def merged_to(self, log: OpenedLog, progress: TableProgress | None, epoch: int) -> int | None:
        """Returns the version up to which the history has the epoch's changes, also by earlier epochs, or None.

        Raises TableStopped if changes of another server may be repeated, since it is unknown which."""
        if progress is None:
            return None
        note = HistoryNote.of(progress.state.properties)
        if note.begun is not None and epoch < note.begun[0]:
            return ALWAYS
        known = (progress.ends.get(epoch), self._repeated(log, progress, note, epoch))
        return max((one for one in known if one is not None), default=None)

    def _repeated(self, log: OpenedLog, progress: TableProgress, note: HistoryNote, epoch: int) -> int | None:
        if epoch not in log.epochs:
            return None  # the log never had a row of it
        begun, now = -1 if note.begun is None else note.begun[0], log.epoch(epoch)
        ends = {one: end for one, end in progress.ends.items() if end and begun <= one < epoch}
        left = {one: end for one, end in ends.items() if one not in now.unrepeated(ends)}
        if min(left, default=now.moved) < now.moved:
            message = "the destination moved to another server, and which of its changes the history has is unknown"
            raise TableStopped(message, place=self.path(progress.table), hint=MOVE_AWAY)
        return max(left.values(), default=None)


@dataclass(frozen=True, slots=True)
class HistoryState:
    """The state of a history and of its table. `state`: the history's, None if there is none yet; `place`: how far it
    is. `merged` is the table's state, `table` its place, `stamp` its stamp. `lost`: the place up to which the log has
    lost changes that the history lacks. `unsettled`: the table is being changed, and is to go on first."""

    log: OpenedLog
    state: TableState | None
    place: EpochVersion | None
    merged: TableState | None
    table: EpochVersion | None
    stamp: str
    lost: EpochVersion | None = None
    unsettled: bool = False

    @property
    def note(self) -> HistoryNote:
        return HistoryNote.of(self.state.properties if self.state else {})

    @property
    def is_due(self) -> bool:
        """Whether both must be compared before the history goes on."""
        return self.table is not None and (self.lost is not None or self.note.stamp != self.stamp)

    @property
    def waits(self) -> bool:
        """Whether both must be compared, and the table has yet to reach the history's place, the place of `lost`, or
        one where it is settled."""
        if not self.is_due or self.table is None:
            return False
        if self.unsettled or (self.lost is not None and self.table.is_behind(self.lost)):
            return True
        return self.place is not None and self.table.is_behind(
            EpochVersion(self.place.epoch, self.place.version - ROOM)
        )


def standing(histories: Histories, table: str) -> HistoryState | None:
    """Returns the state of a history and its table, or None for a table without a log or without a key. Raises
    TableStopped for a damaged log, and for a table that went back; LakeError."""
    ledger = histories.ledger
    noted = ledger.opened()  # before the log, so that the log has all that was landed by then
    log = histories.log(table)
    if log is None or not log.has_key:
        return None
    epochs = {*log.epochs, *epochs_in(log.table)}
    epochs.add(ledger.last_epoch(noted))  # batches may have been merged directly
    merged = histories.lake.state(histories.table_path(table), "")
    if merged is not None and merged.copied is not None:
        epochs.add(merged.copied.epoch)
    newest = range(max(epochs), -1, -1)
    there = _place(histories, table, newest, merged)
    state = histories.lake.state(histories.path(table), "")
    progress = histories.progress(table, max(epochs), state.version) if state is not None else None
    own = _own_place(histories, log, newest, progress)
    end, unsettled = 0, False
    if there is not None and merged is not None:
        end = log.end(there.epoch) or 0
        unsettled = _is_unsettled(merged, there, end, ledger.reached(there.epoch, noted))
        if not unsettled and own is not None:
            _check_not_back(log, merged, there, own)
    stamp = stamp_of(histories, table, merged, there, end, newest)
    lost = [_lost(histories, log, one, progress) for one in newest] if progress is not None else []
    last = max((one for one in lost if one is not None), key=lambda one: (one.epoch, one.version), default=None)
    return HistoryState(log, state, own, merged, there, stamp, last, unsettled)


def _place(histories: Histories, table: str, epochs: Sequence[int], merged: TableState | None) -> EpochVersion | None:
    """Returns the table's place, or None. Before it follows a statement it has all of its log up to there, so it is at
    the statement then."""
    if merged is None:
        return None
    progress = histories.table_progress(table, max(epochs), merged.version)
    newest = max((epoch for epoch, end in progress.ends.items() if end), default=None) if progress else None
    found = EpochVersion(newest, progress.ends[newest]) if progress and newest is not None else None
    followed = EpochVersion(*merged.followed) if merged.followed else None
    return followed if found and followed and found.is_behind(followed) else found


def _is_unsettled(merged: TableState, there: EpochVersion, end: int, reached: int) -> bool:
    """Whether changes up to the table's place may still come into its log, or into the table. `end`: the log's in that
    epoch; `reached`: the ledger's, up to which everything was landed or merged."""
    copied = merged.copied
    ahead = there.version > reached  # a run is in the middle of a batch, or of a statement
    if copied is None or copied.epoch != there.epoch:
        return ahead
    if there.version < copied.high:  # some rows are as of the copy's end already, and their changes are repeated
        return reached < copied.high or end > there.version
    return ahead and there.version != copied.low


def _check_not_back(log: OpenedLog, merged: TableState, there: EpochVersion, own: EpochVersion) -> None:
    """Raises TableStopped if batches of a later epoch were merged without the log, and the table is not yet where the
    history is: after a rewind it goes back in time, and places of another server cannot be compared."""
    copied = merged.copied is not None and merged.copied.epoch == there.epoch
    followed = merged.followed == (there.epoch, there.version)
    if own.epoch >= there.epoch or there.epoch in log.epochs or copied or followed:
        return
    if there.version < own.version:
        message = f"its table went back to version {there.version}, without its log; the history has {own.version}"
        hint = "After a rewind it continues when the table has reached that version again. "
        hint += f"After a move to another server: {MOVE_AWAY}"
        raise TableStopped(message, place=log.path, hint=hint)


def _own_place(
    histories: Histories, log: OpenedLog, epochs: Sequence[int], progress: TableProgress | None
) -> EpochVersion | None:
    for epoch in epochs if progress is not None else ():
        if version := histories.merged_to(log, progress, epoch):
            return EpochVersion(epoch, version)
    return None


def _lost(histories: Histories, log: OpenedLog, epoch: int, progress: TableProgress) -> EpochVersion | None:
    """Returns the place up to which the log has lost changes of the epoch before the history had them, unless a
    comparison has made up for it; None if it has lost no such change."""
    lost = log.lacks_to(epoch)
    if lost is None or epoch < HistoryNote.of(progress.state.properties).compared:
        return None
    return EpochVersion(epoch, lost) if lost > (histories.merged_to(log, progress, epoch) or 0) else None


def upto(histories: Histories, found: HistoryState, table: str) -> Pending | None:
    """Returns the first part of the log that the history lacks up to the table's place, or None."""
    assert found.table is not None
    files, last = log_files(found.log.table), found.table
    for epoch in (one for one in epochs_in(found.log.table) if one <= last.epoch):
        end = found.log.end(epoch)
        if end is None:
            continue
        end = min(end, last.version) if epoch == last.epoch else end
        progress = histories.progress(table, epoch)
        after = histories.merged_to(found.log, progress, epoch)
        state = progress.state if progress else None
        for part in parts(files, epoch, after, end, histories.part_rows):
            return Pending(table, part, part.rows, part.since, part.upto, found.log, state)
    return None


def lacks(histories: Histories, table: str) -> Pending | None:
    """Returns what a history lacks now; a part without rows if only a comparison is due; None if it lacks nothing, or
    waits for its table."""
    found = standing(histories, table)
    if found is None or found.waits:
        return None
    if not found.is_due:
        return histories.pending(table)
    assert found.table is not None
    part = Part(found.table.epoch, found.table.version, found.table.version, 0, 0.0)
    first = upto(histories, found, table) if found.state is not None else None
    return first or Pending(table, part, 0, 0.0, part.upto, found.log, found.state)
