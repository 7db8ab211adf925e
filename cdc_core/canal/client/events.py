"""A batch of entries as values: rows, statements, and the bounds of transactions.

Values are Canal's texts, None for NULL; a column that the server left out is not there. The rows of an entry share
their columns: `Rows` gives them together, and `Row` one alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from cdc_core.canal.protocol import declared


@dataclass(frozen=True, slots=True)
class Header:
    """Where an entry stands. `execute_time` is in milliseconds since the epoch. `server_id` is the server that wrote it
    first; `source` names the binlog that it was read from, 0 of a server that does not say it."""

    journal_name: str
    position: int
    server_id: int
    execute_time: int
    database: str
    table: str
    props: Mapping[str, str]
    source: int = 0

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}" if self.table else self.database

    @property
    def place(self) -> str:
        return f"{self.journal_name}:{self.position}"


@dataclass(frozen=True, slots=True)
class Row:
    """One changed row. `before` of an update and a delete, `after` of an insert and an update. `updated` names the
    columns that an update changed, `key` those of the primary key which the event has."""

    kind: CanalEventType
    header: Header
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    updated: tuple[str, ...]
    key: tuple[str, ...]
    types: Mapping[str, int] = field(repr=False, default_factory=dict)  # java.sql.Types by column
    mysql_types: Mapping[str, str] = field(repr=False, default_factory=dict)  # MySQL's, as SHOW COLUMNS has them


Image = list[str | None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rows of an entry share: the columns of their images, those of the key, and the columns' types."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    key: tuple[str, ...]
    types: Mapping[str, int]
    mysql_types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rows:
    """The changed rows of one entry, one at least; `changes` are Canal's RowData, `store` the entry's store value."""

    kind: CanalEventType
    header: Header
    shape: Shape
    changes: Sequence[Any] = field(repr=False)
    store: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.changes)

    def before(self, number: int) -> Image:
        """The image of a row before an update or a delete, by the columns of the shape."""
        return [None if one.isNull else one.value for one in self.changes[number].beforeColumns]

    def after(self, number: int) -> Image:
        """The image of a row after an insert or an update, by the columns of the shape."""
        return [None if one.isNull else one.value for one in self.changes[number].afterColumns]

    def each(self) -> Iterator[Row]:
        """One row after the other."""
        shape, updates = self.shape, self.kind == CanalEventType.UPDATE
        for number, row in enumerate(self.changes):
            before = dict(zip(shape.before, self.before(number), strict=True))
            after = dict(zip(shape.after, self.after(number), strict=True))
            updated = tuple(one.name for one in row.afterColumns if one.updated) if updates else ()
            yield Row(self.kind, self.header, before, after, updated, shape.key, shape.types, shape.mysql_types)


@dataclass(frozen=True, slots=True)
class Statement:
    """A DDL statement on the header's table, or another one (QUERY). `database` is its session's default."""

    kind: CanalEventType
    header: Header
    sql: str
    database: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """A transaction begins or ends. `number` is the thread that began it, or its xid."""

    header: Header
    begins: bool
    number: str


Event = Row | Statement | Boundary
Change = Rows | Statement | Boundary


@dataclass(frozen=True, slots=True)
class Message:
    """A batch. `id` is -1 for none; `entries` are the bytes of its entries, read when they are asked for."""

    id: int
    entries: tuple[bytes, ...] = field(repr=False, default=())
    source: int = 0

    @property
    def empty(self) -> bool:
        return self.id == -1 or not self.entries

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.entries))

    def events(self) -> Iterator[Event]:
        """What the batch says, in the binlog's order."""
        for change in self.changes():
            if isinstance(change, Rows):
                yield from change.each()
            else:
                yield change

    def changes(self) -> Iterator[Change]:
        """The same with the rows of each entry together."""
        for raw in self.entries:
            entry = declared.Entry.FromString(raw)
            if entry.entryType == EntryType.ROWDATA:
                if (change := _change(entry, self.source)) is not None:
                    yield change
            elif entry.entryType in (EntryType.TRANSACTIONBEGIN, EntryType.TRANSACTIONEND):
                yield _boundary(entry, self.source)


def message_of(body: bytes) -> Message:
    """A Messages packet's body as a message."""
    found = declared.Messages.FromString(body)
    return Message(found.batch_id, tuple(found.messages), found.source)


def _header(entry: Any, source: int) -> Header:
    header = entry.header
    return Header(
        header.logfileName,
        header.logfileOffset,
        header.serverId,
        header.executeTime,
        header.schemaName,
        header.tableName,
        {pair.key: pair.value for pair in header.props},
        source,
    )


def _boundary(entry: Any, source: int) -> Boundary:
    if entry.entryType == EntryType.TRANSACTIONBEGIN:
        return Boundary(
            _header(entry, source), True, str(declared.TransactionBegin.FromString(entry.storeValue).threadId)
        )
    return Boundary(_header(entry, source), False, declared.TransactionEnd.FromString(entry.storeValue).transactionId)


def _change(entry: Any, source: int) -> Rows | Statement | None:
    change, header = declared.RowChange.FromString(entry.storeValue), _header(entry, source)
    kind = CanalEventType(change.eventType)
    if change.isDdl or kind not in (CanalEventType.INSERT, CanalEventType.UPDATE, CanalEventType.DELETE):
        return Statement(kind, header, change.sql, change.ddlSchemaName)
    rows = change.rowDatas
    return Rows(kind, header, _shape(rows[0]), rows, entry.storeValue) if rows else None


def _shape(row: Any) -> Shape:
    columns = [*row.beforeColumns, *row.afterColumns]
    return Shape(
        tuple(one.name for one in row.beforeColumns),
        tuple(one.name for one in row.afterColumns),
        tuple(dict.fromkeys(one.name for one in columns if one.isKey)),
        {one.name: one.sqlType for one in columns},
        {one.name: one.mysqlType for one in columns},
    )
