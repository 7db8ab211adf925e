"""The tables that are stopped for a client, kept beside its cursor until somebody resumes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_core.meta.nodes import Change, Nodes
from cdc_core.meta.table_states import TableStates, placed
from cdc_core.position import EntryPosition


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A table that takes no more changes: why, what to do, and from which position on.

    Up to `passed`, changes of the table were acked that the lake does not have; None when there are none. A table that
    is made anew from the source at that position or behind it has them. `copy_needed`: the rows that the lake has are
    wrong, so that nothing else mends the table.
    """

    table: str
    reason: str
    hint: str
    position: EntryPosition | None
    passed: EntryPosition | None = None
    copy_needed: bool = False

    def at(self, place: EntryPosition, *, moved: bool) -> StoppedTable:
        """The same after the client's cursor was set to `place`, which with `moved` is on another server: what comes
        again from there on has not passed."""
        if moved:
            return replace(self, position=place, passed=place)
        again = self.position is not None and place <= self.position and not self.copy_needed
        return replace(self, passed=None if again else place)

    def besides(self, before: StoppedTable | None) -> StoppedTable:
        """The same where the table was stopped `before`, for a reason that stays: with what either needs."""
        if before is None:
            return self
        passed = max((one for one in (self.passed, before.passed) if one), default=None)
        return replace(before, passed=passed, copy_needed=self.copy_needed or before.copy_needed)

    def over(self, before: StoppedTable | None) -> StoppedTable:
        """The same where the table was stopped `before`, for a reason that stays."""
        return self if before is None else replace(before, passed=self.passed, copy_needed=self.copy_needed)

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "reason": self.reason,
            "hint": self.hint,
            "position": self.position.to_dict() if self.position else None,
            "passed": self.passed.to_dict() if self.passed else None,
            "copy_needed": self.copy_needed,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> StoppedTable:
        position, passed = (
            EntryPosition.from_dict(fields[name]) if fields.get(name) else None for name in ("position", "passed")
        )
        return cls(
            fields["table"], fields["reason"], fields["hint"], position, passed, fields.get("copy_needed", False)
        )


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
