"""`Requeuer`: brings rows of a quarantine into their table, or drops them.

A row in quarantine is the last one that the source had, or its key would have ended it. So to bring it into the table
makes the lake equal to the source. It is a commit like a repair, at the table's present place; then the rows leave the
quarantine. Killed in between, it is done again: the rows are in the table once, as they are by key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import ConfigError
from spark_jobs.changes.keys import key_texts
from spark_jobs.expectations import quarantine as waiting
from spark_jobs.expectations.quarantine import BatchEnd, by_check
from spark_jobs.expectations.quarantine_table import AFTER_STATEMENT, OpenedQuarantine, QuarantineTable
from spark_jobs.expectations.row_judge import CHECK
from spark_jobs.lake import own_columns as own
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import TableState
from spark_jobs.load.replacement import Target
from spark_jobs.load.rewrite import Rewrite
from spark_jobs.session import Sessions
from spark_jobs.write.view import create_sent_view

_VIEW = "sluice_requeued"
_HINT = "SELECT * FROM the quarantine shows its rows, with their checks."


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Which rows of a quarantine: those that failed `check`, "" for any, and whose key is one of `keys`, such as
    `id=5`; all without one."""

    check: str = ""
    keys: Collection[str] = ()

    def of(self, rows: pa.Table, key: Sequence[str]) -> np.ndarray:
        """Returns, for each row, whether it is chosen. Raises ConfigError for a key that does not wait."""
        texts = key_texts(rows, key)
        if missing := sorted(set(self.keys).difference(texts)):
            raise ConfigError(f"no row waits with the key {missing[0]}", place="keys", hint=_HINT)
        checks = [names.split(", ") for names in rows[CHECK].to_pylist()]
        return np.array(
            [
                (not self.check or self.check in names) and (not self.keys or text in self.keys)
                for text, names in zip(texts, checks, strict=True)
            ],
            bool,
        )


@dataclass(frozen=True, slots=True)
class Requeued:
    """How many rows left a quarantine, and how many wait still; `waiting`: these by check, also of checks that no row
    waits for any more. `delta_version`: of the table's commit, None without one."""

    rows: int
    left: int
    waiting: Mapping[str, int]
    delta_version: int | None = None


@dataclass(frozen=True, slots=True)
class Requeuer:
    """The quarantine of one table."""

    target: Target
    sessions: Sessions

    def requeue(self, chosen: ChosenRows, values: Mapping[str, str]) -> Requeued:
        """Brings the rows into the table, with these values by column, "NULL" for NULL. Raises ConfigError for rows or
        values that there cannot be, WentOn if another run wrote the table meanwhile."""
        state = self._state()
        rewrite = Rewrite.begun(self.target, self.sessions, state.applied or 0)
        state, opened = rewrite.state, self._opened(rewrite.state)
        taken = chosen.of(opened.rows, state.primary_key)
        rows = requeued_rows(opened.rows.filter(pa.array(taken)), state, values)
        if not rows.num_rows:
            return Requeued(0, opened.rows.num_rows, by_check(opened.rows))
        about = rewrite.about("requeue", {"rows": rows.num_rows, "epoch": self.target.client.epoch})
        made = rewrite.commit(about, partial(_merge, self.target.path, rows, state), "Reload the table (sluice copy).")
        return self._left(opened, state, taken, made.version)

    def drop(self, chosen: ChosenRows) -> Requeued:
        """Drops the rows, and those from before the table's base: the table stays as it is. Raises ConfigError for rows
        that there are not."""
        self._state()  # first: nothing is written to a table that has no quarantine
        state = self.target.entered()
        assert state is not None
        opened = self._opened(state)
        taken = chosen.of(opened.rows, state.primary_key)
        if not taken.any() and not opened.is_stale:
            return Requeued(0, opened.rows.num_rows, by_check(opened.rows))
        return self._left(opened, state, taken, None)

    def _state(self) -> TableState:
        target = self.target
        state = target.lake.state(target.path, target.app)
        if state is None or not self._place.exists:
            raise ConfigError(f"{target.name} has no quarantine", place=self._place.path, hint="No row waits.")
        state.check_owner(target.client.destination, target.name, target.path)
        return state

    def _opened(self, state: TableState) -> OpenedQuarantine:
        """Returns the quarantine of the table, which is fenced before it: a batch of which the quarantine has its rows
        and the table has none yet is refused by the table, so that both are without it."""
        target, place = self.target, self._place
        place.entered(target.fence, pa.schema([]))
        return place.read(state, target.client.epoch, target.app)

    def _left(self, opened: OpenedQuarantine, state: TableState, taken: np.ndarray, version: int | None) -> Requeued:
        """Commits the quarantine without these rows."""
        left, target = opened.rows.filter(pa.array(~taken)), self.target
        end = BatchEnd(None, target.client.epoch, (state.applied or 0) + AFTER_STATEMENT)
        self._place.commit(opened, left, target.fence.token, end, target.app)
        before, after = by_check(opened.rows), by_check(left)
        return Requeued(int(taken.sum()), left.num_rows, {name: after[name] for name in before}, version)

    @property
    def _place(self) -> QuarantineTable:
        target = self.target
        return QuarantineTable(target.lake, target.client.destination, target.name)


def requeued_rows(rows: pa.Table, state: TableState, values: Mapping[str, str]) -> pa.Table:
    """Returns the rows with the table's columns of the source, those of Sluice's, and the given values. Raises
    ConfigError for a column that the table does not have or that is in its key, for an invalid value, and for columns
    that came after the rows and are not given."""
    names = [column.name for column in state.columns]
    for name in values:
        if name not in names or name in state.primary_key:
            why = "is in its primary key" if name in state.primary_key else "is not a column of the table"
            raise ConfigError(f"{name} {why}", place="values", hint=f"Give values of {', '.join(names)}.")
    _check_whole(rows, names, values)
    columns, none = {}, pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
    for name in names:
        there = rows.column(name) if name in rows.column_names else none
        columns[name] = _given(name, values[name], there) if name in values else there
    last = {
        own.DELETED: pa.array(np.zeros(rows.num_rows, bool)),
        own.POSITION: rows[waiting.PLACE],
        own.COMMIT_TIME: rows[waiting.TIME],
        own.LAST_OP: rows[waiting.OP],
    }
    return pa.table(columns | {name: last[name] for name in state.own.names})


def _check_whole(rows: pa.Table, names: Sequence[str], values: Mapping[str, str]) -> None:
    """Raises ConfigError for rows without a value of a column, which the source may have given one since."""
    lacked = set().union(*waiting.lacks(rows)) | {name for name in names if name not in rows.column_names}
    if missing := [name for name in names if name in lacked and name not in values]:
        said = f"rows that wait are from before the column {missing[0]}"
        hint = (
            f"Give its value (--set {missing[0]}=..., NULL for none; --key chooses rows), or reload the table (sluice "
            "copy), which has the source's values and ends the quarantine."
        )
        raise ConfigError(said, place="values", hint=hint)


def _given(name: str, value: str, there: pa.ChunkedArray) -> pa.ChunkedArray:
    text = None if value == "NULL" else value
    try:
        return pa.chunked_array([pa.array([text] * len(there), pa.string()).cast(there.type)])
    except pa.ArrowException as error:
        hint = "Write numbers in digits, a date as 2026-11-26, and NULL for no value."
        raise ConfigError(f"{value!r} is not a value of {name} ({there.type})", place="values", hint=hint) from error


def _merge(path: str, rows: pa.Table, state: TableState, spark: SparkSession) -> None:
    create_sent_view(spark, rows, _VIEW)
    spark.sql(statement(path, state)).collect()


def statement(path: str, state: TableState) -> str:
    """Returns one MERGE by key, after which the table has the rows. Values are cast to the table's types: the columns
    may have got other types since the rows came."""
    columns = [*state.columns, *state.own.columns]
    cast = {column.name: f"CAST(s.{quote(column.name)} AS {column.type})" for column in columns}
    same = " AND ".join(f"t.{quote(name)} = {cast[name]}" for name in state.primary_key)
    sets = ", ".join(f"t.{quote(name)} = {value}" for name, value in cast.items())
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING {_VIEW} AS s ON {same} "  # noqa: S608
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(map(quote, cast))}) VALUES ({', '.join(cast.values())})"
    )
