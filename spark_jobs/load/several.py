"""Several tables: the small ones many at a time, then the others one after the other; and how far all of them are."""

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

_TOLD_SECONDS = 2.0  # between two words of how far all are
_ROWS_A_TABLE = 20_000  # what takes as long as a table itself does

Outcome = Callable[[], Copied | NoSuchTable]
"""Returns or raises what became of a table."""
Alone = Callable[[str, Callable[[Read], None]], Copied | NoSuchTable]
"""Loads one table, which says how far it is."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """How far several tables are. `of_rows` is the server's estimate of all their rows; `read`: of the table that is
    read by itself, None while small ones are read."""

    tables: int
    of_tables: int
    rows: int
    of_rows: int
    read: Read | None = None

    def left(self, seconds: float) -> float | None:
        """About how many seconds more it takes, after so many; None while nothing is done. A table counts as some rows
        of its own, because an empty one takes its time too."""
        done = self.rows + self.tables * _ROWS_A_TABLE
        rest = max(0, self.of_rows - self.rows) + (self.of_tables - self.tables) * _ROWS_A_TABLE
        return seconds * rest / done if done else None


@dataclass(frozen=True, slots=True)
class Loading:
    """A table, and its outcome. `seconds`: how long it took beside others; None for one that is loaded when the outcome
    is called."""

    name: str
    outcome: Outcome
    seconds: float | None = None


@dataclass(slots=True)
class Several:
    """Tables by their names. `alone` and `small` load them, `told` hears how far all are. Without `small` none is known
    to be."""

    names: Sequence[str]
    known: Catalogue
    alone: Alone
    small: SmallTables | None
    told: Callable[[SoFar], None]
    sleep: Callable[[float], None]
    clock: Callable[[], float] = time.monotonic
    _tally: Tally = field(default_factory=Tally)
    _tables: int = 0
    _rows: int = 0
    _last: float = 0.0

    def each(self) -> Iterator[Loading]:
        """Each table as soon as it is known what became of it. Calling that is what loads one that is not small."""
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
        self._tell(None)
        found = self.alone(name, self._tell)
        self._done(found.rows if isinstance(found, Copied) else 0)
        return found

    def _together(self, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, Found]]:
        """What becomes of small tables, which another thread loads meanwhile. Those that it did not come to are left:
        whoever loads them alone says why."""
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
            if self.clock() - self._last >= _TOLD_SECONDS:
                self._tell(None)
            try:
                return found.get(timeout=_TOLD_SECONDS)
            except queue.Empty:
                continue

    def _done(self, rows: int) -> None:
        self._tables, self._rows = self._tables + 1, self._rows + rows
        self._tally.rows = max(self._tally.rows, self._rows)

    def _tell(self, read: Read | None) -> None:
        self._last = self.clock()
        rows = self._rows + read.rows if read else self._tally.rows
        self.told(SoFar(self._tables, len(self.names), rows, sum(self.known.rows.values()), read))


def _given(found: Copied | SessionError) -> Copied:
    if isinstance(found, SessionError):
        raise found
    return found


@contextmanager
def _loading(
    small: SmallTables, schemas: Sequence[TableSchema], tally: Tally
) -> Iterator[queue.SimpleQueue[tuple[str, Found] | None]]:
    """What is found of the tables, None behind the last."""
    found: queue.SimpleQueue[tuple[str, Found] | None] = queue.SimpleQueue()
    over = threading.Event()
    told = replace(small, tally=tally, found=lambda name, one: found.put((name, one)), over=over.is_set)

    def load() -> None:
        try:
            told.load(schemas)
        except SluiceError:
            pass  # it comes again for each table that is left
        finally:
            found.put(None)

    thread = threading.Thread(target=load, name="small tables", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
