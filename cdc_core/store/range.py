"""A range: a part of the log that a client may claim as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.store.mark import Mark


@dataclass(frozen=True, slots=True)
class Range:
    """From `start` to `end`; `committed` is the last transaction end in it. A partial one ends inside a transaction.
    Its DDL statements may be followed before all of its rows: none is after rows that it may concern."""

    start: Mark
    end: Mark
    committed: Mark | None

    @property
    def rows(self) -> int:
        return self.end.rows - self.start.rows

    @property
    def statements(self) -> int:
        return self.end.statements - self.start.statements

    @property
    def empty(self) -> bool:
        """Whether there is nothing to claim: neither rows nor DDL statements."""
        return not (self.rows or self.statements)

    @property
    def events(self) -> int:
        return self.end.sequence - self.start.sequence

    @property
    def nbytes(self) -> int:
        return self.end.nbytes - self.start.nbytes

    @property
    def partial(self) -> bool:
        return self.committed != self.end
