"""Loads several tables: the small ones many at a time, then the others one after the other; and reports progress."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from cdc_core.errors import SessionError, SluiceError
from cdc_core.schema.names import split_name
from cdc_core.schema.table import TableSchema
from spark_jobs.load import registration
from spark_jobs.load.catalogue import Catalogue
from spark_jobs.load.reader import Read
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.load.small import Found, LeftAlone, SmallTables
from spark_jobs.load.small_reader import Tally

_REPORT_SECONDS = 2.0  # between two reports of progress
_ROWS_A_TABLE = 20_000  # rows that take as long as an empty table does

Outcome = Callable[[], Copied | NoSuchTable]
"""Returns or raises a table's outcome."""
Alone = Callable[[str, Callable[[Read], None]], Copied | NoSuchTable]
"""Loads one table, and reports its progress."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """The progress of several tables. `of_rows` is the server's estimate of all their rows; `read`: the progress of the
    table that is read alone, None while small ones are read."""

    tables: int
    of_tables: int
    rows: int
    of_rows: int
    read: Read | None = None

    def left(self, seconds: float) -> float | None:
        """Returns the estimated seconds left, after so many; None while nothing is done. A table counts as some rows of
        its own, because an empty table takes time too."""
        done = self.rows + self.tables * _ROWS_A_TABLE
        rest = max(0, self.of_rows - self.rows) + (self.of_tables - self.tables) * _ROWS_A_TABLE
        return seconds * rest / done if done else None


@dataclass(frozen=True, slots=True)
class Loading:
    """A table, and its outcome. `seconds`: its time while others were loaded too; None for a table that calling the
    outcome loads."""

    name: str
    outcome: Outcome
    seconds: float | None = None


@dataclass(slots=True)
class Several:
    """The load of several tables. `alone` and `small` load them, `report` is called with the progress of all. Without
    `small` no table counts as small."""

    names: Sequence[str]
    known: Catalogue
    alone: Alone
    small: SmallTables | None
    report: Callable[[SoFar], None]
    sleep: Callable[[float], None]
    clock: Callable[[], float] = time.monotonic
    _tally: Tally = field(default_factory=Tally)
    _tables: int = 0
    _rows: int = 0
    _last: float = 0.0

    def each(self) -> Iterator[Loading]:
        """Yields each table as soon as its outcome is known. A table that is not small is loaded by calling its
        outcome."""
        begun = self.clock()
        schemas = {name: self.known.small.get(split_name(name)) for name in self.names}
        small = {name: schema for name, schema in schemas.items() if schema is not None}
        others = [name for name in self.names if name not in small]
        refused: list[str] = []
        for again in (False, True):
            for name, found in self._together([small[name] for name in (refused if again else small)]):
                if isinstance(found, LeftAlone):
                    (others if again or not found.read_by_other else refused).append(name)
                    continue
                self._done(found.rows if isinstance(found, Copied) else 0)
                yield Loading(name, partial(_given, found), self.clock() - begun)
            if not refused:
                break
            if not again:  # a run that was killed keeps its tables for that long
                self.sleep(registration.LEASE_SECONDS)
        for name in others:
            yield Loading(name, partial(self._by_itself, name))

    def _by_itself(self, name: str) -> Copied | NoSuchTable:
        self._report(None)
        found = self.alone(name, self._report)
        self._done(found.rows if isinstance(found, Copied) else 0)
        return found

    def _together(self, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, Found]]:
        """Yields the outcome of small tables, which another thread loads meanwhile. The tables that it did not load are
        left alone: loading each by itself shows why."""
        if not schemas or self.small is None:
            return
        left = {schema.name for schema in schemas}
        with _loading(self.small, schemas, self._tally) as found:
            while (one := self._next(found)) is not None:
                name, outcome = one
                left.discard(name)
                yield name, outcome
        yield from ((name, LeftAlone()) for name in left)

    def _next(self, found: queue.SimpleQueue[tuple[str, Found] | None]) -> tuple[str, Found] | None:
        while True:
            if self.clock() - self._last >= _REPORT_SECONDS:
                self._report(None)
            try:
                return found.get(timeout=_REPORT_SECONDS)
            except queue.Empty:
                continue

    def _done(self, rows: int) -> None:
        self._tables, self._rows = self._tables + 1, self._rows + rows
        self._tally.rows = max(self._tally.rows, self._rows)

    def _report(self, read: Read | None) -> None:
        self._last = self.clock()
        rows = self._rows + read.rows if read else self._tally.rows
        self.report(SoFar(self._tables, len(self.names), rows, sum(self.known.rows.values()), read))


def _given(found: Copied | SessionError) -> Copied:
    if isinstance(found, SessionError):
        raise found
    return found


@contextmanager
def _loading(
    small: SmallTables, schemas: Sequence[TableSchema], tally: Tally
) -> Iterator[queue.SimpleQueue[tuple[str, Found] | None]]:
    """Yields a queue of the tables' outcomes, with None after the last."""
    found: queue.SimpleQueue[tuple[str, Found] | None] = queue.SimpleQueue()
    over = threading.Event()
    tables = replace(small, tally=tally, found=lambda name, one: found.put((name, one)), over=over.is_set)

    def load() -> None:
        try:
            tables.load(schemas)
        except SluiceError:
            pass  # each table that is left raises it again
        finally:
            found.put(None)

    thread = threading.Thread(target=load, name="small tables", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
