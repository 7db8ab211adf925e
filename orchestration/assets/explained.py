"""What a materialization says of its rows: the first changes, before and after, and the command that shows the rest.

The rows are read from the lake when the materialization is written, so they are masked as the lake's are. That costs a
look at a table's last commits, so a run does it for few tables, and for few rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from cdc_core.contract.claim import Claim
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.changed import changed_rows, shortened
from spark_jobs.past.images import past_images
from spark_jobs.past.noted import Span

_TABLES = 20  # of a run that show rows
_MOST_ROWS, _MOST_BYTES = 1_000, 1 << 20  # of a materialization that shows rows, and of the files that are read for it
_ROWS, _VALUE, _TEXT = 3, 20, 400  # rows that are shown, characters of a value and of all


@dataclass(slots=True)
class Budget:
    """How many tables of a run may still show rows."""

    left: int = _TABLES

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of the changes of `table` in the batches `first` to `last`, with so many `rows` at the source."""

    tables: ClientTables
    table: str
    span: Span
    first: int
    last: int
    rows: int
    budget: Budget = field(repr=False)

    @classmethod
    def of(cls, claim: Claim, tables: ClientTables, table: str, rows: int, budget: Budget) -> Explanation:
        span = Span(claim.epoch, claim.start, claim.end)
        return cls(tables, table, span, claim.batch_id, claim.batch_id, rows, budget)

    def with_later(self, later: Explanation) -> Explanation:
        """Returns the explanation of both; of an epoch's beginning on, only the later one."""
        if self.span.epoch != later.span.epoch:
            return later
        span = replace(self.span, end=later.span.end)
        return replace(self, span=span, last=later.last, rows=self.rows + later.rows)

    def text(self) -> str:
        """Returns it in some hundred characters. Raises nothing: the batch is done."""
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}..{self.last}"
        lines = [*self._changes(), f"sluice explain {self.tables.destination} {self.table} --batch {numbers}"]
        return "\n".join(lines)

    def _changes(self) -> Iterator[str]:
        if not 0 < self.rows <= _MOST_ROWS or not self.budget.take():
            return
        try:
            past = past_images(self.tables, self.table, self.span, _MOST_BYTES, _MOST_BYTES)
            rows = list(islice(changed_rows(past.read()), _ROWS + 1))
        except Exception:  # the batch is done: nothing that is shown of it may fail its run
            return
        words = [f"{row.kind} {row.key_text(past.key, _VALUE)}: {row.columns_text(past.key, _VALUE)}" for row in rows]
        if words:
            more = "\n..." if len(words) > _ROWS else ""
            yield shortened("\n".join(words[:_ROWS]), _TEXT) + more
