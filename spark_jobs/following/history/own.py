"""Creates and fences histories, so that only one run changes each; widens them, and writes their notes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from cdc_core.errors import LakeError, TableStopped
from spark_jobs.changes.versions import CURRENT
from spark_jobs.following.history.columns import MOVE_AWAY, NAMES, OWN, lacking
from spark_jobs.following.history.note import HistoryNote
from spark_jobs.following.history.standing import Histories, HistoryState, standing
from spark_jobs.lake.ddl import LOG_PROPERTIES, alter_table, listed, make_table
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.fence import NOTHING, Fence
from spark_jobs.lake.record import FORM, PROGRESS, new_properties
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import DESTINATION, FENCE, HISTORY, PRIMARY_KEY, TABLE, TableState
from spark_jobs.lake.types import LakeColumn
from spark_jobs.landing.log import OpenedLog
from spark_jobs.session import Sessions

_MAKING: dict[str, Lock] = {}  # by path


@dataclass(frozen=True, slots=True)
class OwnHistories:
    """The histories of one run, by its `fence`."""

    histories: Histories
    sessions: Sessions
    fence: Fence

    def entered(self, table: str, found: HistoryState) -> HistoryState:
        """Returns the history's state, once only this run changes it; creates the history if there is none."""
        histories = self.histories
        path = histories.path(table)
        if found.state is None:
            return self._made(table, path)
        found.state.check_owner(histories.destination, table, path)
        if HISTORY not in found.state.properties:
            hint = "Move that table away, or set `apply: land_first` for this one in defs.yaml."
            raise TableStopped("its history's path holds another Delta table", place=path, hint=hint)
        if found.state.properties.get(PROGRESS) != FORM:
            message = "its history notes its progress as an older version of Sluice did"
            raise TableStopped(message, place=path, hint=MOVE_AWAY)
        if self.fence.enter(path, "", found.state) is found.state:
            return found
        return self._there(table, path)

    def _made(self, table: str, path: str) -> HistoryState:
        """Creates the history, and returns its state. Its own turn and its table's may come at the same time: one of
        them creates it."""
        with _MAKING.setdefault(path, Lock()):
            found = standing(self.histories, table)
            if found is not None and found.state is None:
                begun = (found.table.epoch, found.table.version) if found.table else None
                self._make(table, path, found.log, HistoryNote(begun))
        return self._there(table, path)

    def _there(self, table: str, path: str) -> HistoryState:
        entered = standing(self.histories, table)
        if entered is None or entered.state is None:
            hint = "Find out what removes it; nothing is lost: the log has its rows."
            raise LakeError("the history is gone again", place=path, hint=hint)
        return entered

    def _make(self, table: str, path: str, log: OpenedLog, note: HistoryNote) -> None:
        columns = log.columns
        lacking((), columns, path)  # raises for names that are a history's own
        key, lake = log.definition.primary_key, self.histories.lake
        lake.check_writable()
        properties = {
            DESTINATION: self.histories.destination, TABLE: table, HISTORY: note.to_json(), FENCE: self.fence.token,
            **new_properties(), PRIMARY_KEY: json.dumps(list(key)), **LOG_PROPERTIES,
        }  # fmt: skip
        if not make_table(lake, path, (*columns, *OWN), properties, "", partitions=(CURRENT,)):
            body = ", ".join(column.ddl for column in (*columns, *OWN))
            with self.sessions.take() as spark, lake_errors(path, MOVE_AWAY):
                spark.sql(
                    f"CREATE TABLE delta.{quote(path)} ({body}) USING delta PARTITIONED BY ({CURRENT}) "
                    f"TBLPROPERTIES ({listed(properties)})"
                )
        self.fence.skip(path)

    def widened(self, path: str, wanted: Sequence[LakeColumn], log: OpenedLog) -> tuple[list[str], tuple[str, ...]]:
        """Adds the columns that the history lacks. Returns the names of the `wanted` columns, and the key."""
        key, state = log.definition.primary_key, self.state(path)
        if state.primary_key != key:
            was, now = ", ".join(state.primary_key), ", ".join(key)
            raise TableStopped(f"the primary key was ({was}) and is ({now}) now", place=path, hint=MOVE_AWAY)
        have = [column for column in state.columns if column.name not in NAMES]
        if added := lacking(have, wanted, path):
            with self.sessions.take() as spark, lake_errors(path, MOVE_AWAY):
                if any(column.type == "timestamp_ntz" for column in added):
                    supported = listed({"delta.feature.timestampNtz": "supported"})
                    alter_table(spark, self.fence, path, f"SET TBLPROPERTIES ({supported})")
                body = ", ".join(column.ddl for column in added)
                alter_table(spark, self.fence, path, f"ADD COLUMNS ({body})")
        return [column.name for column in wanted], key

    def note(self, path: str, note: HistoryNote, more: Mapping[str, str] = NOTHING) -> None:
        """Writes the note, and `more` properties."""
        properties = {HISTORY: note.to_json(), **more}
        if self.fence.note(path, properties):
            return
        with self.sessions.take() as spark, lake_errors(path, MOVE_AWAY):
            alter_table(spark, self.fence, path, f"SET TBLPROPERTIES ({listed(properties)})")

    def state(self, path: str) -> TableState:
        """Returns the history's state. Raises LakeError if the history is gone."""
        state = self.histories.lake.state(path, "")
        if state is None:
            hint = "Find out what removes it; nothing is lost: the log has its rows."
            raise LakeError("the history is gone", place=path, hint=hint)
        return state
