"""Expectations that need the rows of tables: `unique` and `references`.

A table is seen as it would be after the batch: its rows of before, without those whose key the batch changes, and the
batch's rows without those that go to the quarantine. A row that does may make others fail, so this goes round until no
round finds more. The rows of before are streamed by delta-rs: only those that matter are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from spark_jobs.changes.keys import alike, has_null, is_among, joined
from spark_jobs.expectations.expectation import Expectation, References
from spark_jobs.expectations.row_judge import RowJudge
from spark_jobs.lake.failures import first_line, store_failed
from spark_jobs.lake.own_columns import Own
from spark_jobs.lake.queries import identifiers, selected


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A table of the lake: its `key`, and its rows of before the batch, None if it has none."""

    key: tuple[str, ...]
    table: DeltaTable | None


Opened = Callable[[str], LookedUp]  # of `database.table`; raises ValueError, with the reason, if it cannot be looked up


def look_up(judges: Mapping[str, RowJudge], opened: Opened, blocked: Callable[[str], bool]) -> None:
    """Evaluates the expectations of all tables of a batch, by name. `blocked`: whether a table stays as it was, by its
    results so far. Raises LakeError if the lake's store fails.

    It ends because each round puts more rows into quarantines or blocks more tables: one that is blocked stays so, also
    if what another one keeps therefore would let it pass.
    """
    asked = {name: judge for name, judge in judges.items() if judge.looked_up}
    while asked:
        before = _seen(judges, blocked)
        for name, judge in asked.items():
            for one in judge.looked_up:
                if not judge.results[one.name].why:
                    _evaluate(one, name, judges, opened, blocked)
        if _seen(judges, blocked) == before:
            return
        asked = {name: judge for name, judge in asked.items() if not blocked(name)}


def _seen(judges: Mapping[str, RowJudge], blocked: Callable[[str], bool]) -> list[tuple[int, bool]]:
    failed = ((name, judge.failed) for name, judge in judges.items())
    return [(0 if keys is None else keys.num_rows, blocked(name)) for name, keys in failed]


def _evaluate(
    one: Expectation, name: str, judges: Mapping[str, RowJudge], opened: Opened, blocked: Callable[[str], bool]
) -> None:
    judge = judges[name]
    judge.forget(one)
    rows = judge.there
    if rows is None or not rows.num_rows:
        return
    rows = rows.filter(pa.array(~has_null(rows.select(list(one.columns)))))
    if not rows.num_rows:
        return
    try:
        if isinstance(one.test, References):
            parent = one.test.table
            counts = judges.get(parent) if not blocked(parent) else None
            failing = ~_is_key(rows.select(list(one.columns)), opened(parent), counts)
        else:
            failing = _is_doubled(rows, one.columns, opened(name), judge)
    except ValueError as error:
        judge.give_up(one, str(error))
    except Exception as error:  # of delta-rs or Arrow, or of the lake: it concerns the tables that look it up alone
        if store_failed(error):
            message = f"the rows of {_looked_up(one, name)} cannot be read: {first_line(error)}"
            raise LakeError(
                message, place=name, hint="Bring the lake's store back; the batch stays claimable."
            ) from error
        judge.give_up(one, f"the rows of {_looked_up(one, name)} cannot be read: {first_line(error)}")
    else:
        judge.fail(one, rows, failing)


def _looked_up(one: Expectation, name: str) -> str:
    return one.test.table if isinstance(one.test, References) else name


def _is_key(values: pa.Table, parent: LookedUp, changed: RowJudge | None) -> np.ndarray:
    """Returns, for each of the values, whether it is a key of the parent."""
    if len(parent.key) != len(values.column_names):
        raise ValueError(f"it references {len(values.column_names)} columns, and the key has {len(parent.key)}")
    values = values.rename_columns(list(parent.key))
    found = np.zeros(values.num_rows, bool)
    if changed is not None and changed.there is not None:
        found |= is_among(values, changed.there.select(list(parent.key)))
    if parent.table is None or found.all():
        return found
    places = np.flatnonzero(~found)
    left = values.take(pa.array(places))
    there = is_among(left, rows_with(parent.table, left))
    if changed is not None and changed.gone is not None:
        there &= ~is_among(left, changed.gone)
    found[places[there]] = True
    return found


def _is_doubled(rows: pa.Table, columns: Sequence[str], own: LookedUp, judge: RowJudge) -> np.ndarray:
    """Returns, for each of the batch's rows, whether another row has the same values."""
    values = rows.select(list(columns))
    found = joined(values, values) > 1
    if own.table is None:
        return found
    there = rows_with(own.table, values, judge.key)
    keys = there.select(list(judge.key))
    for changed in (judge.there, judge.gone):
        if changed is not None:
            keep = pa.array(~is_among(keys, changed.select(list(judge.key))))
            there, keys = there.filter(keep), keys.filter(keep)
    found |= is_among(values, there.select(list(columns)))
    return found


def rows_with(table: DeltaTable, values: pa.Table, more: Sequence[str] = ()) -> pa.Table:
    """Returns the rows of the table, without those that are deleted softly, that have one of the values: the columns of
    these and `more`."""
    own, names = Own.of_table(table), list(dict.fromkeys((*values.column_names, *more)))
    asked = f"SELECT {identifiers(names)} FROM t WHERE {own.living}"  # noqa: S608
    schema = pa.schema([pa.schema(table.schema().to_arrow()).field(name) for name in names])
    none, wanted = alike(schema.empty_table().select(values.column_names), values)
    found = []
    for batch in selected(table, "t", asked):
        rows = pa.Table.from_batches([batch]).cast(schema)
        for name in wanted.column_names:
            there = rows.column(name).cast(none.schema.field(name).type)
            rows = rows.filter(pc.is_in(there, wanted.column(name).combine_chunks()))
        if rows.num_rows and len(wanted.column_names) > 1:
            rows = rows.filter(pa.array(is_among(rows.select(wanted.column_names), wanted)))
        found.append(rows)
    return pa.concat_tables([schema.empty_table(), *found])
