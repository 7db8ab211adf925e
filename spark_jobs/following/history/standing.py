"""What a history lacks: changes of its log, or a comparison with its table. By the logs of Delta, without Spark.

The log has each change once for each epoch. Some changes are in no log: those that a copy, a repair, a statement of DDL
or a run that merges without the log brought to the table. Where one of these may be, both are compared when they stand
at the same place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.apply.epochs import epochs_not_repeated
from spark_jobs.following.history.columns import ANEW
from spark_jobs.following.history.note import HistoryNote
from spark_jobs.following.pending import Follows, Part, Pending, epochs_in, log_files, opened, parts
from spark_jobs.lake.copied import COPIED
from spark_jobs.lake.repaired import REPAIRED
from spark_jobs.lake.state import DROPPED, FOLLOWED, SCHEMA_VERSION, TABLE, TableState, app_id
from spark_jobs.landing.columns import log_app_id
from spark_jobs.landing.definition import EPOCHS

ROOM = 18  # versions behind an event's end that comparisons may use: an event has 19 bytes
_SAYS = (COPIED, REPAIRED, SCHEMA_VERSION, FOLLOWED, DROPPED)


@dataclass(frozen=True, slots=True)
class Histories(Follows):
    """The histories of one client of one destination, and their logs: they follow as tables do."""

    def app(self, table: str, epoch: int) -> str:
        return app_id(self.destination, self.client_id, f"{table}:history", epoch)

    def path(self, table: str) -> str:
        return self.lake.history_path(*split_name(table))

    def _check_whole(self, log: DeltaTable, table: str, epoch: int, after: int | None) -> None:
        """What the log lacks comes by a comparison."""

    def merged_to(self, log: DeltaTable, state: TableState | None, epoch: int) -> int | None:
        """The version up to which the history has the epoch's changes, also by earlier epochs.

        Raises TableStopped where changes of another server may come again: nobody can tell which."""
        if state is None:
            return None
        note, table = HistoryNote.of(state.properties), state.properties.get(TABLE, "")
        if note.begun is not None and epoch < note.begun[0]:
            return 1 << 63
        own = note.applied(epoch, state.applied)
        return max((one for one in (own, self._repeated(log, table, note, epoch)) if one is not None), default=None)

    def _repeated(self, log: DeltaTable, table: str, note: HistoryNote, epoch: int) -> int | None:
        reached = self.lake.applied(self.path(table), [self.app(table, one) for one in range(epoch)])
        known = {one: note.applied(one, version) for one, version in enumerate(reached)}
        begun = -1 if note.begun is None else note.begun[0]
        applied = {one: version for one, version in known.items() if version and one >= begun}
        if f"{EPOCHS}{epoch}" not in log.metadata().configuration:
            return None  # the log never had a row of it
        claim = self.stands_for(log, epoch)
        for one in epochs_not_repeated(claim, applied):
            applied.pop(one, None)
        if applied and min(applied) < claim.moved:
            message = "the destination moved to another server, and which of its changes the history has is unknown"
            raise TableStopped(message, place=self.path(table), hint=ANEW)
        return max(applied.values(), default=None)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a table or a history is: the last epoch of which it has something, and the version there."""

    epoch: int
    version: int

    def is_behind(self, other: Place) -> bool:
        return (self.epoch, self.version) < (other.epoch, other.version)


@dataclass(frozen=True, slots=True)
class Standing:
    """A history beside its table. `state`: the history's, None where there is none yet; `place`: how far it is.
    `merged` is the table's state, `table` its place. `stamp`: what is true of the table. `lacks`: the log has lost
    changes that the history has not."""

    log: DeltaTable
    state: TableState | None
    place: Place | None
    merged: TableState | None
    table: Place | None
    stamp: str
    lacks: bool = False

    @property
    def note(self) -> HistoryNote:
        return HistoryNote.of(self.state.properties if self.state else {})

    @property
    def is_due(self) -> bool:
        """Whether both must be compared before the history goes on."""
        return self.table is not None and (self.lacks or self.note.stamp != self.stamp)

    @property
    def waits(self) -> bool:
        """Whether they must, and the table has yet to come to where the history is."""
        if not self.is_due or self.place is None or self.table is None:
            return False
        return self.table.is_behind(Place(self.place.epoch, self.place.version - ROOM))


def standing(histories: Histories, table: str) -> Standing | None:
    """None without a log. Raises TableStopped for a damaged one, LakeError."""
    follows = Follows(histories.lake, histories.destination, histories.client_id)
    log = opened(histories.lake, histories.log_path(table))
    if log is None:
        return None
    properties = log.metadata().configuration
    epochs = {int(key.removeprefix(EPOCHS)) for key in properties if key.startswith(EPOCHS)} | {*epochs_in(log)}
    merged = histories.lake.state(follows.path(table), "")
    if merged is not None and merged.copied is not None:
        epochs.add(merged.copied.epoch)
    newest = range(max(epochs, default=-1), -1, -1)
    there = _place(follows, table, newest, merged.version if merged else None)
    state = histories.lake.state(histories.path(table), "")
    own = _own_place(histories, log, table, newest, state)
    says = {name: merged.properties.get(name, "") for name in _SAYS} if merged else {}
    if there is not None:
        end = log.transaction_version(log_app_id(histories.destination, histories.client_id, table, there.epoch))
        assert merged is not None
        says["epoch"] = str(there.epoch)
        beyond = there.version > (end or 0) and there.version not in merged.told_places
        says["beyond"] = str(there.version) if beyond else ""
    lacks_some = state is not None and any(_lacks(histories, log, table, one, state) for one in newest)
    return Standing(log, state, own, merged, there, json.dumps(says), lacks_some)


def _place(follows: Follows, table: str, epochs: Sequence[int], version: int | None) -> Place | None:
    if version is None:
        return None
    for epoch in epochs:
        state = follows.lake.state(follows.path(table), follows.app(table, epoch), version)
        if state is not None and state.applied:
            return Place(epoch, state.applied)
    return None


def _own_place(
    histories: Histories, log: DeltaTable, table: str, epochs: Sequence[int], state: TableState | None
) -> Place | None:
    if state is None:
        return None
    for epoch in epochs:
        there = histories.lake.state(histories.path(table), histories.app(table, epoch), state.version)
        if version := histories.merged_to(log, there, epoch):
            return Place(epoch, version)
    return None


def _lacks(histories: Histories, log: DeltaTable, table: str, epoch: int, state: TableState) -> bool:
    """Whether the log has lost changes of the epoch before the history had them, and no comparison made up for it."""
    lost = histories.lacks_to(log, table, epoch)
    if lost is None or epoch < HistoryNote.of(state.properties).compared:
        return False
    there = histories.lake.state(histories.path(table), histories.app(table, epoch), state.version)
    return lost > (histories.merged_to(log, there, epoch) or 0)


def upto(histories: Histories, found: Standing, table: str) -> Pending | None:
    """The first part of the log that the history lacks up to where the table is."""
    assert found.table is not None
    files, last = log_files(found.log), found.table
    for epoch in (one for one in epochs_in(found.log) if one <= last.epoch):
        app = log_app_id(histories.destination, histories.client_id, table, epoch)
        end = found.log.transaction_version(app)
        if end is None:
            continue
        end = min(end, last.version) if epoch == last.epoch else end
        state = histories.lake.state(histories.path(table), histories.app(table, epoch))
        after = histories.merged_to(found.log, state, epoch)
        for part in parts(files, epoch, after, end, histories.part_rows):
            return Pending(table, part, part.rows, part.since, part.upto, found.log, state)
    return None


def lacks(histories: Histories, table: str) -> Pending | None:
    """What a history lacks now; of a comparison that is due: a part without rows. None while it waits for its table."""
    found = standing(histories, table)
    if found is None or found.waits:
        return None
    if not found.is_due:
        return histories.pending(table)
    assert found.table is not None
    part = Part(found.table.epoch, found.table.version, found.table.version, 0, 0.0)
    first = upto(histories, found, table) if found.state is not None else None
    return first or Pending(table, part, 0, 0.0, part.upto, found.log, found.state)
