"""`RowJudge`: evaluates the expectations of one table over its net rows, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.changes.keys import is_among, key_texts, without_keys
from spark_jobs.changes.net import GONE
from spark_jobs.expectations.expectation import OF_COLUMN, Expectation, References, Severity, Unique
from spark_jobs.expectations.results import KEYS, ExpectationResult

CHECK, REASON = "_sluice_check", "_sluice_reason"


@dataclass
class RowJudge:
    """The results so far of the expectations of a table with this `key`, empty for none. At most `most` keys wait in
    the quarantine; if there were more, it `overflows`. `waiting`: the keys that are in the quarantine already.
    `keeps`: the keys of all rows are kept, for other tables that reference them. The mutable state is the rest."""

    expectations: Sequence[Expectation]
    key: tuple[str, ...]
    most: int
    waiting: pa.Table | None = None
    keeps: bool = False
    results: dict[str, ExpectationResult] = field(default_factory=dict)
    overflows: bool = False
    _failed: list[pa.Table] = field(default_factory=list)
    _kept: list[pa.Table] = field(default_factory=list)
    _gone: list[pa.Table] = field(default_factory=list)
    _met: list[np.ndarray] = field(default_factory=list)
    _ended: bool = False

    def __post_init__(self) -> None:
        self.results = {one.name: ExpectationResult(one.name, one.severity) for one in self.expectations}

    @property
    def columns(self) -> tuple[str, ...]:
        """Returns the columns that the rows must have besides the key."""
        return tuple(dict.fromkeys(name for one in self.expectations for name in one.columns))

    @property
    def looked_up(self) -> tuple[Expectation, ...]:
        """Returns the expectations that need rows of tables."""
        return tuple(one for one in self.expectations if isinstance(one.test, Unique | References))

    @property
    def blocks(self) -> bool:
        """Whether the table must take nothing of the batch, by the results so far."""
        return bool(self.blocking)

    @property
    def blocking(self) -> tuple[ExpectationResult, ...]:
        """Returns the results for which the table must take nothing: those that stop it, and those whose rows are too
        many for the quarantine."""
        return tuple(
            one
            for one in self.results.values()
            if one.stops or (self.overflows and one.severity is Severity.QUARANTINE and one.bad)
        )

    def add(self, rows: pa.Table) -> None:
        """Evaluates net rows, of which those that are `GONE` only end what waits."""
        if self.waiting is not None:
            self._met.append(is_among(self.waiting, rows.select(list(self.key))))
        gone = rows.column(GONE)
        if self._keeps_keys:
            self._gone.append(rows.select(list(self.key)).filter(gone))
        self._judge(rows.filter(pc.invert(gone)))

    def _judge(self, rows: pa.Table) -> None:
        for one in self.expectations:
            self.results[one.name] = replace(self.results[one.name], rows=self.results[one.name].rows + rows.num_rows)
            if isinstance(one.test, OF_COLUMN):
                self.fail(one, rows, one.test.failing(rows.column(one.columns[0])).to_numpy())
        if self._keeps_keys:
            wanted = (name for one in self.looked_up for name in one.columns)
            self._kept.append(rows.select(list(dict.fromkeys((*self.key, *wanted)))))

    def fail(self, one: Expectation, rows: pa.Table, failing: np.ndarray) -> int:
        """Adds that these of the rows fail the expectation. Returns how many. Only rows that may go to the quarantine
        need their key."""
        bad = int(np.count_nonzero(failing))
        if not bad:
            return 0
        key = self.key if set(self.key) <= set(rows.column_names) else ()
        keys = rows.select(list(key)).filter(pa.array(failing))
        found = self.results[one.name]
        examples = found.keys + tuple(key_texts(keys.slice(0, KEYS), key)) if key else ()
        self.results[one.name] = replace(found, bad=found.bad + bad, keys=examples[:KEYS])
        if one.severity is Severity.QUARANTINE and not self.overflows:
            for name, text in ((CHECK, one.name), (REASON, one.reason)):
                keys = keys.append_column(name, pa.array([text] * bad, pa.string()))
            self._failed.append(keys)
            self._count()
        return bad

    def end_of_rows(self) -> None:
        """Says that all rows of the batch were added: from now on it is known which of the waiting rows still wait."""
        self._ended = True
        self._count()

    def _count(self) -> None:
        self.overflows = self.overflows or (self._most_waiting > self.most and self._waiting_after > self.most)

    def forget(self, one: Expectation) -> None:
        """Forgets the rows that failed an expectation which is evaluated again. Those that wait stay."""
        if one.severity is not Severity.QUARANTINE:
            self.results[one.name] = replace(self.results[one.name], bad=0, keys=())

    def give_up(self, one: Expectation, why: str) -> None:
        """Adds that the expectation cannot be evaluated."""
        self.results[one.name] = replace(self.results[one.name], why=why)

    @property
    def there(self) -> pa.Table | None:
        """Returns what is kept of the rows that the table gets, without those that wait; None for no row."""
        return _without(pa.concat_tables(self._kept), self.failed, self.key) if self._kept else None

    @property
    def gone(self) -> pa.Table | None:
        """Returns the keys that have no row after the batch, if they are kept."""
        return pa.concat_tables(self._gone) if self._gone else None

    @property
    def ended(self) -> pa.Table | None:
        """Returns the keys that waited and that the batch changed."""
        if self.waiting is None or not self._met:
            return None
        return self.waiting.filter(pa.array(np.logical_or.reduce(self._met)))

    @property
    def failed(self) -> pa.Table | None:
        """Returns the keys that go to the quarantine, each once, with the checks that they failed and why; None for no
        key, and if there are too many."""
        if not self._failed or self.overflows:
            return None
        every = pa.concat_tables(self._failed)
        grouped = every.group_by(list(self.key), use_threads=False).aggregate([(CHECK, "list"), (REASON, "list")])
        columns = {name: grouped.column(name) for name in self.key}
        for name, between in ((CHECK, ", "), (REASON, "; ")):
            listed = grouped.column(f"{name}_list").to_pylist()
            columns[name] = pa.array([between.join(dict.fromkeys(one)) for one in listed], pa.string())
        return pa.table(columns)

    @property
    def _most_waiting(self) -> int:
        """Returns a bound for the rows that surely wait after what was evaluated so far, at little cost."""
        there = [self.waiting] if self.waiting is not None and self._ended else []
        return sum(int(one.num_rows) for one in (*there, *self._failed))

    @property
    def _waiting_after(self) -> int:
        """Returns how many rows surely wait after what was evaluated so far."""
        failed = self.failed
        if failed is None:
            return 0
        parts = [failed]
        if self.waiting is not None and self._ended:
            parts.append(without_keys(_without(self.waiting, failed, self.key), self.ended))
        return sum(int(one.num_rows) for one in parts)

    @property
    def _keeps_keys(self) -> bool:
        return bool(self.key) and (self.keeps or bool(self.looked_up))


def _without(rows: pa.Table, failed: pa.Table | None, key: Sequence[str]) -> pa.Table:
    return rows if failed is None else without_keys(rows, failed.select(list(key)))
