"""What was changed in the lake on purpose, next to the ledger: undos, redos, replays and restores, and the rows that
they put.

A correction has a number, and a row in a Delta table for each state of each of its tables. A table's row says that it
`began` before its commit, together with the rows: a row that differs from the source on purpose is known at any time.
After the commit it says `done`; or `void` once it is certain that the commit will never come. Written with delta-rs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from cdc_core.errors import LakeError
from cdc_core.schema.names import split_name
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.folders import folder_of
from spark_jobs.lake.own_tables import open_own
from spark_jobs.lake.queries import selected_table
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.tables import Lake

Kind = Literal["undo", "redo", "replay", "restore"]
State = Literal["asked", "began", "done", "void"]
NOTE = "undo"  # in the user metadata of the commit of a correction
_TRIES = 20
_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("kind", pa.string()),
        ("of", pa.int64()),
        ("epoch", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("asked", pa.string()),
        ("reason", pa.string()),
        ("run_id", pa.string()),
        ("forced", pa.bool_()),
        ("table", pa.string()),
        ("state", pa.string()),
        ("version", pa.int64()),
        ("counts", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Correction:
    """`number` of `kind`, for the changes of `epoch` after version `start` up to version `end`; `of`: the correction
    that a redo takes back. `asked`: the changes as somebody asked for them, `reason`: why; `forced`: rows that were
    changed since are put as well."""

    kind: Kind
    epoch: int
    start: int
    end: int
    asked: str = ""
    reason: str = ""
    run_id: str = ""
    of: int | None = None
    forced: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True)
class CorrectedTable:
    """What a correction did to a table, or was about to do: Delta's `version` of the commit once it is `done`, None if
    there was nothing to put, and `counts` of its rows. `table` is "" for the correction itself, which is `asked`: then
    `counts` has the rows that were to be put, by table."""

    correction: Correction
    table: str
    state: State
    version: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    at: datetime | None = None

    @property
    def put_rows(self) -> bool:
        """Whether it put rows of single keys into the table, or may have."""
        done = self.state == "done" and self.version is not None
        return self.correction.kind != "restore" and (self.state == "began" or done)


@dataclass(frozen=True, slots=True)
class Corrections:
    """The corrections of one client of a destination."""

    lake: Lake
    destination: str
    client_id: int

    @property
    def path(self) -> str:
        return f"{self._home}/corrections"

    def rows_path(self, number: int, table: str) -> str:
        """Returns the path of the rows that a correction puts into a table."""
        return f"{self._home}/corrected/{number}/{'/'.join(map(folder_of, split_name(table)))}"

    def asked(self, correction: Correction, now: datetime, planned: Mapping[str, int] | None = None) -> Correction:
        """Notes a correction, with the rows that are planned by table, and returns it with its number. Raises
        LakeError."""
        for _ in range(_TRIES):
            opened = self._open()
            last = (opened.transaction_version(self._app) or 0) if opened is not None else 0
            numbered = replace(correction, number=last + 1)
            try:
                self._append(opened, CorrectedTable(numbered, "", "asked", counts=planned or {}), now, numbered.number)
            except CommitFailedError:  # another one took the number
                continue
            return numbered
        hint = "Try again when the other jobs have ended. Nothing was changed."
        raise LakeError("others keep noting corrections", place=self.path, hint=hint)

    def began(self, one: CorrectedTable, rows: pa.Table, now: datetime) -> None:
        """Notes what is about to be done to a table: `rows` are images in the form of a change log. Raises
        LakeError."""
        path, options = self.rows_path(one.correction.number, one.table), self.lake.storage or None
        try:
            write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", storage_options=options)
        except (DeltaError, OSError) as error:
            raise self._unwritten(path, error) from error
        self.note(replace(one, state="began"), now)

    def note(self, one: CorrectedTable, now: datetime) -> None:
        """Notes the state of a table. Raises LakeError."""
        for _ in range(_TRIES):
            try:
                self._append(self._open(), one, now)
            except CommitFailedError:
                continue
            return
        hint = "Run the same again: it finds what was done."
        raise LakeError("others keep noting corrections", place=self.path, hint=hint)

    def tables(self) -> list[CorrectedTable]:
        """Returns the last state of each table of each correction, in the order of numbers, `asked` first. Raises
        LakeError."""
        opened = self._open()
        if opened is None:
            return []
        rows = selected_table(opened, "corrections", "SELECT * FROM corrections")
        last = dict[tuple[int, str], CorrectedTable]()
        for one in map(_corrected, sorted(rows.to_pylist(), key=lambda row: (row["at"], _ORDER[row["state"]]))):
            last[one.correction.number, one.table] = one
        return [last[key] for key in sorted(last)]

    def unfinished(self, correction: Correction, planned: Mapping[str, int]) -> tuple[Correction, set[str]]:
        """Returns the last correction, with the tables that are done, if it is the same one and has yet to put rows
        into others, because its run died or failed; else `correction`, without a number. `planned`: how many rows are
        to be put now, by table. Raises LakeError."""
        known = self.tables()
        last = [one for one in known if one.correction.number == known[-1].correction.number]
        header = next((one for one in last if not one.table), None)
        if header is None:
            return correction, set()
        done = {one.table for one in last if one.table and one.state == "done"}
        number, waits = header.correction.number, {table for table, rows in header.counts.items() if rows} - done
        same = replace(header.correction, number=0, reason=correction.reason, run_id=correction.run_id) == correction
        if not same or not waits or planned.keys() != header.counts.keys() or any(planned[table] for table in done):
            return correction, set()
        return replace(correction, number=number), done

    def of_table(self, table: str) -> list[CorrectedTable]:
        """Returns those that put rows into a table, or may have. Raises LakeError."""
        return [one for one in self.tables() if one.table == table and one.put_rows]

    def rows(self, number: int, table: str) -> pa.Table:
        """Returns the images of what a correction did to a table. Raises LakeError if they cannot be read."""
        path = self.rows_path(number, table)
        try:
            return self.lake.open(path).to_pyarrow_table()
        except (DeltaError, OSError) as error:
            hint = "Restore the folder, or correct the rows by hand: `sluice explain` shows what batches changed."
            message = f"the rows of correction {number} cannot be read: {first_line(error)}"
            raise LakeError(message, place=path, hint=hint) from error

    def has_rows(self, number: int, table: str) -> bool:
        """Whether the rows of a correction are there: somebody may have removed them."""
        return DeltaTable.is_deltatable(self.rows_path(number, table), self.lake.storage or None)

    @property
    def _home(self) -> str:
        return self.lake.ledger_path(self.destination, self.client_id).removesuffix("/batches")

    @property
    def _app(self) -> str:
        return f"sluice:{self.destination}:{self.client_id}:corrections"

    def _open(self) -> DeltaTable | None:
        return open_own(self.lake, self.path, "the corrections", "nothing else says which rows differ on purpose")

    def _append(self, opened: DeltaTable | None, one: CorrectedTable, now: datetime, number: int | None = None) -> None:
        """Appends a row; with `number`, in a commit that nobody else makes. Raises CommitFailedError if somebody did,
        LakeError."""
        row = pa.RecordBatch.from_pylist([_row(one, now)], _SCHEMA)
        applied = app_versions({self._app: number}) if number is not None else None
        about = CommitProperties(app_transactions=applied, max_commit_retries=0)
        try:
            if opened is None:
                options = self.lake.storage or None
                write_deltalake(self.path, row, mode="error", commit_properties=about, storage_options=options)
            else:
                write_deltalake(opened, row, mode="append", commit_properties=about)
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            if opened is None and self._open() is not None:  # another one made the table
                raise CommitFailedError(str(error)) from error
            raise self._unwritten(self.path, error) from error

    def _unwritten(self, path: str, error: Exception) -> LakeError:
        hint = "Make the lake writable and give it room, then do it again."
        return LakeError(f"corrections cannot be noted: {first_line(error)}", place=path, hint=hint)


_ORDER: Mapping[State, int] = {"asked": 0, "began": 1, "void": 2, "done": 3}
_OF_CORRECTION = tuple(one.name for one in fields(Correction))


def _row(one: CorrectedTable, now: datetime) -> dict[str, Any]:
    about = {"table": one.table, "state": one.state, "version": one.version, "counts": json.dumps(dict(one.counts))}
    return asdict(one.correction) | about | {"at": now.astimezone(UTC)}


def _corrected(row: Mapping[str, Any]) -> CorrectedTable:
    correction = Correction(**{name: row[name] for name in _OF_CORRECTION})
    counts = json.loads(row["counts"] or "{}")
    return CorrectedTable(correction, row["table"], row["state"], row["version"], counts, row["at"])


def redoable(found: Iterable[CorrectedTable], number: int) -> list[CorrectedTable]:
    """Returns the tables into which the correction of that number put rows, or may have."""
    return [one for one in found if one.correction.number == number and one.put_rows]
