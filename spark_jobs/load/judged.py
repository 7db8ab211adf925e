"""Evaluates the expectations of a table's columns over all rows of a load, before they become the table's.

A load has no quarantine: rows that would go there block it, as others do, until a person accepts them. Then they come
in, and the commit's note says how many. What needs the rows of tables, a batch or Spark is not evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from cdc_core.errors import LakeError, safe_name
from cdc_core.rows.columns.batch import arrow_fields
from spark_jobs.changes.columns import VERSION
from spark_jobs.changes.in_order import images_in_order
from spark_jobs.changes.keys import plain, without_keys
from spark_jobs.changes.net import GONE
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.expectations.expectation import OF_COLUMN, Expectation, Expectations, Severity, misfit, named
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.expectations.row_judge import RowJudge
from spark_jobs.lake.blocking import TableBlocked
from spark_jobs.lake.failures import first_line, store_failed
from spark_jobs.lake.tables import Lake
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.replacement import Target
from spark_jobs.load.staging import StagedRows


def judged(
    expectations: Expectations, target: Target, staged: StagedRows, log: ChangeLog | None, upto: int
) -> tuple[ExpectationResult, ...]:
    """Returns the results for the staged rows with the changes of the log up to version `upto` laid over them. Raises
    TableBlocked if the table must not have these rows, and no person has accepted them; LakeError."""
    listed = [one for one in _listed(expectations, target.name, staged) if isinstance(one.test, OF_COLUMN)]
    if not listed:
        return ()
    schema = pa.schema(arrow_fields(staged.schema))
    misfits = {one: why for one in listed if (why := misfit(one, schema, staged.schema.primary_key))}
    judge = RowJudge([one for one in listed if one not in misfits], staged.schema.primary_key, 0)
    judge.results |= {one.name: ExpectationResult(one.name, one.severity, why=why) for one, why in misfits.items()}
    try:
        for rows in _rows(target.lake, staged, log, upto, judge.columns):
            judge.add(rows)
    except (_TooMany, OSError, DeltaError, pa.ArrowException) as error:
        if store_failed(error):
            message = f"the rows that were read cannot be looked at: {first_line(error)}"
            raise LakeError(message, place=staged.path, hint="Load it again when the store answers.") from error
        for one in judge.expectations:
            judge.give_up(one, first_line(error))
    results = tuple(judge.results.values())
    blocking = [one for one in results if _blocks(one)]
    if not blocking:
        return results
    state, notes = target.lake.state(target.path, target.app), acceptances(target)
    changes = VersionRange(target.client.epoch, state.applied if state else None, upto)
    reason = notes.reason(target.name, changes, blocking, load=True)
    if not reason:
        notes.blocked(target.name, changes, blocking, load=True)
        raise _stop(target, blocking)
    return tuple(_accepted(one, reason) if one in blocking else one for one in results)


def acceptances(target: Target) -> Acceptances:
    """Returns the notes of what persons accepted. One of a load ends with it: the next load has other rows."""
    return Acceptances(target.lake, target.client.destination, target.client.client_id)


def with_results(note: str, results: Sequence[ExpectationResult]) -> str:
    """Returns the note of a load's commit with the results."""
    if not results:
        return note
    return json.dumps({**json.loads(note), "expected": {one.name: one.to_dict() for one in results}})


class _TooMany(Exception):
    """The changes are too many to be laid over the rows here."""


def _listed(expectations: Expectations, table: str, staged: StagedRows) -> Sequence[Expectation]:
    schema = pa.schema(arrow_fields(staged.schema))
    return named(expectations.of(table), schema, whole=expectations.names(table))


def _rows(
    lake: Lake, staged: StagedRows, log: ChangeLog | None, upto: int, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yields the rows of the load: the key and these columns."""
    names = [field.name for field in arrow_fields(staged.schema)]
    key, wanted = staged.schema.primary_key, list(dict.fromkeys((*staged.schema.primary_key, *columns)))
    changed = None if log is None else _changed(lake, log, staged, upto, [names.index(name) for name in wanted], wanted)
    table = lake.open(staged.path)
    there = [field.name for field in table.schema().fields]
    read = [there[names.index(name)] for name in wanted]
    for batch in table.to_pyarrow_dataset().scanner(columns=read).to_reader():
        rows = plain(pa.Table.from_batches([batch])).rename_columns(wanted)
        if changed is not None and key:
            rows = without_keys(rows, changed.select(list(key)))
        yield rows.append_column(GONE, pa.array([False] * rows.num_rows, pa.bool_()))
    if changed is not None:
        yield changed


def _changed(
    lake: Lake, log: ChangeLog, staged: StagedRows, upto: int, places: Sequence[int], wanted: Sequence[str]
) -> pa.Table:
    """Returns the last row of each key that the log changes, and whether it is gone. Without a key: all rows that were
    added, though some may be gone again."""
    numbers, key = [str(one) for one in places], [str(places[wanted.index(one)]) for one in staged.schema.primary_key]
    since = (pc.field(VERSION) > staged.place.low.version()) & (pc.field(VERSION) <= upto)
    images = images_in_order(lake.open(log.path), since, numbers, key)
    if images is None:
        raise _TooMany("the changes since the rows were read are too many, or have no key")
    chosen = images.last if key else images.there
    rows = images.rows.select(numbers).take(pa.array(images.order[chosen])).rename_columns(list(wanted))
    return plain(rows).append_column(GONE, pa.array(~images.there[chosen]))


def _blocks(one: ExpectationResult) -> bool:
    return one.stops or (one.severity is Severity.QUARANTINE and bool(one.bad))


def _accepted(one: ExpectationResult, reason: str) -> ExpectationResult:
    return ExpectationResult(one.name, one.severity, one.rows, one.bad, one.keys, one.why, reason)


def _stop(target: Target, blocking: Sequence[ExpectationResult]) -> TableBlocked:
    said = [f"{one.name} cannot be evaluated: {one.why}" for one in blocking if one.why]
    said += [f"{one.bad} rows fail {one.name} ({'; '.join(one.keys[:3])})" for one in blocking if not one.why]
    name, table = target.client.destination, target.name
    hint = (
        "The table is as it was, and a load has no quarantine. Correct the rows at the source, or its expectations in "
        f"defs.yaml, and load it again; or take the rows as they are: `sluice accept {name} {table} --reason ...`, or "
        f"in Dagster the job accept_{safe_name(name)}."
    )
    return TableBlocked("; ".join(said), place=table, hint=hint)
