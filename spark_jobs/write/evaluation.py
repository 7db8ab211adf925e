"""`Evaluator`: evaluates the expectations of a batch's tables when they are ready, before any of them is written.

It reads the net rows of the tables that have expectations once, in the process of the run. Rows that go to the
quarantine are left out of the table's changes by their keys, whatever engine writes these; they are committed to the
quarantine before the table is written. If the run dies in between, the next try evaluates the rows again: what a batch
makes of a quarantine follows from the batch's last rows alone. The results are in the note of the table's commit, so a
later try knows them too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from cdc_core.errors import DecodeError, SchemaError, TableStopped, safe_name
from cdc_core.schema.names import split_name
from spark_jobs.changes.arrow_rows import Unreadable, all_images, net_rows
from spark_jobs.changes.table_changes import Changes
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.expectations.expectation import (
    OF_BATCH,
    Expectation,
    Expectations,
    Freshness,
    Severity,
    Sql,
    Volume,
    misfit,
    named,
)
from spark_jobs.expectations.lookups import LookedUp, look_up
from spark_jobs.expectations.quarantine import SYSTEM, BatchEnd, after_batch, bad_rows, by_check
from spark_jobs.expectations.quarantine_table import OpenedQuarantine, QuarantineTable
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.expectations.row_judge import RowJudge
from spark_jobs.expectations.values import plain_type
from spark_jobs.lake.blocking import TableBlocked
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.write.expected_sql import SqlChecks
from spark_jobs.write.ready import ReadyTable


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What a batch says of a table: the rows that it changes, the seconds since the oldest of them was committed, None
    if that is unknown, and the rows of the table's last batches."""

    rows: int = 0
    age: float | None = None
    history: Callable[[], Sequence[int]] = lambda: ()


@dataclass(frozen=True, slots=True)
class EvaluatedTable:
    """A table that is ready for a batch. `images` returns its changes with all their images, if they have not all.
    `number`: of the batch; None for a part of a log."""

    ready: ReadyTable
    images: Callable[[], Changes] | None = None
    number: int | None = None
    facts: BatchFacts = BatchFacts()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The `results` of a table's expectations: it is `ready` without the rows that wait, or `stop` says why it takes
    nothing. `held`: rows waited in its quarantine before the batch, or do after it."""

    results: tuple[ExpectationResult, ...]
    ready: ReadyTable | None = None
    stop: TableStopped | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """A table at work: its judge, and its quarantine as it was read, None without one. `unread`: why its rows could not
    be read, "" if they were; `stop`: why it cannot have a quarantine."""

    table: EvaluatedTable
    judge: RowJudge
    quarantine: OpenedQuarantine | None
    unread: str = ""
    stop: TableStopped | None = None

    @property
    def state(self) -> TableState:
        return self.table.ready.prepared.state


@dataclass(frozen=True, slots=True)
class Evaluator:
    """For one run over the tables of a destination, whose `fence` keeps the commits of earlier ones out. `unavailable`
    returns why the rows of `database.table` cannot be referenced in this batch, or ""."""

    lake: Lake
    sessions: Sessions
    fence: Fence
    destination: str
    expectations: Expectations
    acceptances: Acceptances
    unavailable: Callable[[str], str] = lambda _: ""
    parallelism: int = 4

    def evaluate(self, tables: Sequence[EvaluatedTable]) -> dict[str, Evaluation]:
        """Evaluates the tables, by name, and commits what goes to quarantines. Tables that they reference are among
        them if the batch changes these. Raises LakeError for trouble of all tables."""
        with ThreadPoolExecutor(max(1, self.parallelism), thread_name_prefix="expect") as pool:
            works = {work.table.ready.name: work for work in pool.map(self._read, tables)}
            judges = {name: work.judge for name, work in works.items()}
            look_up(judges, lambda name: self._opened(name, works), lambda name: self._blocked(works.get(name)))
            return dict(zip(works, pool.map(self._ended, works.values()), strict=True))

    def _read(self, table: EvaluatedTable) -> _Work:
        """Reads the table's net rows once, and evaluates what they show by themselves."""
        ready, changes = table.ready, table.ready.changes
        fields, misfits = pa.schema(_own_fields(changes)), dict[Expectation, str]()
        listed = named(self.expectations.of(ready.name), fields, whole=self.expectations.names(ready.name))
        misfits = {one: why for one in listed if (why := misfit(one, fields, changes.key))}
        fit = tuple(one for one in listed if one not in misfits)
        try:
            opened = self._quarantine(table, any(one.severity is Severity.QUARANTINE for one in fit))
        except TableStopped as error:
            return _Work(table, RowJudge(fit, changes.key, self.expectations.most_quarantined), None, stop=error)
        waiting = opened.rows.select(list(changes.key)) if opened and not opened.is_empty else None
        keeps = ready.name in self.expectations.referenced
        judge = RowJudge(fit, changes.key, self.expectations.most_quarantined, waiting, keeps=keeps)
        judge.results |= {one.name: ExpectationResult(one.name, one.severity, why=why) for one, why in misfits.items()}
        rowwise, unread = [one for one in fit if not isinstance(one.test, OF_BATCH)], ""
        if changes.rows and (rowwise or waiting is not None or judge.keeps):
            try:
                for rows in net_rows(changes, judge.columns):
                    judge.add(rows)
                judge.end_of_rows()
            except (Unreadable, DecodeError, SchemaError, TableStopped) as error:
                unread = str(error)
                for one in rowwise:
                    judge.give_up(one, unread)
        for one in fit:
            _evaluate_batch(one, judge, table.facts)
        return _Work(table, judge, opened, unread)

    def _quarantine(self, table: EvaluatedTable, wanted: bool) -> OpenedQuarantine | None:
        """Returns the table's quarantine, which only this run changes from now on, or None if it needs none."""
        ready, found = table.ready, QuarantineTable(self.lake, self.destination, table.ready.name)
        if not ready.changes.key or not (wanted or found.exists):
            return None
        found.entered(self.fence, pa.schema(_own_fields(ready.changes)))
        return found.read(ready.prepared.state, ready.changes.range.epoch, ready.app)

    def _opened(self, name: str, works: Mapping[str, _Work]) -> LookedUp:
        if why := self.unavailable(name):
            raise ValueError(f"{name} {why}")
        work, path = works.get(name), self.lake.path(*split_name(name))
        if work and work.unread:
            raise ValueError(f"the rows of {name} cannot be read: {work.unread}")
        state = work.state if work else self.lake.state(path, "")
        if state is None or state.dropped:
            raise ValueError(f"the lake has no table {name}")
        return LookedUp(state.primary_key, self.lake.open(path))

    def _blocked(self, work: _Work | None) -> bool:
        return work is not None and (work.stop is not None or (work.judge.blocks and not self._accepted(work)))

    def _accepted(self, work: _Work) -> str:
        """Returns the reason for which a person let the block of this batch pass, or ""."""
        return self.acceptances.reason(work.table.ready.name, work.table.ready.changes.range, work.judge.blocking)

    def _ended(self, work: _Work) -> Evaluation:
        """Returns the end of the evaluation: what needs Spark is evaluated, and the quarantine is committed."""
        judge, ready = work.judge, work.table.ready
        if work.stop is not None:
            return Evaluation((), stop=work.stop)
        if not judge.blocks:
            self._evaluate_sql(work)
        results = tuple(judge.results.values())
        if judge.blocks:
            reason = self._accepted(work)
            if not reason:
                self.acceptances.blocked(ready.name, ready.changes.range, judge.blocking)
                return Evaluation(results, stop=self._stop(ready.name, judge))
            results = tuple(replace(one, accepted=reason) if one in judge.blocking else one for one in results)
        try:
            before, after = self._quarantined(work)
        except (Unreadable, DecodeError, SchemaError, TableStopped) as error:
            message = f"rows that fail cannot be put into its quarantine: {error}"
            return Evaluation(results, stop=TableStopped(message, place=ready.name, hint="Use warn or block for it."))
        held = bool(before or after)
        results = tuple(replace(one, waiting=after[one.name]) for one in results)
        keys = judge.failed
        changes = ready.changes if keys is None else ready.changes.without(keys.select(list(judge.key)))
        note = _noted(ready.note, results, 0 if keys is None else keys.num_rows, held=held)
        return Evaluation(results, replace(ready, changes=changes, note=note), held=held)

    def _evaluate_sql(self, work: _Work) -> None:
        judge = work.judge
        asked = [one for one in judge.expectations if isinstance(one.test, Sql) and not judge.results[one.name].why]
        if asked and work.table.ready.changes.rows:
            SqlChecks(self.sessions, self.lake, self.destination, work.table.ready, work.judge).evaluate(asked)

    def _quarantined(self, work: _Work) -> tuple[Counter[str], Counter[str]]:
        """Commits what the batch makes of the table's quarantine. Returns how many rows waited before it and wait after
        it, by the checks that they failed."""
        opened, failed, ready = work.quarantine, work.judge.failed, work.table.ready
        if opened is None:
            return Counter(), Counter()
        before, ended = by_check(opened.rows), work.judge.ended
        if failed is None and (ended is None or not ended.num_rows) and not opened.is_stale:
            return before, before
        fields, end = _own_fields(ready.changes), BatchEnd(work.table.number, ready.changes.range.epoch, ready.version)
        bad = pa.schema([*fields, *SYSTEM]).empty_table()
        if failed is not None:
            names = [field.name for field in fields]
            images = work.table.images() if work.table.images else ready.changes
            bad = bad_rows(all_images(images, names), failed, names, ready.changes.key, end)
        rows = after_batch(opened.rows, ended, bad, ready.changes.key)
        if opened.is_stale or not rows.equals(opened.rows):
            place = QuarantineTable(self.lake, self.destination, ready.name)
            place.commit(opened, rows, self.fence.token, end, ready.app)
        return before, by_check(rows)

    def _stop(self, table: str, judge: RowJudge) -> TableBlocked:
        """Returns why the table stops, with some of the keys, and what to do."""
        said = [f"{one.name} cannot be evaluated: {one.why}" for one in judge.blocking if one.why]
        said += [f"{one.bad} rows fail {one.name}{_examples(one)}" for one in judge.blocking if not one.why]
        if judge.overflows:
            said.append(f"more than {judge.most:,} rows would wait, too many for its quarantine")
        name = self.destination
        first = "Mend what it cannot be evaluated for. " if any(one.why for one in judge.blocking) else ""
        hint = (
            f"{first}Correct the rows at the source, or its expectations in defs.yaml, then `sluice resume "
            f"{name} {table}`. To take the batch as it is: `sluice accept {name} {table} --reason ...`, or in Dagster "
            f"the job accept_{safe_name(name)}."
        )
        return TableBlocked("; ".join(said), place=table, hint=hint)


def _evaluate_batch(one: Expectation, judge: RowJudge, facts: BatchFacts) -> None:
    test, found = one.test, judge.results[one.name]
    if isinstance(test, Volume):
        bad = "" if facts.rows == 0 else _unusual(test, facts)
        judge.results[one.name] = replace(found, rows=facts.rows, bad=int(bool(bad)), keys=(bad,) if bad else ())
    elif isinstance(test, Freshness):
        late = facts.age is not None and facts.age > test.seconds
        said = (f"the oldest row is {facts.age:.0f} s old",) if late else ()
        judge.results[one.name] = replace(found, rows=facts.rows, bad=int(late), keys=said)


def _unusual(test: Volume, facts: BatchFacts) -> str:
    """Returns how the rows of a batch are too few or too many, or ""."""
    if test.least is not None and facts.rows < test.least:
        return f"{facts.rows} rows"
    if test.most is not None and facts.rows > test.most:
        return f"{facts.rows} rows"
    if test.times is not None and (last := sorted(facts.history())):
        usual = last[len(last) // 2]
        if facts.rows > test.times * usual:
            return f"{facts.rows} rows, and {usual} are usual"
    return ""


def _own_fields(changes: Changes) -> list[pa.Field]:
    """Returns the table's own columns as its changes have them, with plain types."""
    names = {column.name for column in changes.columns}
    return [pa.field(one.name, plain_type(one.type)) for one in changes.schema if one.name in names]


def _noted(note: str, results: Sequence[ExpectationResult], left_out: int, *, held: bool) -> str:
    """Returns a commit's note with the results, and with its counts of the rows that are not left out; as JSON without
    a `$`, which Spark would replace."""
    facts = json.loads(note)
    for name in ("net_rows", "upserts") if "counts" in facts else ():
        facts["counts"][name] -= left_out
    facts |= {"expected": {one.name: one.to_dict() for one in results}} | ({"held": True} if held else {})
    return json.dumps(facts).replace("$", "\\u0024")


def _examples(found: ExpectationResult) -> str:
    return f" ({'; '.join(found.keys[:3])})" if found.keys else ""
