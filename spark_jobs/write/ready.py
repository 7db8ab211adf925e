"""`ReadyTable`: a table that is ready for one commit, whatever engine makes it."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.changes.table_changes import Changes, OfClaim
from spark_jobs.lake.tables import Lake
from spark_jobs.write.order import Claimed, Logged, Order, form_of
from spark_jobs.write.preparation import Prepared


@dataclass(frozen=True, slots=True)
class ReadyTable:
    """`name` (`database.table`) at `path`, as it was prepared for the `changes`, which it lacks. The commit has the app
    id `app`, and `note` as its user metadata. `since`: when its preparation began, by the performance counter."""

    name: str
    path: str
    app: str
    note: str
    changes: Changes
    prepared: Prepared
    since: float

    @property
    def version(self) -> int:
        """Returns the version that the table has after the commit."""
        return self.changes.range.upto

    def order(self, lake: Lake, token: str) -> Order | None:
        """Returns the order for the job of many tables, or None if the table needs a statement. `token`: of the run's
        fence."""
        changes, state = self.changes, self.prepared.state
        form = form_of(changes, state)
        if form is None:
            return None
        columns = tuple(column.name for column in changes.columns_in(state))
        return Order(
            self.path, self.app, self.version, self.note, token, form, columns, changes.key, asked_of(changes),
            state.own, lake.storage, changes.left_out,
        )  # fmt: skip


def asked_of(changes: Changes, emptied: int | None = None) -> Claimed | Logged:
    """Returns where a task gets the changes. `emptied`: when the table was last emptied before them, if that is
    known."""
    source = changes.source
    if isinstance(source, OfClaim):
        return Claimed(source.door, source.read.tickets, images=source.images)
    return Logged(source.path, source.log.version(), changes.range, emptied)
