"""The SQL of net changes: the last image of each key, or signed counts of equal rows without a key. Pure.

Images come from a claim or from a change log. If Arrow can sort a part of a log, `in_order` finds the same without
Spark. For a claim the service computes both itself (docs/decoding.md, "Net changes").
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spark_jobs.changes import columns as log
from spark_jobs.lake.equality import FEWER_COPIES, any_value, exactly, same
from spark_jobs.lake.own_columns import COMMIT_TIME, DELETED, LAST_OP, NO_OWN, POSITION, Own
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import COUNT, OP, LakeColumn

NO_KEY, NOT_A_ROW = "SLUICE_NO_KEY", "SLUICE_NOT_A_ROW"  # how a statement in Spark reports an invalid image
GONE, ANEW = "_sluice_gone", "_sluice_anew"
_RANK = "_sluice_rank"
_ONE = "_sluice_one"  # of the copies of a row
_CAME = "_sluice_came"  # whether an image is of a row that was not there
_THERE = f"{OP} IN ('{log.INSERT}', '{log.UPDATE_AFTER}')"
_BEFORE = f"{OP} IN ('{log.DELETE}', '{log.UPDATE_BEFORE}')"
_PLACE = f"concat({log.JOURNAL}, ':', {log.POSITION})"
_LAST_OP = f"CASE {OP} WHEN 'update_after' THEN 'update' WHEN 'update_before' THEN 'delete' ELSE {OP} END"


_AFTER = f"{OP} = '{log.UPDATE_AFTER}'"


@dataclass(frozen=True, slots=True)
class ImageForm:
    """The columns that order images, the earliest first, and the column of their time. `row`: what the two images of
    one updated row have in common, and no other ones."""

    order: tuple[str, ...]
    time: str
    row: tuple[str, ...]


CLAIMED = ImageForm(
    (log.JOURNAL, log.POSITION, log.ROW, _AFTER), "_sluice_timestamp", (log.JOURNAL, log.POSITION, log.ROW)
)
LOGGED = ImageForm(
    (log.EPOCH, log.VERSION, log.NTH), log.TIME, (log.EPOCH, log.VERSION, f"{log.NTH} - CAST({_AFTER} AS INT)")
)


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """The images of one table that a query finds: the rows of `source` for which `where` holds. `columns` are the
    table's columns in `source`, `key` its primary key, empty for a table without a key."""

    source: str
    columns: tuple[LakeColumn, ...]
    key: tuple[str, ...]
    where: str = "true"
    form: ImageForm = LOGGED

    def net(self) -> str:
        """Returns a query in brackets. With a key: the columns of each key's last image, and `OP`, 1 for a key that has
        a row then, 2 for a key without a row. Without a key: each distinct row, and `COUNT`, the copies added or
        removed."""
        if not self.key:
            return grouped(self._counted(), self.columns)
        return f"(SELECT {self._listed()}, {image_op(self.key)} AS {OP} FROM ({self._last()}))"  # noqa: S608

    def last(self, own: Own, *, anew: bool = False) -> str:
        """Returns a query in brackets, for a table that has columns of `own`: the columns of each key's last image and
        these, and `GONE`: whether the key has no row then; `anew`: also `ANEW`, whether a row of it came: it was
        inserted, or had another key before."""
        values = {DELETED: GONE, POSITION: _PLACE, COMMIT_TIME: self.form.time, LAST_OP: _LAST_OP}
        listed = [self._listed(), GONE, *([ANEW] if anew else ()), *(f"{values[name]} AS {name}" for name in own.names)]
        last = f"SELECT *, {image_op(self.key)} = 2 AS {GONE} FROM ({self._last(anew=anew)})"  # noqa: S608
        return f"(SELECT {', '.join(listed)} FROM ({last}))"  # noqa: S608

    def over(self, rows: str, columns: Sequence[LakeColumn], kept: Collection[str] = (), own: Own = NO_OWN) -> str:
        """Returns a query: `rows`, which have `columns` and those of `own`, as a MERGE of these changes leaves them. A
        column that the images lack becomes NULL in the rows that they write; one of `kept` stays as it was, unless the
        row came anew. A table without a key has neither. It raises FEWER_COPIES if more copies of a row without a key
        are removed than there are."""
        there = {column.name for column in self.columns}
        values = {column.name: _cast("l", column, there) for column in columns}
        if not self.key:
            counted = f"(SELECT {', '.join(values.values())}, l.{COUNT} FROM {self._counted()} AS l)"  # noqa: S608
            return _copies_over(rows, grouped(counted, columns), columns)
        values |= {column.name: _cast("l", column, {column.name}) for column in own.columns}
        values |= {name: f"CASE WHEN l.{ANEW} THEN NULL ELSE t.{quote(name)} END AS {quote(name)}" for name in kept}
        listed, last = ", ".join(f"t.{quote(name)}" for name in values), self.last(own, anew=bool(kept))
        on = " AND ".join(f"t.{quote(name)} = l.{quote(name)}" for name in self.key)
        before = f" LEFT JOIN {rows} AS t ON {on}" if kept else ""
        there_then = "" if own.soft else f" WHERE NOT l.{GONE}"
        return (
            f"SELECT {listed} FROM {rows} AS t LEFT ANTI JOIN {last} AS l ON {on} "  # noqa: S608
            f"UNION ALL SELECT {', '.join(values.values())} FROM {last} AS l{before}{there_then}"
        )

    def inserted(self) -> str:
        """Returns a query in brackets: the rows, if all images are inserts."""
        return f"(SELECT {self._listed()} FROM {self.source} WHERE {self.where})"  # noqa: S608

    def _listed(self) -> str:
        return ", ".join(quote(column.name) for column in self.columns)

    def _last(self, *, anew: bool = False) -> str:
        keys, source = ", ".join(map(quote, self.key)), f"{self.source} WHERE {self.where}"
        order = ", ".join(f"{one} DESC" for one in self.form.order)
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS {_RANK}"
        if anew:
            ranked += f", max({_CAME}) OVER (PARTITION BY {keys}) AS {ANEW}"
            row = f"struct({OP} = '{log.UPDATE_BEFORE}', {', '.join(self.form.row)})"
            before = f"lag({row}) OVER (PARTITION BY {keys} ORDER BY {', '.join(self.form.order)})"
            stayed = f"coalesce({_AFTER} AND {before} = struct(true, {', '.join(self.form.row)}), false)"
            source = f"(SELECT *, {_THERE} AND NOT {stayed} AS {_CAME} FROM {source})"  # noqa: S608
        return f"SELECT * FROM ({ranked} FROM {source}) WHERE {_RANK} = 1"  # noqa: S608

    def _counted(self) -> str:
        copies = f"CASE WHEN {_THERE} THEN 1 WHEN {_BEFORE} THEN -1 ELSE {_raised(NOT_A_ROW)} END"
        return f"(SELECT {self._listed()}, {copies} AS {COUNT} FROM {self.source} WHERE {self.where})"  # noqa: S608


def image_op(key: Sequence[str]) -> str:
    """Returns the SQL of an image's effect on its key: 1 if the row exists then, 2 if it is gone."""
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in key)
    return (
        f"CASE WHEN {OP} = '{log.TRUNCATE}' THEN {_raised(NOT_A_ROW)} WHEN {missing} THEN {_raised(NO_KEY)} "
        f"WHEN {_THERE} THEN 1 WHEN {_BEFORE} THEN 2 ELSE {_raised(NOT_A_ROW)} END"
    )


def grouped(rows: str, columns: Sequence[LakeColumn]) -> str:
    """Returns a query in brackets: each distinct row of `rows` whose `COUNT` is not 0 in sum, and that sum. Rows are
    distinct by the lake's values: different values of the source, such as a zero date and NULL, may be equal there."""
    values = ", ".join(f"{any_value('v', column)} AS {quote(column.name)}" for column in columns)
    return (
        f"(SELECT {values}, sum(v.{COUNT}) AS {COUNT} FROM {rows} AS v "  # noqa: S608
        f"GROUP BY {exactly('v', columns)} HAVING sum(v.{COUNT}) <> 0)"
    )


def repeated(rows: str, columns: Sequence[LakeColumn]) -> str:
    """Returns a query in brackets: each of `rows` as often as its `COUNT` says."""
    listed = ", ".join(quote(column.name) for column in columns)
    copies = f"SELECT {listed}, explode(array_repeat(1, CAST({COUNT} AS INT))) AS {_ONE} FROM {rows}"  # noqa: S608
    return f"(SELECT {listed} FROM ({copies}))"  # noqa: S608


def _copies_over(rows: str, net: str, columns: Sequence[LakeColumn]) -> str:
    """Returns the query of `rows` with the copies that `net` adds and removes: a row that loses copies is counted
    again."""
    values = ", ".join(f"{any_value('f', column)} AS {quote(column.name)}" for column in columns)
    listed, kept = (", ".join(f"{alias}{quote(column.name)}" for column in columns) for alias in ("", "s."))
    left = (
        f"SELECT {values}, f.{COUNT} + count(s.{_ONE}) AS {COUNT} "  # noqa: S608
        f"FROM fewer f LEFT JOIN (SELECT *, 1 AS {_ONE} FROM {rows}) s ON {same('s', 'f', columns)} "
        f"GROUP BY {exactly('f', columns)}, f.{COUNT}"
    )
    short = f"CAST(raise_error(concat('{FEWER_COPIES}: ', -{COUNT}, ' too many')) AS INT)"
    copies = f"explode(array_repeat(1, IF({COUNT} < 0, {short}, CAST({COUNT} AS INT)))) AS {_ONE}"
    grown = f"SELECT {listed}, {copies} FROM (SELECT * FROM net WHERE {COUNT} > 0 UNION ALL {left})"  # noqa: S608
    return (
        f"WITH net AS {net}, fewer AS (SELECT * FROM net WHERE {COUNT} < 0) "  # noqa: S608
        f"SELECT {kept} FROM {rows} s LEFT ANTI JOIN fewer f ON {same('s', 'f', columns)} "
        f"UNION ALL SELECT {listed} FROM ({grown})"
    )


def _cast(alias: str, column: LakeColumn, there: set[str]) -> str:
    """A column in the type of the rows that the images go over."""
    value = f"{alias}.{quote(column.name)}" if column.name in there else "NULL"
    return f"CAST({value} AS {column.type}) AS {quote(column.name)}"


def _raised(word: str) -> str:
    return f"CAST(raise_error(concat('{word}: ', coalesce({OP}, ''))) AS INT)"
