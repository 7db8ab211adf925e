"""A table that is stopped for a client: why, since when, and what makes it right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from cdc_core.position import EntryPosition

StopKind = Literal["stopped", "blocked"]
BLOCKED: StopKind = "blocked"
MOST_BLOCKED, MOST_TEXT = 100, 500  # tables of a client that are reported as blocked, and characters of each text

# reasons of stops that a copy of the table ends
CHANGES_PURGED = "the source no longer has all its changes"
FILTERED_OUT = "the filter left it out for a time: the lake misses its changes"
PAUSED = "paused: "  # how the reason of a table begins that the verb `pause` stopped


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A table that takes no more changes: why, what to do, and from which position on.

    Up to `passed`, changes of the table were acked that the lake does not have; None when there are none. A table that
    is reloaded from the source at that position or after it has them. `copy_needed`: the rows that the lake has are
    wrong, so that nothing else mends the table. `kind`: "blocked" if its rows break what is expected of them, so that a
    person may accept them.
    """

    table: str
    reason: str
    hint: str
    position: EntryPosition | None
    passed: EntryPosition | None = None
    copy_needed: bool = False
    kind: StopKind = "stopped"

    @property
    def is_blocked(self) -> bool:
        return self.kind == BLOCKED

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
            "kind": self.kind,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> StoppedTable:
        position, passed = (
            EntryPosition.from_dict(fields[name]) if fields.get(name) else None for name in ("position", "passed")
        )
        return cls(
            fields["table"],
            fields["reason"],
            fields["hint"],
            position,
            passed,
            fields.get("copy_needed", False),
            fields.get("kind", "stopped"),
        )


def blocked_tables(tables: Iterable[StoppedTable]) -> tuple[StoppedTable, ...]:
    """Returns what is kept of a report of tables whose change logs wait, as rows break what is expected of them: the
    first tables by name, with the beginnings of their texts."""
    first = sorted(tables, key=lambda one: one.table)[:MOST_BLOCKED]
    return tuple(
        StoppedTable(one.table, one.reason[:MOST_TEXT], one.hint[:MOST_TEXT], None, kind=BLOCKED) for one in first
    )
