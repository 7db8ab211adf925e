"""The SQL for tables that have columns of ours: the last image of each key, and the MERGE that takes it. Pure.

With soft deletes the image that a delete logs is merged too: the row has its last values, however the changes are cut
into batches, also where it came and went within one.

A column that the source has no more, and the table keeps (`ddl: lenient`), has NULL in a row that came anew, as in one
that was not there before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.apply.transaction import NO_KEY, NOT_A_ROW
from spark_jobs.lake.own_columns import COMMIT_TIME, DELETED, LAST_OP, POSITION, Own
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import OP

_GONE, _RANK, _ANEW = "_sluice_gone", "_sluice_rank", "_sluice_anew"
_PLACE = "concat(_sluice_journal, ':', _sluice_position)"
_LAST_OP = f"CASE {OP} WHEN 'update_after' THEN 'update' WHEN 'update_before' THEN 'delete' ELSE {OP} END"


@dataclass(frozen=True, slots=True)
class Images:
    """How rows that are images are in order, the last first, and which column has their time."""

    order: str
    time: str


IMAGES = Images(
    f"_sluice_journal DESC, _sluice_position DESC, _sluice_row DESC, {OP} = 'update_after' DESC", "_sluice_timestamp"
)
LOGGED = Images("_sluice_version DESC, _sluice_nth DESC", "_sluice_time")


def last_changes(
    source: str,
    where: str,
    columns: Sequence[str],
    key: Sequence[str],
    own: Own,
    images: Images,
    *,
    anew: bool = False,
) -> str:
    """A query in brackets: of each key of the images that `where` names, the columns of the last one, those of ours,
    and whether the key has no row after it; `anew`: also whether a row of it was inserted."""
    values = {DELETED: _GONE, POSITION: _PLACE, COMMIT_TIME: images.time, LAST_OP: _LAST_OP}
    keys, listed = ", ".join(map(quote, key)), ", ".join(map(quote, columns))
    told = ", ".join(f"{values[name]} AS {name}" for name in own.names)
    rank = f"row_number() OVER (PARTITION BY {keys} ORDER BY {images.order}) AS {_RANK}"
    inserted = f", max({OP} = 'insert') OVER (PARTITION BY {keys}) AS {_ANEW}" if anew else ""
    ranked = f"SELECT *, {rank}{inserted} FROM {source}"  # noqa: S608
    last = f"SELECT *, {image_op(key)} = 2 AS {_GONE} FROM ({ranked} WHERE {where}) WHERE {_RANK} = 1"  # noqa: S608
    return f"(SELECT {listed}, {_GONE}{f', {_ANEW}' if anew else ''}, {told} FROM ({last}))"  # noqa: S608


def merge_last(
    path: str,
    rows: str,
    columns: Sequence[str],
    key: Sequence[str],
    own: Own,
    between: tuple[int, int] | None = None,
    kept: Sequence[str] = (),
) -> str:
    """One MERGE by key of what `last_changes` gives. `between` bounds a key of one integer. `kept`: the table's columns
    that the source has no more; then the rows say which came `anew`."""
    condition = [f"t.{quote(name)} = s.{quote(name)}" for name in key]
    if between is not None:
        condition.append(f"t.{quote(key[0])} BETWEEN {between[0]} AND {between[1]}")
    names = [quote(name) for name in (*columns, *own.names)]
    anew = f"s.{_ANEW} OR (t.{DELETED} AND NOT s.{_GONE})" if own.soft else f"s.{_ANEW}"
    left_out = [f"t.{quote(name)} = CASE WHEN {anew} THEN NULL ELSE t.{quote(name)} END" for name in kept]
    sets = ", ".join([*(f"t.{name} = s.{name}" for name in names), *left_out])
    insert = f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"  # noqa: S608
    gone, left = ("", "") if own.soft else (f"WHEN MATCHED AND s.{_GONE} THEN DELETE ", f" AND NOT s.{_GONE}")
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING {rows} AS s ON {' AND '.join(condition)} "
        f"{gone}WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED{left} THEN {insert}"
    )


def image_op(key: Sequence[str]) -> str:
    """What an image means for its key: 1 for a row that is there then, 2 for one that is gone."""
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in key)
    return (
        f"CASE WHEN {OP} = 'truncate' THEN {_raised(NOT_A_ROW, OP)} WHEN {missing} THEN {_raised(NO_KEY, OP)} "
        f"WHEN {OP} IN ('insert', 'update_after') THEN 1 WHEN {OP} IN ('delete', 'update_before') THEN 2 "
        f"ELSE {_raised(NOT_A_ROW, OP)} END"
    )


def _raised(word: str, column: str) -> str:
    return f"CAST(raise_error(concat('{word}: ', coalesce({column}, ''))) AS INT)"
