"""The rows that were read, with the changes of the log between two versions over them: one query of Spark.

With a key, the last change of each key counts; keys compare as in the lake's MERGE. Rows that were read later than a
change are right again with what follows. Without a key, the rows were read at exactly the lower version, and each
change adds or takes one copy. Copies are equal where the lake's values are: NULL equals NULL, 0.0 does not equal -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from spark_jobs.copy.changes import GONE, NTH, VERSION
from spark_jobs.lake.equality import FEWER_COPIES, any_value, exactly, same
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import LakeColumn

_COPIES = "_sluice_copies"


def folded(
    spark: SparkSession, staged: str, log: str, types: Sequence[str], key: Sequence[int], low: int, upto: int
) -> DataFrame:
    """`staged` and `log` are paths; `types` are the columns' in SQL, `key` the key's numbers. The columns of the rows
    have numbers for names. The changes behind version `low` up to `upto` count."""
    columns = [LakeColumn(str(number), kind) for number, kind in enumerate(types)]
    names = [quote(column.name) for column in columns]
    changes = f"SELECT * FROM delta.{quote(log)} WHERE {VERSION} > {low:d} AND {VERSION} <= {upto:d}"  # noqa: S608
    rows = f"(SELECT * FROM delta.{quote(staged)} AS r({', '.join(names)}))"  # noqa: S608
    if key:
        return spark.sql(_by_key(rows, changes, names, [names[number] for number in key]))
    return spark.sql(by_copies(rows, changes, columns))


def _by_key(staged: str, changes: str, names: Sequence[str], key: Sequence[str]) -> str:
    listed, keys = ", ".join(names), ", ".join(key)
    order = f"row_number() OVER (PARTITION BY {keys} ORDER BY {VERSION} DESC, {NTH} DESC)"
    last = f"SELECT * FROM (SELECT *, {order} AS _sluice_rank FROM ({changes})) WHERE _sluice_rank = 1"  # noqa: S608
    same = " AND ".join(f"s.{name} = l.{name}" for name in key)
    kept = f"SELECT {', '.join(f's.{name}' for name in names)} FROM {staged} s LEFT ANTI JOIN last l ON {same}"  # noqa: S608
    return f"WITH last AS ({last}) {kept} UNION ALL SELECT {listed} FROM last WHERE NOT {GONE}"  # noqa: S608


def by_copies(staged: str, changes: str, columns: Sequence[LakeColumn]) -> str:
    """The rows of `staged` with the copies that `changes` add and take; `GONE` marks those that take one."""

    def values(alias: str) -> str:
        return ", ".join(f"{any_value(alias, column)} AS {quote(column.name)}" for column in columns)

    listed, kept = (", ".join(f"{alias}{quote(column.name)}" for column in columns) for alias in ("", "s."))
    net = (
        f"SELECT {values('c')}, sum(IF(c.{GONE}, -1, 1)) AS {_COPIES} "  # noqa: S608
        f"FROM ({changes}) c GROUP BY {exactly('c', columns)} HAVING {_COPIES} <> 0"
    )
    left = (
        f"SELECT {values('f')}, f.{_COPIES} + count(s._sluice_one) AS {_COPIES} "  # noqa: S608
        f"FROM fewer f LEFT JOIN (SELECT *, 1 AS _sluice_one FROM {staged}) s ON {same('s', 'f', columns)} "
        f"GROUP BY {exactly('f', columns)}, f.{_COPIES}"
    )
    short = f"CAST(raise_error(concat('{FEWER_COPIES}: ', -{_COPIES}, ' too many')) AS INT)"
    copies = f"explode(array_repeat(1, IF({_COPIES} < 0, {short}, CAST({_COPIES} AS INT))))"
    grown = f"SELECT {listed}, {copies} FROM (SELECT * FROM net WHERE {_COPIES} > 0 UNION ALL {left})"  # noqa: S608
    return (
        f"WITH net AS ({net}), fewer AS (SELECT * FROM net WHERE {_COPIES} < 0) "  # noqa: S608
        f"SELECT {kept} FROM {staged} s LEFT ANTI JOIN fewer f ON {same('s', 'f', columns)} "
        f"UNION ALL SELECT {listed} FROM ({grown})"
    )
