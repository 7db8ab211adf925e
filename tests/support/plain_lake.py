"""A lake under a drain, and snapshots into it, without Spark: what Spark's statements do is done in Python here.

Ledger, fence, change log, staging and the switch's own steps are the product's. For tables of some hundred rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast
from unittest import mock

import pyarrow as pa
from deltalake import CommitProperties, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from cdc_core.client.changes import RowsDoor, changes
from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.errors import TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rows.system_columns import BEFORE, CHANGES, OP
from cdc_core.schema.table import TableSchema
from spark_jobs.apply.decision import decide
from spark_jobs.apply.kept import keep
from spark_jobs.apply.result import BatchResult, BrokenSnapshot
from spark_jobs.apply.table import Batch
from spark_jobs.changes.columns import NTH, VERSION
from spark_jobs.lake.ddl import table_properties
from spark_jobs.lake.evolution import check_key
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.load import switch
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.replacement import Replacement
from spark_jobs.load.staging import StagedRows
from spark_jobs.session import Sessions

Row = tuple[Any, ...]
_PATIENCE = 300.0  # seconds


class NoSpark:
    """Sessions that are never used."""

    @contextmanager
    def take(self) -> Iterator[None]:
        yield None


@dataclass(frozen=True)
class PlainLake:
    """`replacing` puts it in the place of Spark, for a block."""

    connector: Connector
    lake: Lake
    sessions: Sessions = cast(Sessions, NoSpark())  # noqa: RUF009

    def drain(self, batch_size: int, done: Callable[[], bool] = lambda: True) -> None:
        """Claims, applies, notes and acks until nothing is handed out. `done`: whether that is all."""
        deadline = time.monotonic() + _PATIENCE
        while self._batch(batch_size) or not done():
            assert time.monotonic() < deadline, self.connector.status()

    def _batch(self, batch_size: int) -> bool:
        ledger = Ledger(self.lake, self.connector.destination, self.connector.client_id)
        with self.connector.claim(batch_size, owner="drain", timeout_seconds=0.3) as claim:
            if claim is None:
                return False
            ledger.check(claim.epoch, claim.reached, claim.identity)
            unapplied = tuple(table.name for table in claim.tables if table.name in claim.stopped)
            for broken in filter(None, [self._taken(claim, table) for table in claim.tables]):
                self.connector.snapshots.break_off(broken.table, broken.id, broken.reason)
            ledger.note(claim, BatchResult(unapplied=unapplied).notes({}), "drain", time.time())
        return True

    def _taken(self, claim: Claim, table: TableRange) -> BrokenSnapshot | None:
        fence = Fence(self.lake, self.sessions)
        batch = Batch(
            claim, self.lake, self.sessions, RowsDoor(self.connector.flight_url), fence, max_splits=1, sent_rows=1
        )
        broken = keep(batch, table)
        if table.name not in claim.stopped:
            try:
                self._apply(batch, table)
            except TableStopped as error:
                told = {"reason": error.message, "hint": error.hint, "copy_needed": True}
                self.connector.stop_table(table.name, position=claim.start, **told)  # type: ignore[arg-type]
        return broken

    def _apply(self, batch: Batch, table: TableRange) -> None:
        claim = batch.claim
        schema, path = table.schema, self.lake.path(table.schema.database, table.schema.table)
        app = app_id(claim.destination, claim.client_id, table.name, claim.epoch)
        state = self.lake.state(path, app)
        if state is not None:
            check_key(state.primary_key, schema.primary_key, table.name)
            decide(table, batch.range, batch.record(table.name))
        after = state.applied if state else None
        if after is not None and after >= claim.end.version():
            return
        read = changes(self.connector.flight_url, claim, table.name, mode=CHANGES, after=after).read_all()
        width = len(schema.columns)
        shown = zip(*(column.to_pylist() for column in read.columns[:width]), strict=True)
        gone = [op in ("delete", "update_before") for op in read.column(OP).to_pylist()]
        rows = replayed(schema, rows_of(self.lake, path), zip(shown, gone, strict=True))
        ours = table_properties(self.lake, claim.destination, schema, "") if state is None else {}
        write(self.lake, path, schema, rows, Transaction(app, claim.end.version()), ours)


@contextmanager
def replacing() -> Iterator[None]:
    """The switch makes its commit without Spark."""
    parts = {"_folded": _folded, "replace": _replace, "staged_rows": _staged}
    with mock.patch.multiple(switch, **parts):
        yield


def _staged(_spark: None, path: str) -> list[Row]:
    return rows_of(Lake(""), path)


def _folded(_spark: None, log: ChangeLog, staged: StagedRows, low: int, upto: int) -> list[Row]:
    table = read(log.lake, log.path)
    names = [VERSION, NTH, OP, *(str(number) for number in range(len(staged.schema.columns)))]
    kept = sorted(zip(*(table.column(name).to_pylist() for name in names), strict=True), key=itemgetter(0, 1))
    images = ((row, op in BEFORE) for at, _, op, *row in kept if low < at <= upto)
    return replayed(staged.schema, rows_of(log.lake, staged.path), images)


def _replace(_spark: None, rows: list[Row], new: Replacement) -> None:
    target = new.target
    applied = new.target.lake.applied(target.path, [target.app])[0] if new.state else None
    if applied is None or applied < new.mark.upto:
        mark = Transaction(target.app, new.mark.upto)
        write(target.lake, target.path, new.schema, rows, mark, new.properties, new.metadata)


def replayed(schema: TableSchema, rows: Sequence[Row], images: Iterator[tuple[Row, bool]] | Any) -> list[Row]:
    """The rows after the images, each with whether it is a row that goes."""
    images = ((tuple(row), gone) for row, gone in images)
    names = [column.name for column in schema.columns]
    key = [names.index(name) for name in schema.primary_key]
    if not key:
        copies = Counter(rows)
        for row, gone in images:
            copies[row] += -1 if gone else 1
        short = [row for row, count in copies.items() if count < 0]
        if short:
            raise TableStopped(f"it loses rows that it does not have: {short[:3]}", place=schema.name, hint="")
        return list(copies.elements())
    known = {tuple(row[at] for at in key): row for row in rows}
    assert len(known) == len(rows), f"{schema.name} has a key twice"
    for row, gone in images:
        place = tuple(row[at] for at in key)
        known.pop(place, None)
        if not gone:
            known[place] = row
    return list(known.values())


def rows_of(lake: Lake, path: str) -> list[Row]:
    """The rows of a Delta table, none where there is none."""
    try:
        table = read(lake, path)
    except TableNotFoundError:
        return []
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def read(lake: Lake, path: str) -> pa.Table:
    """A Delta table, through delta-rs. Raises TableNotFoundError."""
    return pa.table(QueryBuilder().register("t", lake.open(path)).execute("SELECT * FROM t").read_all())


def write(
    lake: Lake,
    path: str,
    schema: TableSchema,
    rows: Sequence[Row],
    applied: Transaction,
    properties: dict[str, str],
    about: str = "",
) -> None:
    """Puts rows in the place of the table's."""
    fields = pa.schema(arrow_fields(schema))
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    table = pa.Table.from_arrays(
        [pa.array(values, f.type) for values, f in zip(columns, fields, strict=True)], schema=fields
    )
    commit = CommitProperties(custom_metadata={"userMetadata": about}, app_transactions=[applied])
    if not lake.has(schema.database, schema.table):
        write_deltalake(path, table.slice(0, 0))
    if properties:
        lake.open(path).alter.set_table_properties(properties, raise_if_not_exists=False)
    write_deltalake(path, table, mode="overwrite", schema_mode="overwrite", commit_properties=commit)
