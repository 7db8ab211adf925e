"""Follows foreign keys' cascades in the lake: rows that InnoDB changes without an event in the binlog.

After a claim's tables are written, the rows that reference a key which left its parent are looked up at the source, by
their own key. A row that is gone there is deleted in the lake, or its foreign key becomes NULL; a row that exists gets
the source's foreign key and generated columns. If the source is ahead of the claim, later events of the same rows
change nothing. Repeating a cascade changes nothing either, so a claim may come again. The last table of a chain is
written first: the rows above it still lead to the work that a killed run left undone. If the lake does not show which
rows of a table in the middle a cascade deleted, more rows below it are looked up: `lost_keys.hidden`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pymysql
from pyspark.sql.connect.session import SparkSession

from cdc_core.contract.claim import Claim
from cdc_core.errors import SourceError, TableStopped
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.names import full_name, split_name
from spark_jobs.apply.cascade_sql import FIXED, GONE, corrections, merge, referencing, without
from spark_jobs.apply.commits import cascade_note
from spark_jobs.apply.in_snapshots import pass_on
from spark_jobs.apply.late_keys import released, renamed, why_released, written_since
from spark_jobs.apply.lost_keys import HIDDEN, MOST, Lost, create_keys, hidden, may_lose, needs_copy
from spark_jobs.apply.result import Cascaded, Refusal
from spark_jobs.apply.table import Batch
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ddl import with_own_columns
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.own_columns import living_now
from spark_jobs.lake.state import TableState, app_id, cascade_id
from spark_jobs.lake.transaction import transaction
from spark_jobs.snapshot.binlog import position
from spark_jobs.snapshot.foreign_keys import ForeignKey, affected, below, logs_cascades, read_foreign_keys
from spark_jobs.snapshot.source_rows import Unproven, touched
from spark_jobs.write.transaction import run_statement


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a claim's cascades. `refused`: tables that cannot follow. `unlogged`: tables with an open snapshot
    whose rows a foreign key changed in an unknown way. `looked_up`: tables whose rows were looked up at the source, and
    the version of its place then, None if that is not one of the claim's journals."""

    cascaded: tuple[Cascaded, ...] = ()
    refused: tuple[Refusal, ...] = ()
    unlogged: tuple[str, ...] = ()
    looked_up: Mapping[str, int | None] = field(default_factory=dict)


NOTHING = Done()


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of one foreign key's cascade on its child: the `rows` that it met, as they were, and the changed ones
    among them, `fixed` in the form of `merge`: with their `columns`, the key's first. `high`: the version up
    to which they may be, None if that is not known."""

    key: ForeignKey
    path: str
    app: str
    state: TableState
    rows: pa.Table
    fixed: pa.Table
    columns: tuple[str, ...]
    high: int | None = None

    @property
    def what(self) -> Cascaded:
        gone = sum(self.fixed.column(GONE).to_pylist())
        return Cascaded(full_name(*self.key.child), full_name(*self.key.parent), gone, self.fixed.num_rows - gone)


@dataclass(slots=True)
class _ClaimCascades:
    """The work of one claim's cascades so far, as in `Done`. `stopped` tables take nothing."""

    batch: Batch
    stopped: Collection[str]
    cascaded: list[Cascaded] = field(default_factory=list)
    refused: dict[str, Refusal] = field(default_factory=dict)
    unlogged: set[str] = field(default_factory=set)
    looked_up: dict[str, int | None] = field(default_factory=dict)

    def takes(self, table: str) -> bool:
        return table not in self.stopped and table not in self.refused

    def refuse(self, table: str, error: TableStopped) -> None:
        self.refused[table] = Refusal(table, error).with_remedy(self.batch.claim.destination)


class Cascades:
    """For one run. `connect` opens a connection to the source, when it is needed. `captured` names the captured tables,
    `rules` say what the lake sees of them.

    The mutable state is the connection and the source's foreign keys, which a DDL statement forgets."""

    def __init__(
        self,
        connect: Callable[[], pymysql.Connection[Any]],
        captured: Callable[[], Collection[tuple[str, str]]],
        zero_dates: ZeroDates = "fail",
        rules: Rules = NO_RULES,
    ) -> None:
        self._connect, self._captured, self._zero_dates, self._rules = connect, captured, zero_dates, rules
        self._connection: pymysql.Connection[Any] | None = None
        self._keys: tuple[ForeignKey, ...] | None = None
        self._since = 0  # when the claim's first change was made

    def __repr__(self) -> str:
        return f"<Cascades keys={None if self._keys is None else len(self._keys)}>"

    def __enter__(self) -> Cascades:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def tables(self, claim: Claim) -> frozenset[str]:
        """Returns the tables that cascade, and the tables whose rows a cascade changes. Raises SourceUnavailable."""
        self._begin(claim)
        return frozenset(full_name(*one) for key in self._foreign_keys() for one in (key.child, key.parent))

    def follow(self, batch: Batch, stopped: Collection[str]) -> Done:
        """Does the cascades of all parents in the claim, but for tables in `stopped`. A table is refused whose parent
        is not captured, or which lost a foreign key that a late run has not seen. Raises SourceUnavailable."""
        self._begin(batch.claim)
        work = _ClaimCascades(batch, stopped)
        self._refuse(work)
        first: list[tuple[ForeignKey, Lost]] = []
        for table in batch.claim.tables:
            if table.updates + table.deletes:
                keys = affected(self._foreign_keys(), (table.schema.database, table.schema.table))
                first += [(key, Lost(table)) for key in keys if may_lose(batch, key, Lost(table))]
        touched = renamed(batch.claim)
        first += [
            (key, Lost()) for key in (self._foreign_keys() if touched else ()) if {key.child, key.parent} & touched
        ]
        self._chain(work, first)
        return Done(tuple(work.cascaded), tuple(work.refused.values()), tuple(work.unlogged), work.looked_up)

    def _begin(self, claim: Claim) -> None:
        self._since = claim.start.timestamp or 0
        if claim.ddl:
            self._keys = None

    def _chain(self, work: _ClaimCascades, first: Sequence[tuple[ForeignKey, Lost]]) -> None:
        """Follows keys that left their parent into the tables that reference them, and on into the tables below."""
        batch, pending = work.batch, deque[tuple[ForeignKey, Lost | None]](first)
        pending.extend((key, HIDDEN) for key in below(self._foreign_keys(), [key for key, _ in first]))
        changes: list[Change] = []
        seen: dict[ForeignKey, set[tuple[Any, ...]]] = {}  # rows may reference each other in a circle
        while pending:
            key, lost = pending.popleft()
            name = full_name(*key.child)
            if not self._is_shown(key):
                work.unlogged.add(name)
                continue
            lost = hidden(batch, key, taken=work.takes(full_name(*key.parent))) if lost is HIDDEN else lost
            if lost is None:
                continue
            work.unlogged |= pass_on(batch, self._foreign_keys(), key, lost, taken=work.takes(name))
            if not work.takes(name):
                continue
            try:
                change = self._change(batch, key, lost, seen.setdefault(key, set()))
            except TableStopped as error:
                work.refuse(name, error)
                continue
            except SourceError:
                self._keys = None
                if key in self._foreign_keys():
                    raise
                continue  # its tables have other names by now: the claim with their renaming comes
            if change is not None:
                changes.append(change)
                work.looked_up[name] = change.high
                later = affected(self._foreign_keys(), key.child)
                pending.extend((one, Lost(rows=change.rows)) for one in later)
        self._write_all(work, changes)

    def _refuse(self, work: _ClaimCascades) -> None:
        """Refuses the tables whose rows a foreign key may have changed unseen."""
        batch = work.batch
        tables = {(table.schema.database, table.schema.table) for table in batch.claim.tables}
        for key in self._blind(tables):
            if work.takes(full_name(*key.child)):
                work.refused[full_name(*key.child)] = _refusal(key)
        for key in self._foreign_keys() if self._rules else ():
            if {key.child, key.parent} & tables and not self._is_shown(key) and work.takes(full_name(*key.child)):
                work.refuse(full_name(*key.child), _unseen(key))
        for name, ddl in released(batch.claim):
            there = work.takes(name) and batch.lake.state(batch.lake.path(*split_name(name)), "")
            if not there or there.dropped or logs_cascades(self._source(), self._since):
                continue
            if written_since(batch.lake, batch.claim.destination, name, ddl):
                work.refuse(name, CopyNeeded(why_released(name, ddl), name))

    def _is_shown(self, key: ForeignKey) -> bool:
        """Whether the lake has all rows of both sides, with these columns as they are, so that rows are found by
        them."""
        sides = ((key.child, key.columns), (key.parent, key.referenced))
        found = ((self._rules.of(full_name(*table)), columns) for table, columns in sides)
        return all(rule is None or (not rule.where and all(map(rule.shows, columns))) for rule, columns in found)

    def _blind(self, tables: Collection[tuple[str, str]]) -> list[ForeignKey]:
        """Returns the foreign keys of `tables` to parents that are not captured, whose lost rows nobody sees. They are
        read again, because a renamed parent is captured under its new name."""
        if not any(key.child in tables for key in self._foreign_keys()):
            return []
        captured = self._captured()
        if all(key.parent in captured for key in self._foreign_keys() if key.child in tables):
            return []
        present = read_foreign_keys(self._source(), self._captured, self._since)
        return [key for key in present if key.child in tables and key.parent not in captured]

    def _foreign_keys(self) -> tuple[ForeignKey, ...]:
        if self._keys is None:
            self._keys = read_foreign_keys(self._source(), self._captured, self._since)
        return self._keys

    def _source(self) -> pymysql.Connection[Any]:
        """A connection that answers."""
        if self._connection is not None:
            with suppress(pymysql.MySQLError):
                self._connection.ping(reconnect=False)
                return self._connection
        self._connection = self._connect()
        self._connection.autocommit(True)  # each answer is the present one, and no lock keeps a DDL statement waiting
        return self._connection

    def _change(self, batch: Batch, key: ForeignKey, lost: Lost, seen: set[tuple[Any, ...]]) -> Change | None:
        """Returns the rows that reference a `lost` key and were not `seen` before, or None. An unchanged row may have
        been deleted and inserted again, without the rows that referenced it. Raises TableStopped for a table that needs
        a copy."""
        path, claim = batch.lake.path(*key.child), batch.claim
        app = cascade_id(app_id(claim.destination, claim.client_id, full_name(*key.child), claim.epoch))
        state = batch.lake.state(path, app)
        if state is None or state.dropped:
            return None
        with batch.sessions.take() as spark, lake_errors(path):
            if not create_keys(spark, batch, key, lost):
                return None
            found = without(self._candidates(spark, path, state, key), state.primary_key, seen)
        if not found.num_rows:
            return None
        fixed, columns = self._fixed(found, state, key)
        return Change(key, path, app, state, found, fixed, columns, self._high(claim))

    def _high(self, claim: Claim) -> int | None:
        """Returns the version of the source's place by now: rows that were looked up may be of up to there. None if it
        is not one of the claim's journals."""
        try:
            now = position(self._source())
        except SourceError:
            return None
        same = now.journal_name.rpartition(".")[0] == claim.end.journal_name.rpartition(".")[0]
        return now.version() if same else None

    def _write_all(self, work: _ClaimCascades, changes: Sequence[Change]) -> None:
        """Writes the changes, the last table first."""
        for change in reversed(changes):
            name = full_name(*change.key.child)
            if not work.takes(name) or not change.fixed.num_rows:
                continue
            try:
                self._write(work.batch, change)
            except TableStopped as error:
                work.refuse(name, error)
            else:
                work.cascaded.append(change.what)

    def _write(self, batch: Batch, change: Change) -> None:
        with batch.sessions.take() as spark, lake_errors(change.path):
            now = batch.lake.state(change.path, change.app) or change.state
            state = batch.fence.enter(change.path, change.app, now)
            name = full_name(*change.key.child)
            state = with_own_columns(batch.sessions, batch.lake, batch.fence, change.path, name, state, change.app)
            spark.createDataFrame(change.fixed).createOrReplaceTempView(FIXED)
            note = cascade_note(batch.claim, name, batch.run_id, change.high)
            with transaction(spark, change.app, (state.applied or 0) + 1, note, few=True):
                references = len(change.key.columns)
                sql = merge(change.path, state.primary_key, change.columns, references, state.own)
                run_statement(spark, sql, change.path)

    def _candidates(self, spark: SparkSession, path: str, state: TableState, key: ForeignKey) -> pa.Table:
        """Returns the child's rows that reference one of the keys: key columns, foreign key, and columns that others
        reference."""
        kinds = {column.name: column.type for column in state.columns}
        missing = [name for name in key.columns if name not in kinds]
        if missing:
            raise needs_copy(key, f"its column {missing[0]!r} is not in the lake yet")
        others = [name for later in affected(self._foreign_keys(), key.child) for name in later.referenced]
        wanted = dict.fromkeys(name for name in (*state.primary_key, *key.columns, *others) if name in kinds)
        pairs = [(a, b, kinds[a]) for a, b in zip(key.columns, key.referenced, strict=True)]
        rows, zeros = living_now(path, state.own), self._rules.null_dates(self._zero_dates)
        found = spark.sql(referencing(rows, list(wanted), pairs, MOST + 1, zero_dates=zeros)).toArrow()
        if found.num_rows > MOST:
            raise needs_copy(key, f"more than {MOST:,} of its rows are affected")
        if found.num_rows and not state.primary_key:
            raise needs_copy(key, "it has no primary key, so its rows cannot be looked up")
        return found

    def _fixed(self, found: pa.Table, state: TableState, key: ForeignKey) -> tuple[pa.Table, tuple[str, ...]]:
        """The rows that differ from the source, for `merge`, and the columns that change."""
        names = [column.name for column in state.columns]
        try:
            there = touched(self._source(), key, state.primary_key, found, names, self._zero_dates, self._rules)
        except Unproven as error:
            raise needs_copy(key, str(error)) from error
        return corrections(found, state.primary_key, there), tuple(there.values.column_names)


def _unseen(key: ForeignKey) -> TableStopped:
    child, parent = full_name(*key.child), full_name(*key.parent)
    message = f"its foreign key to {parent} deletes or changes its rows, which the binlog does not record, and a rule "
    message += "hides, masks or renames its columns, or leaves rows out, so that the lake cannot find these rows"
    hint = f"Show all rows of both tables, and {', '.join(key.columns)} of {child} and {', '.join(key.referenced)} of "
    hint += f"{parent} as they are (`rules` in defs.yaml), or drop the foreign key; then reload {child} (sluice copy)."
    return TableStopped(message, place=child, hint=hint)


def _refusal(key: ForeignKey) -> Refusal:
    child, parent = full_name(*key.child), full_name(*key.parent)
    message = f"its foreign key to {parent} deletes or changes its rows, which the binlog does not record, and "
    message += f"{parent} is not captured"
    hint = f"Capture {parent} too (canal.instance.filter.regex), or drop the foreign key; then `sluice copy` {child}."
    return Refusal(child, TableStopped(message, place=child, hint=hint))
