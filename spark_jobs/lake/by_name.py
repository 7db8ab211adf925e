"""Plans the changes of a Delta table's columns that touch no row: pure. delta-rs makes the plain ones, Spark all.

Delta drops and renames columns by its column mapping. A change that the table has already is left out. So the list for
a table that was altered in part completes the ALTER.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from deltalake.table import TableAlterer

from spark_jobs.lake.alteration import Alteration
from spark_jobs.lake.features import MAPPING
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn, delta_field, needs_mapping


def statements(lake: Sequence[LakeColumn], plan: Alteration) -> list[str]:
    """Returns the clauses after ALTER TABLE, one statement each: renames, drops, additions, order, comments."""
    found, names = [], [column.name for column in lake]
    for old, new in _renames(names, plan):
        found.append(f"RENAME COLUMN {quote(old)} TO {quote(new)}")
        names[names.index(old)] = new
    wanted = [one.column.name for one in plan.columns]
    if gone := [name for name in names if name not in wanted]:
        found.append(f"DROP COLUMNS ({', '.join(map(quote, gone))})")
        names = [name for name in names if name in wanted]
    if added := [one.column for one in plan.columns if one.column.name not in names]:
        found.append(f"ADD COLUMNS ({', '.join(column.ddl for column in added)})")
        names += [column.name for column in added]
    comments = {column.name: column.comment for column in (*lake, *added)}
    for old, new in _renames([column.name for column in lake], plan):
        comments[new] = comments[old]
    return found + _moves(names, wanted) + _comments(comments, [one.column for one in plan.columns])


def metadata_changes(state: TableState, plan: Alteration, comment: str) -> list[Callable[[TableAlterer], None]] | None:
    """Returns the changes for delta-rs, a commit each: columns added after the others, comments. None if delta-rs
    cannot make them: renames and drops need Delta's column mapping, a new order and nested types need Spark."""
    wanted, names = [one.column for one in plan.columns], [column.name for column in state.columns]
    there, added = wanted[: len(names)], wanted[len(names) :]
    fields = [field for column in added if (field := delta_field(column)) is not None]
    if [one.name for one in there] != names or _renames(names, plan) or MAPPING in state.properties:
        return None
    if needs_mapping(added) or len(fields) < len(added):
        return None
    found: list[Callable[[TableAlterer], None]] = []
    if fields:
        found.append(lambda altered: altered.add_columns(fields))
    for old, new in zip(state.columns, there, strict=True):
        if old.comment != new.comment:
            found.append(partial(_set_comment, new))
    if comment != state.comment:
        found.append(lambda altered: altered.set_table_description(comment))
    return found


def _set_comment(column: LakeColumn, altered: TableAlterer) -> None:
    altered.set_column_metadata(column.name, {"comment": column.comment})


def needed_properties(lake: Sequence[LakeColumn], plan: Alteration) -> dict[str, str]:
    """Returns the table's properties without which Delta refuses the changes."""
    names, wanted = [column.name for column in lake], [one.column for one in plan.columns]
    found = {}
    renamed = [old for old, _ in _renames(names, plan)]
    if renamed or needs_mapping(wanted) or any(name not in {column.name for column in wanted} for name in names):
        found[MAPPING] = "name"
    if any(column.type == "timestamp_ntz" and column.name not in names for column in wanted):
        found["delta.feature.timestampNtz"] = "supported"
    return found


def _renames(names: Sequence[str], plan: Alteration) -> list[tuple[str, str]]:
    pairs = ((one.origin, one.column.name) for one in plan.columns)
    return [(old, new) for old, new in pairs if old is not None and old != new and old in names]


def _moves(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Returns the clauses that bring the columns into the wanted order, one at a time."""
    now, found = list(names), []
    for place, name in enumerate(wanted):
        if now[place] != name:
            now.remove(name)
            now.insert(place, name)
            found.append(f"ALTER COLUMN {quote(name)} {f'AFTER {quote(wanted[place - 1])}' if place else 'FIRST'}")
    return found


def _comments(now: dict[str, str], wanted: Sequence[LakeColumn]) -> list[str]:
    return [
        f"ALTER COLUMN {quote(column.name)} COMMENT {literal(column.comment)}"
        for column in wanted
        if now[column.name] != column.comment
    ]
