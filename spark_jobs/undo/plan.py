"""What a correction would do to a table, or why the table cannot be corrected, before anything is written. No Spark.

The rows of a part of the past are those that `past` finds; those of a redo are the rows that the undo noted. They count
only for a table that has kept the same columns, and the same way of getting its rows, since the part began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from deltalake.exceptions import DeltaError

from cdc_core.errors import LakeError
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.own_columns import Own
from spark_jobs.lake.queries import identifier
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import TableState
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.undo.decision import NetChange, PooledRow, RowDecision, RowPool, Toward, decide, net_changes
from spark_jobs.verify.lake_rows import lake_rows
from spark_jobs.verify.row_text import lake_text

Place = tuple[int, int]
_LISTED = 5_000  # keys of a condition that names them


@dataclass(frozen=True, slots=True)
class PastPart:
    """The images of a table's changes of `epoch` after version `start` up to version `end`. `origin`: where they are
    from; `unknown`: what they do not show. `since`: the place after which the table must not have got its rows in
    another way."""

    epoch: int
    start: int
    end: int
    origin: str
    unknown: str
    read: Callable[[], Iterator[pa.RecordBatch]]

    @property
    def since(self) -> Place:
        return self.epoch, self.start


@dataclass(frozen=True, slots=True)
class CorrectableTable:
    """What the lake says of a table. `state` is None without one; `place`: the last epoch of which it has changes, and
    up to which version, None for none."""

    table: str
    state: TableState | None
    place: Place | None


def why_not(known: CorrectableTable, part: PastPart) -> str:
    """Returns why the rows of a table cannot be corrected, "" if they can. Pure."""
    state, place = known.state, known.place
    if state is None:
        return "the lake has no such table, or its change log alone, which says what the source did"
    if state.dropped:
        return "the source has dropped the table"
    if not state.primary_key:
        return (
            "the table has no primary key: when the source changes a row later that was taken out, the table would stop"
        )
    if place is None or place < (part.epoch, part.end):
        return "the table has not got all of these changes yet"
    if state.followed is not None and state.followed > part.since:
        return "the table has followed a statement since, so its rows then had other columns, or were removed"
    base = state.base
    if base is not None and (base.epoch, base.high) > part.since:
        return "the table was reloaded since, so its rows are not those of that time"
    return ""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The decision for a table in `state` at `place`. `net`: what the part of the past did, by key."""

    table: str
    part: PastPart
    state: TableState
    place: Place
    net: dict[bytes, NetChange]
    decision: RowDecision


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans the tables of one client. `toward`: which side of the changes is put; `force`: also over later changes."""

    tables: ClientTables
    part_of: Callable[[str], PastPart]
    toward: Toward = "before"
    force: bool = False

    def plan(self, table: str) -> TablePlan:
        """Returns the plan. Raises LakeError, with the remedy, for a table that cannot be corrected."""
        part = self.part_of(table)
        known = self._known(table)
        if why := why_not(known, part):
            raise self._refused(table, why)
        if part.origin == "none":
            raise self._refused(table, f"its rows of that time are not known: {part.unknown}")
        assert known.state is not None
        assert known.place is not None
        log = self.tables.log(table) if part.origin == "log" else None
        if log is not None and (why := log.lacks_values(known.state.columns)):
            raise self._refused(table, f"{why}, and its log lacks them")
        pool = RowPool(self._schema(table, known.state), known.state.primary_key)
        net = net_changes(pool, part.read())
        now = rows_now(self.tables, table, known.state, pool, net)
        decision = decide(pool, net, now, self.toward, force=self.force)
        return TablePlan(table, part, known.state, known.place, net, decision)

    def again(self, plan: TablePlan, state: TableState) -> TablePlan:
        """Returns the plan for the table in a later state, with the same columns. Raises LakeError."""
        pool = plan.decision.pool
        now = rows_now(self.tables, plan.table, state, pool, plan.net)
        decision = decide(pool, plan.net, now, self.toward, force=self.force)
        return replace(plan, state=state, decision=decision)

    def _known(self, table: str) -> CorrectableTable:
        tables, path = self.tables, self.tables.path(table)
        state = tables.lake.state(path, "")
        if state is None:
            return CorrectableTable(table, None, None)
        state.check_owner(tables.destination, table, path)
        state.check_form(table)
        places = [state.followed, (state.base.epoch, state.base.low) if state.base else None]
        newest = max([tables.ledger.last_epoch(tables.ledger.opened()), *(one[0] for one in places if one), 0])
        progress = tables.progress(table, newest, state.version)
        ends = progress.ends if progress else {}
        return CorrectableTable(table, state, max(ends.items(), default=None))

    def _schema(self, table: str, state: TableState) -> pa.Schema:
        """Returns the columns of the table, without those of Sluice's."""
        opened = self.tables.lake.open(self.tables.path(table), state.version)
        own = Own.of_table(opened)
        there = pa.schema(pa.schema(opened.schema().to_arrow()))
        return pa.schema([pa.field(one.name, one.type) for one in there if one.name not in own.names])

    def _refused(self, table: str, why: str) -> LakeError:
        hint = f"Name the other tables to leave it out. {copy_hint(self.tables.destination, table)}"
        return LakeError(f"{table} cannot be corrected: {why}", place=self.tables.path(table), hint=hint)


def rows_now(
    tables: ClientTables, table: str, state: TableState, pool: RowPool, net: Mapping[bytes, NetChange]
) -> dict[bytes, list[PooledRow]]:
    """Returns the rows that the table has, in its state, of the keys of these changes, by key. They are added to the
    pool."""
    found = dict[bytes, list[PooledRow]]()
    if not net:
        return found
    path, wanted = tables.path(table), pa.array(list(net), pa.large_binary())
    try:
        opened, condition = tables.lake.open(path, state.version), _condition(pool, net)
        for batch in lake_rows(opened, list(pool.schema), condition):
            there = pc.is_in(lake_text(batch, pool.key), value_set=wanted)
            for key, row in pool.add(batch.filter(there)):
                found.setdefault(key, []).append(row)
    except (DeltaError, OSError) as error:
        hint = "Make the lake readable, then try again."
        raise LakeError(f"the table cannot be read: {first_line(error)}", place=path, hint=hint) from error
    return found


def _condition(pool: RowPool, net: Mapping[bytes, NetChange]) -> str:
    """Returns a condition in SQL that the rows of these keys fulfil, others may as well; "" for keys whose first column
    has no plain literal."""
    name = pool.key[0]
    kind = pool.schema.field(name).type
    if not (pt.is_integer(kind) or pt.is_string(kind)):
        return ""
    rows = [row for one in net.values() if (row := one.before or one.after) is not None]
    values = pc.unique(pool.table(rows, [name]).column(name))
    if values.null_count:
        return ""
    column = identifier(name)
    if len(values) <= _LISTED:
        return f"{column} IN ({', '.join(_literal(value) for value in values.to_pylist())})"
    bounds = pc.min_max(values).as_py() if pt.is_integer(kind) else None
    return f"{column} BETWEEN {bounds['min']} AND {bounds['max']}" if bounds else ""


def _literal(value: int | str) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
