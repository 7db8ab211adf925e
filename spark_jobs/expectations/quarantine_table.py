"""`QuarantineTable`: the Delta table `{table}__quarantine`, with the rows of a table that failed an expectation.

It is small, so each commit writes it whole, and it follows every definition of its table. It is made, and fenced,
before a batch is evaluated: a commit of an earlier run, which read it before, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.expectations.quarantine import SYSTEM, BatchEnd, counting
from spark_jobs.lake.failures import first_line, store_failed
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.queries import selected_table
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.state import DESTINATION, FENCE, QUARANTINE, TABLE, TableState
from spark_jobs.lake.statistics import exact_statistics
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.tidy import tidy

AFTER_STATEMENT = 1  # after the place of a RENAME: there is what it brought; no event ends there
_NOTE = "quarantine"  # in the user metadata of a batch's commit
_HINT = "Make it readable and writable; the batch stays claimable."
_DAMAGED = "Restore it; or move it away and reload the table (sluice copy), which then has all rows of the source."


@dataclass(frozen=True, slots=True)
class OpenedQuarantine:
    """A quarantine as it was read: `table` at its newest version, and the rows that count. `is_stale`: the table has
    others, of a batch that died or from before its table's base."""

    table: DeltaTable
    rows: pa.Table
    is_stale: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.rows.num_rows


@dataclass(frozen=True, slots=True)
class QuarantineTable:
    """The quarantine of `database.table` of a destination."""

    lake: Lake
    destination: str
    name: str

    @property
    def path(self) -> str:
        return self.lake.quarantine_path(*split_name(self.name))

    @property
    def exists(self) -> bool:
        """Whether there is a table at its place. Raises LakeError."""
        database, table = split_name(self.name)
        return self.lake.has(database, f"{table}__quarantine")

    def count(self) -> int:
        """Returns how many rows it has, by its log alone. Raises LakeError."""
        try:
            return int(pc.sum(pa.table(self.lake.open(self.path).get_add_actions())["num_records"]).as_py() or 0)
        except (DeltaError, OSError) as error:
            message = f"the quarantine cannot be read: {first_line(error)}"
            raise LakeError(message, place=self.path, hint=_HINT) from error

    def noted(self) -> list[tuple[int, int, int]]:
        """Returns epoch and version of the batch of each commit that its log still has, in order, with the count of
        rows then. Raises LakeError."""
        try:
            entries = self.lake.open(self.path).history()
        except (DeltaError, OSError) as error:
            message = f"the quarantine cannot be read: {first_line(error)}"
            raise LakeError(message, place=self.path, hint=_HINT) from error
        return [(*at, _note(entry)["rows"]) for entry in reversed(entries) if (at := _place(entry)) is not None]

    def entered(self, fence: Fence, columns: pa.Schema) -> None:
        """Makes the table if there is none, with a table's own `columns`, and fences it for the run. Raises
        TableStopped for a table of somebody else, LakeError."""
        state = self.lake.state(self.path, "")
        if state is None:
            self._create(columns, fence.token)
            fence.skip(self.path)
            return
        self._check(state)
        if fence.entered(self.path) and not fence.owns(state):  # another run came between two batches
            fence.leave(self.path)
        fence.enter(self.path, "", state)

    def read(self, state: TableState, epoch: int, app: str) -> OpenedQuarantine:
        """Returns the quarantine as it belongs to a table in this `state`, whose batches of `epoch` have the app id
        `app`: a batch that died may have committed more to it. Rows from before the table's base do not count. Raises
        TableStopped for a damaged one, LakeError."""
        try:
            table = self.lake.open(self.path)
            belonging = self._belonging(table, (epoch, state.applied or 0), app)
            rows = _rows(belonging)
        except Exception as error:  # delta-rs has no class for those of a file
            if store_failed(error):
                message = f"the quarantine cannot be read: {first_line(error)}"
                raise LakeError(message, place=self.path, hint=_HINT) from error
            message = f"the quarantine is damaged: {first_line(error)}"
            raise TableStopped(message, place=self.path, hint=_DAMAGED) from error
        base = state.base
        counted = counting(rows, (base.epoch, base.low) if base else None)
        return OpenedQuarantine(table, counted, belonging is not table or counted.num_rows < rows.num_rows)

    def _belonging(self, table: DeltaTable, place: tuple[int, int], app: str) -> DeltaTable:
        """Returns the last version of the table that a batch up to that place, or a RENAME there, committed."""
        last, reached = table.transaction_version(_app(app)), (place[0], place[1] + AFTER_STATEMENT)
        if last is None or last <= reached[1]:
            return table
        noted = ((entry["version"], _place(entry)) for entry in table.history())
        version = next((version for version, at in noted if at is not None and at <= reached), 0)
        return self.lake.open(self.path, version)

    def commit(self, opened: OpenedQuarantine, rows: pa.Table, token: str, end: BatchEnd, app: str) -> None:
        """Replaces the rows by those after a batch. `token`: of the run's fence; `app`: the app id of the table's
        batches. Raises TableStopped if it cannot have them, LakeError if it is another run's by now."""
        if opened.table.metadata().configuration.get(FENCE) != token:
            raise self._taken()
        about = {"userMetadata": json.dumps({_NOTE: {**asdict(end), "rows": rows.num_rows}})}
        noted = CommitProperties(
            custom_metadata=about, max_commit_retries=0, app_transactions=app_versions({_app(app): end.version})
        )
        try:
            write_deltalake(
                opened.table, rows, mode="overwrite", schema_mode="overwrite",
                writer_properties=exact_statistics(rows.schema), commit_properties=noted,
            )  # fmt: skip
        except CommitFailedError as error:
            raise self._taken() from error
        except (DeltaError, OSError) as error:
            if store_failed(error):
                message = f"the quarantine cannot be written: {first_line(error)}"
                raise LakeError(message, place=self.path, hint=_HINT) from error
            message = f"the quarantine does not take its rows: {first_line(error)}"
            raise TableStopped(message, place=self.path, hint=_DAMAGED) from error
        with suppress(DeltaError, OSError):  # files that no version needs stay a little longer
            tidy(self.lake.open(self.path))

    def _create(self, columns: pa.Schema, token: str) -> None:
        properties = {DESTINATION: self.destination, TABLE: self.name, QUARANTINE: "true", FENCE: token}
        schema = Schema.from_arrow(pa.schema([*columns.remove_metadata(), *SYSTEM]))
        try:
            DeltaTable.create(
                self.path, schema, mode="error", configuration=properties, raise_if_key_not_exists=False,
                description=f"Rows of {self.name} that failed an expectation.",
                storage_options=self.lake.storage or None,
            )  # fmt: skip
        except (DeltaError, OSError) as error:
            message = f"the quarantine cannot be made: {first_line(error)}"
            raise LakeError(message, place=self.path, hint=_HINT) from error

    def _check(self, state: TableState) -> None:
        state.check_owner(self.destination, self.name, self.path)
        if QUARANTINE not in state.properties:
            hint = "Move that table away, or rename the source's table. Nothing was written to it."
            raise LakeError("the place of the quarantine has another table", place=self.path, hint=hint)

    def _taken(self) -> LakeError:
        hint = "No action needed: the run that has the claim now writes it."
        return LakeError("another run has taken the quarantine over", place=self.path, hint=hint)


def _app(app: str) -> str:
    return f"{app}:quarantine"


def _rows(table: DeltaTable) -> pa.Table:
    return selected_table(table, "q", "SELECT * FROM q").cast(pa.schema(table.schema().to_arrow()))


def _place(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns epoch and version of the batch that made a commit, None for other commits."""
    noted = _note(entry)
    return (noted["epoch"], noted["version"]) if noted else None


def _note(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a commit of a batch notes, nothing for other commits."""
    try:
        noted: dict[str, Any] = json.loads(entry.get("userMetadata") or "{}").get(_NOTE) or {}
    except ValueError:
        return {}
    return noted
