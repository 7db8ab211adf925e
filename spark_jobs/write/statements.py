"""The SQL that applies one table's net changes: pure functions from names to one statement.

A statement is one Delta commit, so Delta skips all of it when the table has its version already. `view` is a temporary
view over the net changes (docs/decoding.md, "Net changes").
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.changes.net import ANEW, GONE
from spark_jobs.lake.equality import FEWER_COPIES, any_value, exactly, same
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import COUNT, OP, LakeColumn


def append_upserts(path: str, view: str, columns: Sequence[str]) -> str:
    """Returns an INSERT for an empty table, where deletes match nothing."""
    listed = ", ".join(map(quote, columns))
    return f"INSERT INTO delta.{quote(path)} ({listed}) SELECT {listed} FROM {view} WHERE {OP} = 1"  # noqa: S608


def append_rows(path: str, rows: str, columns: Sequence[str]) -> str:
    """Returns an INSERT that adds each row once."""
    listed = ", ".join(map(quote, columns))
    return f"INSERT INTO delta.{quote(path)} ({listed}) SELECT {listed} FROM {rows}"  # noqa: S608


def merge_keyed(
    path: str,
    view: str,
    columns: Sequence[str],
    key: Sequence[str],
    *,
    deletes: bool,
    between: tuple[int, int] | None = None,
) -> str:
    """Returns one MERGE by key, after which the table has the rows of `view` whatever it had before. If no row matches,
    Delta appends, as fast as without a clause for rows that match. `between` bounds a key of one integer, so that
    Spark leaves files out."""
    condition = [f"t.{quote(name)} = s.{quote(name)}" for name in key]
    if between is not None:
        condition.append(f"t.{quote(key[0])} BETWEEN {between[0]} AND {between[1]}")
    sets = ", ".join(f"t.{quote(name)} = s.{quote(name)}" for name in columns)
    only = f" AND s.{OP} = 1" if deletes else ""
    clauses = [f"WHEN MATCHED AND s.{OP} = 2 THEN DELETE"] if deletes else []
    clauses += [f"WHEN MATCHED THEN UPDATE SET {sets}", f"WHEN NOT MATCHED{only} THEN {_insert(columns)}"]
    return f"MERGE INTO delta.{quote(path)} AS t USING {view} AS s ON {' AND '.join(condition)} {' '.join(clauses)}"


def merge_last(
    path: str,
    rows: str,
    columns: Sequence[str],
    key: Sequence[str],
    own: Own,
    between: tuple[int, int] | None = None,
    kept: Sequence[str] = (),
) -> str:
    """Returns one MERGE by key of the rows of `ImageQuery.last`, for a table with columns of Sluice's or of `kept`: its
    columns that the source has dropped. The rows then need `ANEW`. `between` bounds a key of one integer.

    With soft deletes the image that a delete logs is merged too: the row has its last values, however the changes are
    cut into batches, also if it was inserted and deleted within one. A column that the source has dropped, and the
    table keeps (`ddl: lenient`), is NULL in a row that came anew, however the changes are cut.
    """
    condition = [f"t.{quote(name)} = s.{quote(name)}" for name in key]
    if between is not None:
        condition.append(f"t.{quote(key[0])} BETWEEN {between[0]} AND {between[1]}")
    names = [*columns, *own.names]
    inserted = f"s.{ANEW} OR (t.{DELETED} AND NOT s.{GONE})" if own.soft else f"s.{ANEW}"
    left_out = [f"t.{quote(name)} = CASE WHEN {inserted} THEN NULL ELSE t.{quote(name)} END" for name in kept]
    sets = ", ".join([*(f"t.{quote(name)} = s.{quote(name)}" for name in names), *left_out])
    gone, left = ("", "") if own.soft else (f"WHEN MATCHED AND s.{GONE} THEN DELETE ", f" AND NOT s.{GONE}")
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING {rows} AS s ON {' AND '.join(condition)} "
        f"{gone}WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED{left} THEN {_insert(names)}"
    )


def merge_copies(path: str, net: str, columns: Sequence[LakeColumn]) -> str:
    """Returns one MERGE for a table without a key: a row that loses copies loses all of them and gets the rest back.
    `net` has each distinct row once.

    Rows are equal when the lake's values are, NULL equal to NULL, and 0.0 not equal to -0.0, although Spark takes both
    for one value. The statement raises FEWER_COPIES in Spark when it removes more copies of a row than the table has.
    """
    names = [quote(column.name) for column in columns]
    kept = ", ".join(f"{any_value('n', column)} AS {quote(column.name)}" for column in columns)
    counted = (
        f"SELECT {kept}, n.{COUNT} AS _sluice_net, count(l._sluice_one) AS _sluice_have "  # noqa: S608
        f"FROM {net} AS n LEFT JOIN (SELECT *, 1 AS _sluice_one FROM delta.{quote(path)}) AS l "
        f"ON n.{COUNT} < 0 AND {same('n', 'l', columns)} GROUP BY {exactly('n', columns)}, n.{COUNT}"
    )
    short = f"raise_error(concat('{FEWER_COPIES}: ', _sluice_have, ' in the lake, ', -_sluice_net, ' deleted'))"
    copies = (
        f"CASE WHEN _sluice_have + _sluice_net < 0 THEN CAST({short} AS INT) "
        "ELSE CAST(_sluice_have + _sluice_net AS INT) END"
    )
    gone = "CASE WHEN _sluice_net < 0 THEN array(2) ELSE CAST(array() AS ARRAY<INT>) END"
    plain = ", ".join(names)
    source = f"SELECT {plain}, explode(concat({gone}, array_repeat(1, {copies}))) AS {OP} FROM ({counted})"  # noqa: S608
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING ({source}) AS s ON s.{OP} = 2 AND {same('t', 's', columns)} "
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.{OP} = 1 THEN {_insert([c.name for c in columns])}"
    )


def _insert(columns: Sequence[str]) -> str:
    names = ", ".join(map(quote, columns))
    values = ", ".join(f"s.{quote(name)}" for name in columns)
    return f"INSERT ({names}) VALUES ({values})"  # noqa: S608
