"""Commits the small tables of a claim together, by one job of Spark.

Each table's own thread gets it ready and puts it here; the last thread runs the job for all. A table that the job does
not commit is written by a statement of its own, which raises its error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from cdc_core.contract.claim import TableRange
from spark_jobs.apply.result import TableResult
from spark_jobs.apply.table import FUSED, Batch, ReadyTable, begin, counted_commit, finish
from spark_jobs.write.fused import write_all
from spark_jobs.write.order import MOST_ROWS, Claimed, Engine, Order, form_of

log = structlog.get_logger(__name__)


class Together:
    """The small tables of one batch. Safe for its tables' threads."""

    def __init__(self, batch: Batch, tables: Sequence[TableRange]) -> None:
        self._batch = batch
        self._lock = threading.Lock()
        self._awaited = sum(map(self.takes, tables))
        self._ready: dict[str, tuple[ReadyTable, Order]] = {}
        self._done: dict[str, TableResult] = {}

    @property
    def done(self) -> dict[str, TableResult]:
        """The tables that were committed; complete when all threads are done."""
        return self._done

    def takes(self, table: TableRange) -> bool:
        """Whether the table may be small enough to try."""
        return self._batch.engine is Engine.AUTO and table.rows <= MOST_ROWS

    @contextmanager
    def part(self, table: TableRange) -> Iterator[None]:
        """Counts the table's thread, which gets it ready in the block. The last thread runs the job."""
        try:
            yield
        finally:
            if self.takes(table):
                self._arrived()

    def begin(self, table: TableRange) -> TableResult | ReadyTable:
        """Returns the table's result if there is nothing to write; else the table, ready for the job or for a statement
        of its own. Raises what `apply_table` raises."""
        begun = begin(self._batch, table)
        if isinstance(begun, TableResult):
            return begun
        if begun.read.tickets and (order := self._order(begun)) is not None:
            with self._lock:
                self._ready[table.name] = (begun, order)
        return begun

    def _arrived(self) -> None:
        with self._lock:
            self._awaited -= 1
            ready = dict(self._ready) if not self._awaited else {}
        if ready:
            self._write(ready)

    def _order(self, begun: ReadyTable) -> Order | None:
        batch, state = self._batch, begun.prepared.state
        form = form_of(begun.read, state)
        if form is None or begun.seen.rows > MOST_ROWS:
            return None
        there = {column.name for column in state.columns}
        columns = tuple(field.name for field in begun.read.schema if field.name in there)
        changes = Claimed(batch.door, begun.seen.tickets, images=bool(state.own))
        return Order(
            begun.path, begun.app, begun.decision.end, begun.metadata, batch.fence.token, form, columns,
            begun.read.table.primary_key, changes, state.own, batch.lake.storage,
        )  # fmt: skip

    def _write(self, ready: Mapping[str, tuple[ReadyTable, Order]]) -> None:
        orders = [order for _, order in ready.values()]
        outcomes = write_all(self._batch.sessions, orders, self._batch.max_splits)
        for (name, (begun, _)), outcome in zip(ready.items(), outcomes, strict=True):
            if outcome.why:
                log.info("the table is written by a statement of its own", table=name, why=outcome.why)
                continue
            self._done[name] = finish(self._batch, begun, counted_commit(self._batch, begun, outcome), FUSED)
