"""Commits the small tables of a claim together, by one job of Spark.

Each table's own thread gets it ready and puts it here. The last thread evaluates what is expected of tables, before any
of these is written, and runs the job for all small ones. A table that the job does not commit is written by a statement
of its own, which raises its error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from cdc_core.contract.claim import TableRange
from spark_jobs.apply.expected import evaluate, is_evaluated
from spark_jobs.apply.result import Refusal, TableResult
from spark_jobs.apply.table import Batch, ReadyShare, begin, finish
from spark_jobs.write.fused import write_all
from spark_jobs.write.order import FUSED, MOST_ROWS, Engine, Order

log = structlog.get_logger(__name__)


class Together:
    """The tables of one batch that are small, or that are evaluated. Safe for their threads."""

    def __init__(self, batch: Batch, tables: Sequence[TableRange]) -> None:
        self._batch = batch
        self._lock = threading.Lock()
        self._awaited = sum(map(self.takes, tables))
        self._ready: dict[str, ReadyShare] = {}
        self._done: dict[str, TableResult | Refusal] = {}

    @property
    def done(self) -> dict[str, TableResult | Refusal]:
        """The tables that were committed, or that stay as they were; complete when all threads are done."""
        return self._done

    @property
    def left(self) -> dict[str, ReadyShare]:
        """The tables that are to be written by their own statements, likewise."""
        return {name: share for name, share in self._ready.items() if name not in self._done}

    def takes(self, table: TableRange) -> bool:
        """Whether the table waits for others: it may be small enough for the job, or is evaluated."""
        return self._is_small(table) or is_evaluated(self._batch, table.name)

    def _is_small(self, table: TableRange) -> bool:
        return self._batch.engine is Engine.AUTO and table.rows <= MOST_ROWS

    @contextmanager
    def part(self, table: TableRange) -> Iterator[None]:
        """Counts the table's thread, which gets it ready in the block. The last thread goes on with all of them."""
        try:
            yield
        finally:
            if self.takes(table):
                self._arrived()

    def begin(self, table: TableRange) -> TableResult | None:
        """Gets the table ready. Returns its result if there is nothing to write. Raises what `apply_table` raises."""
        begun = begin(self._batch, table)
        if isinstance(begun, TableResult):
            return begun
        with self._lock:
            self._ready[table.name] = begun
        return None

    def _arrived(self) -> None:
        with self._lock:
            self._awaited -= 1
            last = not self._awaited
        if last and self._ready:
            self._evaluate()
            self._write()

    def _evaluate(self) -> None:
        evaluated = {name: share for name, share in self._ready.items() if is_evaluated(self._batch, name)}
        for name, found in evaluate(self._batch, evaluated).items() if evaluated else ():
            if isinstance(found, Refusal):
                self._done[name] = found.with_remedy(self._batch.claim.destination)
            else:
                self._ready[name] = found

    def _write(self) -> None:
        """Writes the small tables by one job."""
        orders: dict[str, Order] = {}
        for name, begun in self.left.items():
            if begun.ready.changes.rows and self._is_small(begun.table):
                order = begun.ready.order(self._batch.lake, self._batch.fence.token)
                orders |= {name: order} if order is not None else {}
        if not orders:
            return
        outcomes = write_all(self._batch.sessions, list(orders.values()), self._batch.max_splits)
        for name, outcome in zip(orders, outcomes, strict=True):
            if outcome.why:
                log.info("the table is written by a separate statement", table=name, why=outcome.why)
                continue
            self._done[name] = finish(self._batch, self._ready[name], outcome, FUSED)
