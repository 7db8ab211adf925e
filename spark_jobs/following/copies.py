"""The SQL of a log whose table has no primary key: the copies that its rows add to a table, or take. Pure functions.

Each image of an insert is a copy more and each of a delete one less; an update takes the one from before it and adds
the one behind it. Rows are equal as `lake.equality` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spark_jobs.apply.statements import merge_copies
from spark_jobs.apply.transaction import NOT_A_ROW
from spark_jobs.copy.changes import GONE
from spark_jobs.copy.fold import by_copies
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import COUNT, LakeColumn
from spark_jobs.landing.columns import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE

NEW_EPOCH = "SLUICE_NEW_EPOCH"  # how a view says that it must be made anew


def counted(log: str, where: str, columns: Sequence[LakeColumn]) -> str:
    """A query in brackets: of each of the log's rows that `where` names the columns, and in `COUNT` what it adds."""
    listed = ", ".join(quote(column.name) for column in columns)
    return f"(SELECT {listed}, {_copies()} AS {COUNT} FROM {log} WHERE {where})"  # noqa: S608


def merge_counted(path: str, log: str, where: str, columns: Sequence[LakeColumn]) -> str:
    """One MERGE of these rows. Not safe to repeat: the version of its commit keeps it from that."""
    return merge_copies(path, counted(log, where, columns), columns)


def append_inserted(path: str, log: str, where: str, columns: Sequence[LakeColumn]) -> str:
    """The same where all rows were inserted."""
    listed = ", ".join(quote(column.name) for column in columns)
    return f"INSERT INTO delta.{quote(path)} ({listed}) SELECT {listed} FROM {log} WHERE {where}"  # noqa: S608


def with_copies(
    rows: str, log: str, where: str, columns: Sequence[LakeColumn], there: Collection[str], known: str = "true"
) -> str:
    """The query of `rows` with what the log's rows that `where` names add and take. `there`: the columns that the log
    has. It raises an error for rows that are not `known` to count: a condition."""
    listed = ", ".join(log_value("l", column, there) for column in columns)
    gone = f"CASE WHEN {known} THEN {_copies()} < 0 ELSE CAST(raise_error('{NEW_EPOCH}') AS BOOLEAN) END"
    return by_copies(rows, f"SELECT {listed}, {gone} AS {GONE} FROM {log} AS l WHERE {where}", columns)  # noqa: S608


def log_value(alias: str, column: LakeColumn, there: Collection[str]) -> str:
    """A column of the merged table as its log has it."""
    value = f"{alias}.{quote(column.name)}" if column.name in there else "NULL"
    return f"CAST({value} AS {column.type}) AS {quote(column.name)}"


def _copies() -> str:
    return (
        f"CASE WHEN {OP} IN ('{INSERT}', '{UPDATE_AFTER}') THEN 1 WHEN {OP} IN ('{DELETE}', '{UPDATE_BEFORE}') THEN -1 "
        f"ELSE CAST(raise_error(concat('{NOT_A_ROW}: ', coalesce({OP}, ''))) AS INT) END"
    )
