"""The lake's ledger: a Delta table with one row for each batch, written after the tables' commits and before the ack.

It says which batches the lake has, whatever a cursor says. A batch is noted once: a second note of the same end is left
out. It is written with delta-rs, without Spark. It does not prove that nothing was lost before its first row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from cdc_core.contract.claim import Claim
from cdc_core.contract.reached import Reached
from cdc_core.errors import LakeError
from cdc_core.gtid import parse_gtid_field
from cdc_core.position import EntryPosition
from cdc_core.schema.names import split_name
from spark_jobs.lake.continuity import EpochSpan, Seen, check, reset_command
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.own_tables import open_own
from spark_jobs.lake.queries import selected_table
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.state import Origin
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.tidy import tidy
from spark_jobs.lake.writer import Writer, check_writer

_EXTREMES = "SELECT epoch AS e, min(end_version) AS first, max(end_version) AS last FROM batches GROUP BY epoch"
NO_ENDS: Mapping[str, int] = MappingProxyType({})
_DOUBTS = (
    "SELECT epoch, end_version, tables, committed_at FROM batches "
    "WHERE tables LIKE '%\"doubt\": {%' ORDER BY committed_at"
)
_SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("batch_id", pa.int64()),
        ("start_journal", pa.string()),
        ("start_position", pa.int64()),
        ("end_journal", pa.string()),
        ("end_position", pa.int64()),
        ("end_version", pa.int64()),
        ("gtid", pa.string()),
        ("run_id", pa.string()),
        ("rows", pa.int64()),
        ("transactions", pa.int64()),
        ("tables", pa.string()),
        ("stops", pa.string()),
        ("committed_at", pa.timestamp("us", "UTC")),
        ("executed_at", pa.timestamp("us", "UTC")),
        ("partial", pa.bool_()),
        ("moved", pa.int64()),
        ("seamless", pa.string()),
        ("captured", pa.string()),
        ("looked_up", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class TableNote:
    """What the ledger keeps of one table in a batch: the source's operations, the rows left of them, the outcome, and
    the table's doubt with this batch, where that was worth a note."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    net_rows: int = 0
    replayed: bool = False
    delta_version: int | None = None
    stopped: bool = False
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class StopNote:
    """The batch at which a table stopped: its epoch, the version of its end, when it was noted."""

    epoch: int
    version: int
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Begun:
    """Where a batch began. Positions of another epoch may be another server's."""

    epoch: int
    position: EntryPosition


@dataclass(frozen=True, slots=True)
class Ledger:
    """The batches of one destination and client."""

    lake: Lake
    destination: str
    client_id: int

    @property
    def path(self) -> str:
        return self.lake.ledger_path(self.destination, self.client_id)

    def version(self, epoch: int) -> int | None:
        """Returns the version of the last end noted in an epoch, or None."""
        table = self._open()
        return None if table is None else table.transaction_version(self._app(epoch))

    def stretches(self) -> dict[int, EpochSpan]:
        """Returns the part of each epoch that the lake has."""
        table = self._open()
        if table is None:
            return {}
        found = _select(
            table,
            "SELECT epoch, start_journal, start_position, end_journal, end_position, gtid FROM batches "  # noqa: S608
            f"JOIN ({_EXTREMES}) ON epoch = e AND end_version IN (first, last) ORDER BY end_version",
        )
        begun: dict[int, int] = {}
        known: dict[int, EpochSpan] = {}
        for one in found:
            start = EntryPosition(one["start_journal"], one["start_position"]).version()
            end = EntryPosition(one["end_journal"], one["end_position"], gtid=parse_gtid_field(one["gtid"]))
            known[one["epoch"]] = EpochSpan(begun.setdefault(one["epoch"], start), end)
        return known

    def tables(self) -> set[str]:
        """The tables that some batch had."""
        table = self._open()
        rows = [] if table is None else _select(table, "SELECT DISTINCT tables FROM batches")
        return {name for row in rows for name in json.loads(row["tables"])}

    def stops(self) -> dict[str, StopNote]:
        """Returns by table the batch at which it stopped, for tables that no later batch changed. The last batch lists
        them all, so no other batch is read."""
        return self._stops(self._open())

    def _stops(self, table: DeltaTable | None) -> dict[str, StopNote]:
        if table is None or all(field.name != "stops" for field in table.schema().fields):  # an older ledger
            return {}
        epoch = self.last_epoch(table)
        last = f"SELECT stops FROM batches WHERE epoch = {epoch} AND end_version = {self.reached(epoch, table)}"  # noqa: S608
        noted = json.loads(next((row["stops"] for row in _select(table, last) if row["stops"]), "{}"))
        return {name: StopNote(one[0], one[1], datetime.fromisoformat(one[2])) for name, one in noted.items()}

    def begun_by_batch(self, batch_id: int) -> Begun | None:
        """Returns where a batch began, or None if it was not noted."""
        return self._begun(f"batch_id = {int(batch_id)} ORDER BY committed_at DESC")

    def begun_by_run(self, run_id: str) -> Begun | None:
        """Returns where the first batch of a run began, or None if it noted no batch."""
        quoted = run_id.replace("'", "''")
        return self._begun(f"run_id = '{quoted}' ORDER BY epoch, end_version")

    def _begun(self, condition: str) -> Begun | None:
        table = self._open()
        asked = f"SELECT epoch, start_journal, start_position FROM batches WHERE {condition} LIMIT 1"  # noqa: S608
        rows = [] if table is None else _select(table, asked)
        return next(
            (Begun(one["epoch"], EntryPosition(one["start_journal"], one["start_position"])) for one in rows), None
        )

    def doubts(self) -> dict[str, Doubt]:
        """Returns by table the last doubt that was noted, for tables that were not created or copied since."""
        table, found = self._open(), dict[str, Doubt]()
        if table is None:
            return found
        made: dict[str, Origin | None] = {}
        for row in _select(table, _DOUBTS):
            place = (row["epoch"], row["end_version"])
            for name, note in json.loads(row["tables"]).items():
                if not note.get("doubt"):
                    continue
                if name not in made:
                    made[name] = self.lake.origin(self.lake.path(*split_name(name)))
                origin = made[name]
                if origin is not None and not origin.is_after(row["committed_at"], place):
                    found[name] = Doubt(**{**note["doubt"], "keys": tuple(note["doubt"]["keys"])})
        return {name: doubt for name, doubt in found.items() if doubt}

    def last_batches(self, count: int) -> list[str]:
        """Returns the notes of the tables in the last batches, as JSON, the latest first. Raises LakeError."""
        table = self._open()
        asked = f"SELECT tables FROM batches ORDER BY epoch DESC, end_version DESC LIMIT {count:d}"  # noqa: S608
        return [] if table is None else [row["tables"] for row in _select(table, asked)]

    def opened(self) -> DeltaTable | None:
        """Returns the ledger as it is now, or None. Raises LakeError."""
        return self._open()

    def last_epoch(self, ledger: DeltaTable | None) -> int:
        """Returns the last epoch of which the opened `ledger` has a batch, by its files' statistics, or -1."""
        files = pa.table(ledger.get_add_actions(flatten=True)) if ledger is not None else pa.table({})
        known = files.column("max.epoch").to_pylist() if "max.epoch" in files.column_names else []
        return max((one for one in known if one is not None), default=-1)

    def reached(self, epoch: int, ledger: DeltaTable | None) -> int:
        """Returns the version of the last end of an epoch that the opened `ledger` has, or 0."""
        return (ledger.transaction_version(self._app(epoch)) or 0) if ledger is not None else 0

    def landed(self, table: str, upto: int, ledger: DeltaTable | None) -> dict[int, int]:
        """Returns, by epoch up to `upto`, the version up to which the table's change log had its changes at an ack that
        the opened `ledger` has."""
        return self._noted(lambda epoch: self._landed(table, epoch), upto, ledger)

    def merged(self, table: str, upto: int, ledger: DeltaTable | None) -> dict[int, int]:
        """Returns, by epoch up to `upto`, the version of the table's last commit that the opened `ledger` has noted."""
        return self._noted(lambda epoch: self._merged(table, epoch), upto, ledger)

    def noted_before(self, moment: datetime) -> dict[int, int]:
        """Returns, by epoch, the version of the last end that was noted before a moment."""
        table = self._open()
        where = f"committed_at < TIMESTAMP '{moment.isoformat()}'"
        asked = f"SELECT epoch, max(end_version) AS last FROM batches WHERE {where} GROUP BY epoch"  # noqa: S608
        rows = [] if table is None else _select(table, asked)
        return {row["epoch"]: row["last"] for row in rows}

    def note(
        self,
        claim: Claim,
        tables: dict[str, TableNote],
        run_id: str,
        now: float,
        landed: Mapping[str, int] = NO_ENDS,
        merged: Mapping[str, int] = NO_ENDS,
        *,
        looked_up: Mapping[str, int | None] = NO_ENDS,
    ) -> bool:
        """Notes a batch whose tables are committed, and how far each table and its change log are. `looked_up`: the
        tables whose rows were looked up at the source, and the version of its place then. Returns False if the batch's
        end was noted before."""
        ledger, end = self._open(), claim.end.version()
        if self.reached(claim.epoch, ledger) >= end:
            return False
        time = datetime.fromtimestamp(now, UTC)
        stops = {name: note for name, note in self._stops(ledger).items() if name not in tables}
        stopped = (name for name, note in tables.items() if note.stopped)
        stops |= dict.fromkeys(stopped, StopNote(claim.epoch, end, time))
        row = pa.RecordBatch.from_pylist([_row(claim, tables, stops, run_id, time) | _looked_up(looked_up)], _SCHEMA)
        ends = {self._app(claim.epoch): end}
        ends |= {self._landed(table, claim.epoch): at for table, at in landed.items()}
        ends |= {self._merged(table, claim.epoch): at for table, at in merged.items()}
        transaction = CommitProperties(app_transactions=app_versions(ends))
        options = self.lake.storage or None
        try:
            write_deltalake(
                self.path, row, mode="append", schema_mode="merge", commit_properties=transaction,
                storage_options=options,
            )  # fmt: skip
            tidy(self.lake.open(self.path))
        except (DeltaError, OSError) as error:
            hint = "Make the lake writable and give it room. The batch stays claimable, and is not applied twice."
            raise LakeError(f"the ledger cannot be written: {error}", place=self.path, hint=hint) from error
        return True

    def check(self, epoch: int, reached: Reached | None, identity: str = "") -> str:
        """Returns a warning about the place where the destination continues, or "": see `continuity.check`.

        `identity` is that of the service, which becomes the lake's writer; "" of an older service. Raises LakeError
        when the lake has another writer.
        """
        self.check_writer(epoch, reached, identity)
        return check(Seen(self.destination, self.client_id, epoch, reached), self.stretches(), self.path)

    def check_writer(self, epoch: int, reached: Reached | None, identity: str) -> None:
        """Raises LakeError when the lake has another writer than the service with that identity."""
        if identity:
            self.lake.check_writable()
            take_over = reset_command(Seen(self.destination, self.client_id, epoch, reached), self.stretches())
            check_writer(self.lake, self.destination, Writer(identity, self.client_id), take_over)

    def _open(self) -> DeltaTable | None:
        return open_own(self.lake, self.path, "the ledger", "the lake cannot be compared with the cursor without it")

    def _app(self, epoch: int) -> str:
        return f"sluice:{self.destination}:{self.client_id}:ledger:{epoch}"

    def _landed(self, table: str, epoch: int) -> str:
        return f"sluice:{self.destination}:{self.client_id}:{table}:landed:{epoch}"

    def _merged(self, table: str, epoch: int) -> str:
        return f"sluice:{self.destination}:{self.client_id}:{table}:merged:{epoch}"

    @staticmethod
    def _noted(app: Callable[[int], str], upto: int, ledger: DeltaTable | None) -> dict[int, int]:
        if ledger is None:
            return {}
        found = {epoch: ledger.transaction_version(app(epoch)) for epoch in range(upto + 1)}
        return {epoch: end for epoch, end in found.items() if end is not None}


def _select(table: DeltaTable, question: str) -> Sequence[dict[str, Any]]:
    """Returns the rows of a SELECT from `batches`."""
    rows: list[dict[str, Any]] = selected_table(table, "batches", question).to_pylist()
    return rows


def _looked_up(tables: Mapping[str, int | None]) -> dict[str, Any]:
    return {"looked_up": json.dumps(dict(tables)) if tables else None}


def _row(
    claim: Claim, tables: dict[str, TableNote], stops: Mapping[str, StopNote], run_id: str, time: datetime
) -> dict[str, Any]:
    ran = claim.end.timestamp
    return {
        "epoch": claim.epoch,
        "batch_id": claim.batch_id,
        "start_journal": claim.start.journal_name,
        "start_position": claim.start.position,
        "end_journal": claim.end.journal_name,
        "end_position": claim.end.position,
        "end_version": claim.end.version(),
        "gtid": str(claim.end.gtid or ""),
        "run_id": run_id,
        "rows": claim.rows,
        "transactions": claim.transactions,
        "tables": json.dumps({name: asdict(note) for name, note in tables.items()}),
        "stops": json.dumps({name: (one.epoch, one.version, str(one.committed_at)) for name, one in stops.items()}),
        "committed_at": time,
        "executed_at": None if ran is None else datetime.fromtimestamp(ran / 1000, UTC),
        "partial": claim.partial,
        "moved": claim.moved,
        "seamless": json.dumps(claim.seamless),
        "captured": None if claim.captured is None else json.dumps(claim.captured),
    }
