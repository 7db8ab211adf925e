"""The stopped tables of a destination's clients: a stop, what passes while it holds, and when it may be lifted.

A claim lists the tables that were stopped when it was handed out; its owner leaves their rows out. The ack of such rows
is noted in the same write as the cursor: from then on, only a table that was reloaded has them. An ack may say that a
statement of its range reloaded the table, such as TRUNCATE: then the stop ends in the same write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from cdc_core.contract.claim import is_redefined
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import SessionError
from cdc_core.meta.nodes import Change
from cdc_core.meta.stopped_tables import StoppedTables
from cdc_core.position import EntryPosition
from cdc_core.session.session import Session
from cdc_core.session.state import PendingAck
from cdc_core.store.store import Store


class Stops:
    """`of` has each client's stopped tables by name. `writing` surrounds each write of a node, and every ack."""

    def __init__(
        self, kept: StoppedTables, store: Store, session: Session, writing: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.of: dict[int, dict[str, StoppedTable]] = {}
        self._kept, self._store, self._session, self._writing = kept, store, session, writing

    def load(self, client_id: int, acked: EntryPosition | None) -> None:
        self.of[client_id] = {one.table: one for one in self._kept.of(client_id, acked)}

    def names(self, client_id: int) -> tuple[str, ...]:
        return tuple(sorted(self.of.get(client_id, ())))

    def stop(self, client_id: int, stopped: StoppedTable) -> None:
        """A table that is stopped already keeps what passed."""
        self._session.client(client_id)
        with self._writing():
            before = self.of[client_id].get(stopped.table)
            if before is not None:
                reason, hint, kind = stopped.reason, stopped.hint, stopped.kind
                stopped = replace(stopped.besides(before), reason=reason, hint=hint, kind=kind)
            self._kept.stop(client_id, stopped)
            self.note(client_id, [stopped])

    def lift(self, client_id: int, table: str, copied: EntryPosition | None, owner: str = "") -> None:
        """`copied`: the position at which the table was reloaded from the source, None when it was not. `owner` gives
        back its claims afterwards, so they do not count.

        Raises SessionError when the table would miss rows: some were acked, and are not in a copy; or some are claimed
        by an owner who leaves them out.
        """
        with self._writing():
            with self._store.changed:
                stopped = self._check(client_id, table, copied, owner)
                self.of[client_id] = {name: one for name, one in self.of[client_id].items() if name != table}
            try:
                self._kept.resume(client_id, table)
            except BaseException:
                self.note(client_id, [stopped] if stopped else [])
                raise

    def _check(self, client_id: int, table: str, copied: EntryPosition | None, owner: str) -> StoppedTable | None:
        client, stopped = self._session.client(client_id), self.of[client_id].get(table)
        if stopped is None:
            return None
        place, destination = f"{self._kept.destination}/{client_id}", self._kept.destination
        others = [batch for batch in client.batches if not owner or batch.claim.owner != owner]
        claimed = [batch.id for batch in others if is_redefined(table, batch.claim.table_names)]
        if claimed:
            raise SessionError(
                f"batch {claimed[0]} has rows of {table}, and its owner leaves them out",
                place=place,
                hint="Lift the stop again when the batch is acked or given back.",
            )
        if stopped.passed is not None and (copied is None or copied < stopped.passed):
            raise SessionError(
                f"changes of {table} up to {stopped.passed} were acked while it was stopped: the lake would miss them",
                place=place,
                hint=f"Reload the table from the source, which lifts the stop: sluice copy {destination} {table}. "
                f"Or reset the destination to {stopped.position} or before it, then lift the stop.",
            )
        return stopped

    def passed_by(self, pending: PendingAck) -> list[StoppedTable]:
        """The client's stopped tables of which the batch has changes, as they are after its ack."""
        stopped = self.of.get(pending.client_id, {})
        mended = {*pending.mended}
        touched = [one for name, one in stopped.items() if name not in mended and is_redefined(name, pending.tables)]
        return [one if one.passed and one.passed > pending.end else replace(one, passed=pending.end) for one in touched]

    def changes(self, client_id: int, stopped: Sequence[StoppedTable]) -> dict[str, Change]:
        """What writes these stops, for a write of several nodes; `note` takes them in afterwards."""
        return self._kept.changes(client_id, stopped)

    def check_mended(self, client_id: int, batch_id: int, mended: Collection[str]) -> None:
        """Raises SessionError for stops that an ack may not lift: another claim has rows of the table, and its owner
        leaves them out."""
        for batch in self._session.client(client_id).batches:
            left_out = sorted(name for name in mended if is_redefined(name, batch.claim.table_names))
            if batch.id != batch_id and left_out:
                raise SessionError(
                    f"batch {batch.id} has rows of {left_out[0]}, and its owner leaves them out",
                    place=f"{self._kept.destination}/{client_id}",
                    hint="Give that batch back, then ack again.",
                )

    def mended_by(self, pending: PendingAck) -> list[str]:
        """The client's stopped tables whose stop ends with the ack."""
        return [name for name in pending.mended if name in self.of.get(pending.client_id, {})]

    def note(self, client_id: int, stopped: Sequence[StoppedTable], lifted: Collection[str] = ()) -> None:
        """Takes in what was written."""
        if stopped or lifted:
            known = self.of[client_id] | {one.table: one for one in stopped}
            self.of[client_id] = {name: one for name, one in known.items() if name not in lifted}
