"""The tables that are stopped for a client, kept with its cursor until somebody resumes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.meta.nodes import Change, Nodes
from cdc_core.meta.table_states import TableStates, placed
from cdc_core.position import EntryPosition


class StoppedTables(TableStates):
    """The stopped tables of each client."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        super().__init__(nodes, destination, "stopped_tables", "stopped", StoppedTable.from_dict)

    def of(self, client_id: int, acked: EntryPosition | None = None) -> list[StoppedTable]:
        """`acked` is how far rows were acked: a state of an older version does not say whether some passed."""
        known = {"passed": acked.to_dict() if acked else None}
        return [StoppedTable.from_dict(known | fields) for fields in self._states(client_id).values()]

    def stop(self, client_id: int, stopped: StoppedTable) -> None:
        self._nodes.write(self.changes(client_id, [stopped]))

    def changes(self, client_id: int, stopped: Iterable[StoppedTable], lifted: Iterable[str] = ()) -> dict[str, Change]:
        """What writes these stops and removes those of `lifted`, for a write of several nodes."""
        values: dict[str, dict[str, Any] | None] = {
            one.table: one.to_dict() | {"position": placed(one.position), "passed": placed(one.passed)}
            for one in stopped
        }
        return self._state_changes(client_id, values | dict.fromkeys(lifted))

    def also(
        self, client_id: int, stopped: Collection[StoppedTable], acked: EntryPosition | None = None
    ) -> dict[str, Change]:
        """What writes these stops, where tables may be stopped already; `acked` as in `of`."""
        before = {one.table: one for one in self.of(client_id, acked)} if stopped else {}
        return self.changes(client_id, [one.besides(before.get(one.table)) for one in stopped])

    def resume(self, client_id: int, table: str) -> None:
        """Without a stop it only checks whether the caller may write."""
        self._nodes.write(self._state_changes(client_id, {table: None}))
