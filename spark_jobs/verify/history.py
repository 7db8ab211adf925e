"""Compares a history with its table when both are at one place: its current rows must be the table's.

Both are in the lake, so the source is not asked. The table itself is compared with the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from cdc_core.schema.names import split_name
from spark_jobs.changes.versions import CURRENT, VALID_TO
from spark_jobs.following.history.columns import MOVE_AWAY, work_of
from spark_jobs.following.history.standing import Histories, HistoryState, lacks, standing
from spark_jobs.following.pending import Follows, place_of
from spark_jobs.lake.state import TableState
from spark_jobs.landing.parked import Parking
from spark_jobs.verify.comparer import TableComparer
from spark_jobs.verify.counts import LakeSide, counted
from spark_jobs.verify.lake_rows import lake_rows, rows_in
from spark_jobs.verify.sums import buckets_for
from spark_jobs.verify.verified import Comparison, Verified, or_why_not


def histories_compared(comparer: TableComparer, tables: Iterable[str]) -> Iterator[Verified]:
    """Yields an answer for each of these tables, `database.table`, that has a history: `database.table__history`.

    A history that cannot be compared in time says why, and the others go on."""
    connector = comparer.connector
    histories = Histories(comparer.lake, connector.destination, connector.client_id)
    nowhere = place_of(0)
    for table in tables:
        name = f"{table}__history"
        found = or_why_not(name, nowhere, partial(_compared, comparer, histories, table, name))
        if found is not None:
            yield found


def _compared(comparer: TableComparer, histories: Histories, table: str, name: str) -> Verified | None:
    """Returns the comparison, or None for a table without a history."""
    deadline = comparer.clock() + comparer.timeout_seconds
    if not histories.lake.has(*split_name(f"{table}__history")):
        return None
    while (found := standing(histories, table)) is not None and found.state is not None:
        found.state.check_owner(histories.destination, table, histories.path(table))
        if _is_together(histories, table, found):
            assert found.table is not None
            assert found.merged is not None
            at = place_of(found.table.version)
            return _answer(name, _current_rows(histories, table, found, found.merged, found.state.version), at)
        if comparer.clock() >= deadline:
            raise _behind(histories, table)
        comparer.sleep(0.5)
    return None


def _is_together(histories: Histories, table: str, found: HistoryState) -> bool:
    """Whether history and table have the same changes: they are at one place, or both have the whole log."""
    if found.merged is None or found.table is None or found.is_due:
        return False
    if found.place == found.table:
        return True
    if lacks(histories, table) is not None or Follows.pending(_follows(histories), table) is not None:
        return False
    again = standing(histories, table)
    return again is not None and _versions(again) == _versions(found)


def _follows(histories: Histories) -> Follows:
    return Follows(histories.lake, histories.destination, histories.client_id)


def _versions(found: HistoryState) -> tuple[int, ...]:
    return tuple(state.version for state in (found.state, found.merged) if state is not None)


def _current_rows(histories: Histories, table: str, at: HistoryState, merged: TableState, version: int) -> Comparison:
    """Compares the current rows of both, at the versions that were found together. A dropped table has no rows. A
    current row that has an end is extra, and its key is missing: a query as of a moment would not find it."""
    rows = histories.lake.open(histories.table_path(table), merged.version)
    versions = histories.lake.open(histories.path(table), version)
    kinds, key = pa.schema(rows.schema().to_arrow()), merged.primary_key
    dropped = at.log.dropped(merged.columns)  # a row keeps its values there, its next version has none
    fields = [kinds.field(column.name) for column in merged.columns if column.name not in dropped]
    lasts, ended = (f"{CURRENT} AND {VALID_TO} IS {word}" for word in ("NULL", "NOT NULL"))
    ours = LakeSide(rows, fields, key, "false" if merged.dropped else "")
    found = counted(
        ours, LakeSide(versions, fields, key, lasts), buckets_for(max(map(rows_in, (rows, versions)))), place=table
    )
    wrong = sum(part.num_rows for part in lake_rows(versions, fields[:1], ended))
    return replace(found, extra=found.extra + wrong)


def _answer(name: str, found: Comparison, at: EntryPosition) -> Verified:
    answer = Verified(name, found, at)
    return Verified(name, found, at, remedy=MOVE_AWAY) if answer.differences else answer


def _behind(histories: Histories, table: str) -> LakeError:
    parked = Parking(histories.lake, histories.destination, histories.client_id).tables().get(work_of(table))
    message = "the history has not caught up with its table"
    if parked is None:
        hint = "Does Dagster run the job that merges? Give more time (--timeout), or compare while less is written."
        return LakeError(message, place=table, hint=hint)
    return LakeError(f"{message}, because {parked.reason}", place=table, hint=parked.hint)
