"""A lake with a random history: batches, crashes, rewinds, moves to another server, repairs, copies, statements, stops,
RESTOREs, upkeep. Written with delta-rs, with the product's own notes, app ids and properties, and without Spark.

Beside it the source's transactions: what each table had after each of them.
"""

from __future__ import annotations

import itertools
import json
import random
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    PostCommitHookProperties,
    QueryBuilder,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from cdc_core.client.changes import PlanCounts
from cdc_core.contract.claim import Claim, TableRange
from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.apply.commits import ddl_note, note
from spark_jobs.apply.decision import decide
from spark_jobs.as_of.batches import Place
from spark_jobs.as_of.choice import Chosen
from spark_jobs.changes.columns import EPOCH, INSERT, NTH, OP, SYSTEM, VERSION
from spark_jobs.following.pending import Follows
from spark_jobs.lake.ddl import table_properties
from spark_jobs.lake.ledger import Ledger, TableNote
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.progress import Range
from spark_jobs.lake.properties import set_properties
from spark_jobs.lake.record import (
    LOG_BEGAN,
    REPAIRS,
    Began,
    CopyNote,
    Mark,
    begun_properties,
    copied_properties,
    dropped_property,
    marked_property,
)
from spark_jobs.lake.state import DESTINATION, LOG, TABLE, app_id, log_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.definition import STATISTICS, log_properties
from spark_jobs.load.result import LakeClient
from spark_jobs.snapshot.place import SnapshotPlace

Rows = dict[int, int]
DROPPED = "sluice.dropped"
_NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False)  # it would have the properties from before
_ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@dataclass
class Server:
    """Where each transaction ends in the binlog of one server. `first`: the first epoch that was read from it."""

    first: int
    base: str
    ends: list[int] = field(default_factory=list)

    def position(self, index: int) -> EntryPosition:
        """Returns the place after the transaction, or before the first one."""
        offset = 4 if index < 0 else self.ends[index]
        return EntryPosition(f"{self.base}.000001", offset, timestamp=1_000 * (index + 2))


@dataclass(frozen=True)
class Transactional:
    """A transaction: the rows that it writes, None for a deleted one, by table; or a statement on one table."""

    rows: dict[str, Rows | dict[int, int | None]]
    statement: str = ""
    table: str = ""


class LakeHistory:
    """`tables` are merged when they are claimed, `landed` from their change logs. `soft`: deleted rows of these merged
    tables stay, marked."""

    soft: tuple[str, ...] = ()

    def __init__(self, root: Path, rng: random.Random, tables: list[str], landed: list[str] = []) -> None:  # noqa: B006
        self.lake, self.rng = Lake(root, complete=True), rng
        self.tables, self.landed = [*tables, *landed], landed
        self.ledger = Ledger(self.lake, "d", 1)
        self.follows = Follows(self.lake, "d", 1)
        self.servers = [Server(0, "alpha")]
        self.transactions: list[Transactional] = []
        self.states: list[dict[str, Rows | None]] = [{name: {} for name in self.tables}]
        self.epoch, self.cursor, self.batches = 0, -1, itertools.count(1)
        self.seamless: tuple[tuple[int, int], ...] = ()
        self.stopped: set[str] = set()
        self.looked_up: dict[str, int | None] = {}
        self.left_out = ""  # a table that the filter leaves out

    # The source

    def commit(self, *names: str) -> None:
        """A transaction writes rows of these tables."""
        state = dict(self.states[-1])
        rows: dict[str, Any] = {}
        for name in names:
            there = state[name]
            if there is None:
                continue
            changed = {self.rng.randrange(6): self.rng.choice([None, self.rng.randrange(1000)]) for _ in range(2)}
            state[name] = {key: v for key, v in ({**there, **changed}).items() if v is not None}
            rows[name] = changed
        self._ends(Transactional(rows), state)

    def statement(self, kind: str, name: str) -> None:
        """A DDL statement: truncate, drop, create or alter."""
        there = self.states[-1][name]
        if (there is None) != (kind == "create"):
            return
        after = {"truncate": {}, "create": {}, "drop": None, "alter": there}[kind]
        self._ends(Transactional({}, kind, name), {**self.states[-1], name: after})

    def _ends(self, transaction: Transactional, state: dict[str, Rows | None]) -> None:
        self.transactions.append(transaction)
        self.states.append(state)
        for server in self.servers:
            self._place(server)

    def _place(self, server: Server) -> None:
        server.ends.append((server.ends[-1] if server.ends else 100) + self.rng.randrange(40, 90))

    def rows_at(self, name: str, index: int) -> Rows | None:
        """Returns the rows after a transaction, None if there is no table."""
        return self.states[index + 1][name]

    # The drain

    @property
    def server(self) -> Server:
        return self.servers[-1]

    def claim(self, upto: int, start: int | None = None) -> Claim:
        """Returns a claim from the cursor up to a transaction."""
        place = self.server.position
        start = self.cursor if start is None else start
        taken = self.transactions[start + 1 : upto + 1]
        there = [name for name in self.tables if name != self.left_out and any(name in one.rows for one in taken)]
        ranges = tuple(TableRange(schema(name), 1, 0, 0) for name in there)
        return Claim(
            "d", 1, next(self.batches), place(start), place(upto), ranges, 1, 1, 1, (), self.epoch, "me", 0.0,
            moved=self.server.first, seamless=self.seamless, stopped=tuple(self.stopped),
            captured=(".*\\..*", self.left_out.replace(".", "\\.")),
        )  # fmt: skip

    def batch(self, most: int = 4, *, killed: bool = False) -> None:
        """Claims some transactions, applies, notes and acks. `killed`: the run dies when some tables are written."""
        upto = self._upto(most)
        if upto > self.cursor:
            names = [name for name in self.tables if self.rng.random() < 0.5] if killed else None
            self._batch(upto, names)

    def batch_of(self, count: int, only: list[str] | None = None) -> None:
        """The same with so many transactions. `only`: the run dies when these tables are written."""
        self._batch(self.cursor + count, only)

    def _batch(self, upto: int, only: list[str] | None) -> None:
        claim = self.claim(upto)
        shares = [table.name for table in claim.tables]
        statements = [t for t in self.transactions[self.cursor + 1 : upto + 1] if t.statement]
        names = sorted({*shares, *(one.table for one in statements)})
        names = [name for name in names if name != self.left_out and (only is None or name in only)]
        missed = {}
        for name in names:
            if name in self.stopped:
                missed[name] = TableNote(stopped=True)
                continue
            try:
                self._follow(name, claim, upto)
                if name in shares:
                    (self._land if name in self.landed else self._apply)(name, claim, upto)
            except TableStopped:
                self.stopped.add(name)
                missed[name] = TableNote(stopped=True)
        if only is not None:
            return
        known = self.ledger.stops()
        first = {name: one for name, one in missed.items() if name not in known or self._is_newer(name, known[name])}
        done = {name: TableNote(inserts=1, net_rows=1) for name in names if name not in missed}
        self.ledger.note(claim, {**done, **first}, "run", float(upto), looked_up=self.looked_up)
        self.cursor = upto

    def _is_newer(self, name: str, noted: Any) -> bool:
        origin = self.lake.origin(self.path(name))
        return origin is None or origin.is_after(noted.committed_at, (noted.epoch, noted.version))

    def _upto(self, most: int) -> int:
        """Returns the claim's last transaction: a range ends before a statement that follows rows of its table."""
        last, touched = min(self.cursor + self.rng.randint(1, most), len(self.transactions) - 1), set[str]()
        for index in range(self.cursor + 1, last + 1):
            one = self.transactions[index]
            if one.statement and one.table in touched:
                return index - 1
            touched |= one.rows.keys()
        return last

    def path(self, name: str) -> str:
        return self.lake.path(*name.split("."))

    def app(self, name: str, epoch: int | None = None) -> str:
        return app_id("d", 1, name, self.epoch if epoch is None else epoch)

    def current(self, name: str, version: int | None = None) -> Rows:
        """Returns the living rows of a table in the lake, or of a version of it. With a primary key no key is there
        twice, not even as a deleted row."""
        table = self.lake.open(self.path(name), version)
        living = Own.of_table(table).living
        asked = f"SELECT id, v, {living} AS lives FROM t"
        found = pa.table(QueryBuilder().register("t", table).execute(asked).read_all()).to_pylist()
        assert not schema(name).primary_key or len({one["id"] for one in found}) == len(found), (name, found)
        return {one["id"]: one["v"] for one in found if one["lives"]}

    def write(self, name: str, rows: Rows, about: str, *applied: Transaction) -> None:
        """Puts rows in the place of a table's."""
        ids = sorted(rows)
        table = pa.table([pa.array(ids, pa.int64()), pa.array([rows[one] for one in ids], pa.int64())], schema=_ROWS)
        there = self.lake.open(self.path(name))
        for field_ in pa.schema(there.schema().to_arrow()):
            if field_.name not in table.column_names:
                table = table.append_column(field_, pa.nulls(table.num_rows, field_.type))
        if Own.of_table(there).soft:
            table = pa.concat_tables([table, _marked(there, ids)])
        noted = CommitProperties(custom_metadata={"userMetadata": about} if about else {}, app_transactions=[*applied])
        write_deltalake(there, table, mode="overwrite", commit_properties=noted)

    def _create(self, name: str, more: dict[str, str] | None = None, noted: CommitProperties | None = None) -> None:
        properties = table_properties(self.lake, "d", schema(name), "token") | (more or {})
        columns = _ROWS
        if name in self.soft:
            properties, columns = properties | Own.made((), soft=True).note, _ROWS.append(pa.field(DELETED, pa.bool_()))
        DeltaTable.create(
            self.path(name), columns, configuration=properties, raise_if_key_not_exists=False,
            commit_properties=noted,
        )  # fmt: skip

    def _apply(self, name: str, claim: Claim, upto: int) -> None:
        progress = self.follows.progress(name, claim.epoch)
        table = next(one for one in claim.tables if one.name == name)
        decision = decide(table, Range.of(claim), progress)
        if decision.replay:
            return
        if progress is None:
            self._create(name)
        elif progress.state.dropped:
            return
        if self.rng.random() < 0.3:
            self.fence(name)
        rows = self._changed(self.current(name), name, max(decision.after or 0, claim.start.version()), upto)
        about = note(claim, name, "run", decision.after, PlanCounts())
        self.write(name, rows, about, Transaction(self.app(name), claim.end.version()))

    def _changed(self, rows: Rows, name: str, after: int, upto: int) -> Rows:
        found: dict[int, int | None] = {**rows}
        for index in range(upto + 1):
            if self.server.position(index).version() > after:
                found |= self.transactions[index].rows.get(name, {})
        return {key: v for key, v in found.items() if v is not None}

    def _follow(self, name: str, claim: Claim, upto: int) -> None:
        for index in range(self.cursor + 1, upto + 1):
            one = self.transactions[index]
            if one.statement and one.table == name:
                if name in self.landed:
                    self.merge(name)
                self._step(name, claim, one.statement, index)

    def _step(self, name: str, claim: Claim, kind: str, index: int) -> None:
        position = self.server.position(index)
        version, progress = position.version(), self.follows.progress(name, claim.epoch)
        if progress is not None and progress.has(replace(Range.of(claim), end=version)):
            return
        if progress is None and kind != "create":
            return
        about = ddl_note(claim, name, "run", kind, Ddl(position, "shop", kind, ()), version)
        step, begun = Transaction(self.app(name), version), begun_properties((claim.epoch, version))
        noted = CommitProperties(custom_metadata={"userMetadata": about}, app_transactions=[step])
        if progress is None:
            self._create(name, begun, noted)
            return
        there = self.lake.open(self.path(name))
        match kind:
            case "alter":
                there.alter.add_columns([Field(f"c{index}", PrimitiveType("long"))])
                self._set(name, {"sluice.followed": f"{claim.epoch}:{version}"}, noted)
            case "drop" if self.rng.random() < 0.5:  # the rows stay
                self._set(name, begun | dropped_property(position), noted)
            case _:
                gone = dropped_property(position) if kind == "drop" else {}
                self._replace(name, {}, begun | gone, about, step)

    def _replace(self, name: str, rows: Rows, properties: dict[str, str], about: str, step: Transaction) -> None:
        """One commit with rows and properties, as Spark's REPLACE TABLE makes it."""
        there = self.lake.open(self.path(name))
        kept = {key: v for key, v in there.metadata().configuration.items() if key != DROPPED}
        ids = sorted(rows)
        table = pa.table([pa.array(ids, pa.int64()), pa.array([rows[one] for one in ids], pa.int64())], schema=_ROWS)
        if Own.of_table(there).soft:
            table = table.append_column(DELETED, pa.nulls(table.num_rows, pa.bool_()))
        noted = CommitProperties(custom_metadata={"userMetadata": about}, app_transactions=[step])
        write_deltalake(
            self.path(name), table, mode="overwrite", schema_mode="overwrite", commit_properties=noted,
            configuration=kept | properties, post_commithook_properties=_NO_CHECKPOINT,
        )  # fmt: skip
        _replace_configuration(Path(self.path(name)), kept | properties)

    def _set(self, name: str, properties: dict[str, str], noted: CommitProperties | None = None) -> None:
        set_properties(self.lake.open(self.path(name)), properties, noted)

    def fence(self, name: str) -> None:
        """A run enters the table."""
        self._set(name, {"sluice.fence": str(self.rng.random())})

    # What lands

    def _land(self, name: str, claim: Claim, upto: int) -> None:
        database, table = name.split(".")
        path, app = self.lake.log_path(database, table), log_app_id("d", 1, name, claim.epoch)
        log = self.follows.log(name)
        if log is None:
            properties = {DESTINATION: "d", TABLE: name, LOG: "true", STATISTICS: f"{EPOCH},{VERSION}"}
            properties |= {LOG_BEGAN: Began(True, {}).to_json()}
            properties |= log_properties(claim, schema(name))
            DeltaTable.create(
                path, pa.schema([*_ROWS, *SYSTEM]), configuration=properties, raise_if_key_not_exists=False
            )
            log = self.follows.log(name)
        assert log is not None
        end = log.end(claim.epoch) or 0
        if end >= claim.end.version():
            return
        set_properties(self.lake.open(path), log_properties(claim, schema(name)))
        images = []
        for index in range(self.cursor + 1, upto + 1):
            version = self.server.position(index).version()
            for nth, (key, value) in enumerate(self.transactions[index].rows.get(name, {}).items()):
                if version > end:
                    op = "delete" if value is None else INSERT
                    images.append({"id": key, "v": value, OP: op, EPOCH: claim.epoch, VERSION: version, NTH: nth})
        noted = CommitProperties(app_transactions=[Transaction(app, claim.end.version())])
        rows = pa.Table.from_pylist(images, pa.schema([*_ROWS, *SYSTEM]))
        write_deltalake(path, rows, mode="append", commit_properties=noted)

    def merge(self, name: str, most: int = 1 << 30) -> None:
        """Merges the parts that a table lacks of its log."""
        for _ in range(most):
            try:
                found = self.follows.pending(name)
            except TableStopped:  # it waits
                return
            if found is None:
                return
            part = found.part
            if found.state is None:
                self._create(name)
            elif found.state.dropped:
                return
            log = _rows(found.log.table, f"{found.part.sql}")
            rows = _folded(self.current(name), log)
            app = self.app(name, part.epoch)
            self.write(name, rows, part.note(self.ledger, name, "run"), Transaction(app, part.upto))

    # What happens in between

    def rewind(self, back: int) -> None:
        """The cursor goes back; a new epoch begins."""
        self.epoch, self.cursor = self.epoch + 1, max(-1, self.cursor - back)

    def refilter(self, left_out: str) -> None:
        """Another filter begins. A table that comes back is stopped until it is copied."""
        if self.left_out and self.left_out != left_out:
            self.stopped.add(self.left_out)
        self.left_out = left_out

    def move(self, back: int | None) -> None:
        """Another server takes over: `back` transactions come again, None if it goes on by GTID."""
        left = self.server.position(self.cursor).version()
        self.epoch += 1
        if back is None:
            self.seamless += ((self.epoch, left),)
        else:
            self.cursor = max(-1, self.cursor - back)
        self.servers.append(Server(self.epoch, f"server{self.epoch}"))
        for _ in self.transactions:
            self._place(self.server)

    def has(self, name: str) -> bool:
        state = self.lake.state(self.path(name), "")
        return state is not None and not state.dropped

    def repair(self, name: str) -> None:
        """Rows are written again at the place where the table is."""
        state = self.lake.state(self.path(name), self.app(name)) if self.has(name) else None
        if state is None:
            return
        at, (last,) = state.applied or 0, self.lake.applied(self.path(name), [self.app(name)])
        mark = Mark.next(self.epoch, at, last, REPAIRS)
        if mark is None:
            return
        self._set(name, marked_property(state.properties, mark))
        about = json.dumps({"repair": {"table": name, "epoch": self.epoch}})
        self.write(name, self.current(name), about, Transaction(self.app(name), mark.upto))

    def copy(self, name: str, low: int, high: int) -> None:
        """The table is read from the source, with some rows of up to a later transaction; a stop ends."""
        high = high if schema(name).primary_key else low  # without a key the place is exact
        rows = self.rows_at(name, low)
        state = self.lake.state(self.path(name), self.app(name))
        if rows is None or state is None or self.rows_at(name, high) is None:
            return
        if any(one.statement and one.table == name for one in self.transactions[self.cursor + 1 : high + 1]):
            return
        place = SnapshotPlace(self.server.position(low), self.server.position(high))
        (last,) = self.lake.applied(self.path(name), [self.app(name)])
        at = place.low.version()
        if state.applied is not None and state.applied > at:
            return
        mark = Mark(self.epoch, at, at) if last is None or last < at else Mark.next(self.epoch, at, last)
        if mark is None:
            return
        mixed = dict(rows)
        for key, value in (self.rows_at(name, high) or {}).items():
            if self.rng.random() < 0.5:
                mixed[key] = value
        copied = CopyNote(self.epoch, at, place.high.version())
        noted = copied if self.rng.random() < 0.5 else None  # earlier versions did not
        about = LakeClient("d", 1, self.epoch).note(name, place, len(rows), copied=noted)
        self._replace(name, mixed, copied_properties(copied, mark), about, Transaction(self.app(name), mark.upto))
        self.stopped.discard(name)

    def restore(self, name: str) -> None:
        """Somebody restores an earlier version."""
        if self.has(name):
            table = self.lake.open(self.path(name))
            with suppress(DeltaError):  # its files are gone
                table.restore(self.rng.randint(0, max(0, table.version() - 1)))

    def upkeep(self, name: str) -> None:
        """Files are joined."""
        if self.has(name):
            self.lake.open(self.path(name)).optimize.compact()

    def vacuum(self, name: str) -> None:
        """Files that the newest version does not need are deleted."""
        if self.has(name):
            self.lake.open(self.path(name)).vacuum(0, dry_run=False, enforce_retention_duration=False)

    # What is chosen

    def rows_of(self, chosen: Chosen) -> Rows:
        """Returns the rows of a table as of a place, read as a view would."""
        rows = {} if chosen.version is None else self.current(chosen.table, chosen.version)
        if not chosen.later:
            return rows
        log = self.lake.open(self.lake.log_path(*chosen.table.split(".")), chosen.log_version)
        return _folded(rows, _rows(log, " OR ".join(f"({one.sql})" for one in chosen.later)))

    def columns_of(self, chosen: Chosen) -> set[str]:
        """Returns the columns of the table's version."""
        if chosen.version is None:
            return set()
        return {one.name for one in self.lake.open(self.path(chosen.table), chosen.version).schema().fields}

    def index_of(self, place: Place) -> int:
        """Returns the last transaction up to a place."""
        there = next(one for one in self.servers if one.first == place.server)
        known = [there.position(index).version() for index in range(len(there.ends))]
        return sum(one <= place.version for one in known) - 1


def schema(name: str) -> TableSchema:
    columns = tuple(Column(one, ColumnType.LONGLONG, 0) for one in ("id", "v"))
    database, table = name.split(".")
    return TableSchema(database, table, columns, () if table == "keyless" else ("id",))


def _rows(log: DeltaTable, where: str) -> list[dict[str, Any]]:
    names = f"id, v, {OP}, {EPOCH}, {VERSION}, {NTH}"
    asked = f"SELECT {names} FROM log WHERE {where} ORDER BY {EPOCH}, {VERSION}, {NTH}"
    return list(pa.table(QueryBuilder().register("log", log).execute(asked).read_all()).to_pylist())


def _marked(table: DeltaTable, living: list[int]) -> pa.Table:
    """Returns a table's rows of the keys that are not living, marked as deleted."""
    there = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    dead = there.filter(pc.invert(pc.is_in(there["id"], value_set=pa.array(living, pa.int64()))))
    at = dead.schema.get_field_index(DELETED)
    return dead.set_column(at, dead.schema.field(at), pa.array([True] * dead.num_rows, pa.bool_()))


def _folded(rows: Rows, images: list[dict[str, Any]]) -> Rows:
    found = dict(rows)
    for one in images:
        found.pop(one["id"], None)
        if one[OP] == INSERT:
            found[one["id"]] = one["v"]
    return found


def _replace_configuration(path: Path, properties: dict[str, str]) -> None:
    """Writes the properties into the last commit's metadata: delta-rs keeps the earlier ones when it overwrites."""
    last = max((path / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in last.read_text().splitlines()]
    metadata = [one for one in lines if "metaData" in one]
    if not metadata:
        table = DeltaTable(path)
        found = table.metadata()
        fields = {
            "id": str(found.id), "format": {"provider": "parquet", "options": {}},
            "schemaString": table.schema().to_json(), "partitionColumns": [],
            "createdTime": found.created_time, "configuration": {},
        }  # fmt: skip
        lines.append({"metaData": fields})
        metadata = [lines[-1]]
    metadata[0]["metaData"]["configuration"] = properties
    last.write_text("".join(json.dumps(one) + "\n" for one in lines))
