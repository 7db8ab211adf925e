"""The tables that are stopped for a client, kept beside its cursor until somebody resumes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from cdc_core.meta.client_nodes import ClientNodes
from cdc_core.meta.nodes import Change
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


class StoppedTables(ClientNodes):
    """The nodes `stopped/{table}` of each client."""

    def of(self, client_id: int, acked: EntryPosition | None = None) -> list[StoppedTable]:
        """`acked` is how far rows were acked: a node of an older version does not say whether some passed."""
        root = self._path(client_id, "stopped")
        found = []
        for name in self._nodes.children(root):
            path = f"{root}/{name}"
            fields = self._parsed(path, self._nodes.read(path), _fields, "a stopped table")
            if fields is not None:
                known = {"passed": acked.to_dict() if acked else None} | fields
                found.append(StoppedTable.from_dict(known))
        return found

    def stop(self, client_id: int, stopped: StoppedTable) -> None:
        self._nodes.write(self.changes(client_id, [stopped]))

    def changes(self, client_id: int, stopped: Iterable[StoppedTable], lifted: Iterable[str] = ()) -> dict[str, Change]:
        """What writes these stops and removes those of `lifted`, for a write of several nodes."""
        values: dict[str, bytes | None] = {
            f"stopped/{_name(one.table)}": json.dumps(one.to_dict()).encode() for one in stopped
        }
        return self._changes(client_id, values | {f"stopped/{_name(table)}": None for table in lifted})

    def resume(self, client_id: int, table: str) -> None:
        """Without a node it only checks whether the caller may write."""
        self._nodes.write(self._changes(client_id, {f"stopped/{_name(table)}": None}))


def _name(table: str) -> str:
    return quote(table, safe="")


def _fields(text: bytes) -> dict[str, Any]:
    """The node's fields. Raises what `StoppedTable.from_dict` raises for others."""
    fields = dict(json.loads(text))
    StoppedTable.from_dict(fields)
    return fields
