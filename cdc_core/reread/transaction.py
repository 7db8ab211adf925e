"""`Transactions`: annotated blocks in, transactions out. No I/O.

A transaction has its GTID, its statements where the server logs them (MySQL's `binlog_rows_query_log_events`, MariaDB's
`binlog_annotate_row_events`), and how many rows of which table it changed. The rows themselves are kept up to a limit.

Source: MySQL source documentation, "Rows_query_event"; MariaDB knowledge base, "ANNOTATE_ROWS_EVENT".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from cdc_core.binlog.block import ENDS, STATEMENTS, Block, BlockSlice, Kind
from cdc_core.binlog.events import GTIDS, HEADER, INSERT, OPERATION, STATEMENT_END, UPDATE_BEFORE, EventType
from cdc_core.binlog.gtid_events import last_gtid
from cdc_core.position import OFFSET_BITS, EntryPosition, journal_number
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.sql_text import shown, without_values
from cdc_core.stream.group import body_at, statement_at

MOST_STATEMENTS = 20  # of a transaction that are kept, and so many characters of each
MOST_CHARACTERS = 1_000


@dataclass(slots=True)
class RowCounts:
    """The rows of one table that a transaction changed."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    @property
    def rows(self) -> int:
        return self.inserts + self.updates + self.deletes


@dataclass(slots=True)
class Transaction:
    """One transaction, or the part of it that was read: then `gtid` is "". `statements`: what the clients sent, and DDL
    statements without their values; `left_out` counts those beyond the limit. `slices`: the events of the first
    rows."""

    start: EntryPosition
    gtid: str = ""
    server_id: int = 0
    end: EntryPosition | None = None
    time: datetime | None = None
    statements: list[str] = field(default_factory=list)
    left_out: int = 0
    rows: dict[str, RowCounts] = field(default_factory=dict)
    slices: list[BlockSlice] = field(default_factory=list, repr=False)

    @property
    def count(self) -> int:
        """How many rows it changed."""
        return sum(counts.rows for counts in self.rows.values())

    def add_statement(self, text: str) -> None:
        if len(self.statements) < MOST_STATEMENTS:
            self.statements.append(shown(text, MOST_CHARACTERS))
        else:
            self.left_out += 1


def original_statement(block: Block, row: int) -> str:
    """Returns the statement that a ROWS_QUERY or ANNOTATE_ROWS event quotes for the rows after it."""
    body = body_at(block, row)
    begin = 1 if block.index["type"][row] == EventType.ROWS_QUERY else 0  # a byte of length, too small for most texts
    return body[begin:].decode(errors="replace")


class Transactions:
    """Puts together the transactions of blocks that come one after the other. Events that end at or before version
    `after` do not count. `keep`: how many rows of a transaction are kept."""

    def __init__(self, registry: SchemaRegistry, after: int, keep: int) -> None:
        self._registry, self._after, self._keep = registry, after, keep
        self._open: Transaction | None = None
        self._quoted: str | None = None  # the statement of the rows that follow
        self._of: set[Kind] = set()  # what kinds of rows the statement has so far

    def push(self, block: Block) -> Iterator[Transaction]:
        """Yields the transactions that end in the block and have a change."""
        index = block.index
        versions = journal_number(block.journal_name) << OFFSET_BITS | index["end"]
        low = int(np.searchsorted(versions, self._after, side="right"))
        begins = GTIDS[index["type"]] > 0
        quotes = np.isin(index["type"], (EventType.ROWS_QUERY, EventType.MARIA_ANNOTATE_ROWS))
        kinds = index["kind"].tolist()
        for row in (low + np.flatnonzero(begins[low:] | quotes[low:] | (index["kind"][low:] != Kind.OTHER))).tolist():
            kind = kinds[row]
            if begins[row] or (kind == Kind.BEGIN and self._open is None):
                self._begin(block, row)
                low = row
            elif quotes[row]:
                self._add_quoted()
                self._quoted = original_statement(block, row)
            elif kind in (Kind.ROWS, Kind.FILTERED):
                self._rows(block, row)
            elif kind in STATEMENTS:
                text = without_values(statement_at(block, row), None)  # its tables may have columns that are hidden
                self._opened(block, row).add_statement(text)
            if kind in ENDS:
                self._keep_slice(block, low, row + 1)
                if (ended := self._end(block, row)) is not None:
                    yield ended
                low = row + 1
        self._keep_slice(block, low, len(index))

    def rest(self) -> Transaction | None:
        """Returns the part of a transaction whose end has not come, or None."""
        self._add_quoted()
        return self._changed(self._open)

    def _begin(self, block: Block, row: int) -> None:
        self._open, self._quoted = None, None
        self._of.clear()
        begun = self._opened(block, row)
        gtid = last_gtid(BlockSlice(block, row, row + 1))
        begun.gtid = str(gtid) if gtid else ""

    def _opened(self, block: Block, row: int) -> Transaction:
        if self._open is None:
            self._open = Transaction(EntryPosition(block.journal_name, block.start_of(row)))
        offset = int(block.index["offset"][row])
        self._open.server_id = int.from_bytes(block.data[offset + 5 : offset + 9].tobytes(), "little")
        return self._open

    def _rows(self, block: Block, row: int) -> None:
        event, last = block.index[row], block.data[int(block.index["offset"][row]) + HEADER + 6] & STATEMENT_END
        if event["kind"] == Kind.ROWS:
            one = self._opened(block, row)
            one.time = _time(int(event["timestamp"]))
            one.end = EntryPosition(block.journal_name, int(event["end"]))
            counts = one.rows.setdefault(self._registry.get(int(event["schema"])).name, RowCounts())
            rows, operation = int(event["rows"]), OPERATION[event["type"]]
            if operation == INSERT:
                counts.inserts += rows
            elif operation == UPDATE_BEFORE:
                counts.updates += rows
            else:
                counts.deletes += rows
        self._of.add(Kind(int(event["kind"])))
        if last:
            self._add_quoted()

    def _add_quoted(self) -> None:
        """Adds the statement to the transaction if it has rows of captured tables alone: it may have values of another
        one, whose trigger wrote a captured one."""
        if self._open is not None and self._quoted is not None and Kind.ROWS in self._of:
            if Kind.FILTERED in self._of:
                self._open.left_out += 1
            else:
                self._open.add_statement(self._quoted)
        self._quoted = None
        self._of.clear()

    def _keep_slice(self, block: Block, low: int, high: int) -> None:
        """Keeps the block's events of the open transaction, if they have rows and there is room."""
        one = self._open
        if one is None or low >= high or not (block.index["kind"][low:high] == Kind.ROWS).any():
            return
        kept = sum(int(part.index["rows"].sum()) for part in one.slices)
        if kept < self._keep:
            one.slices.append(BlockSlice(block, low, high))

    def _end(self, block: Block, row: int) -> Transaction | None:
        self._add_quoted()
        event, one = block.index[row], self._open
        self._open = None
        if one is not None:
            one.end = EntryPosition(block.journal_name, int(event["end"]))
            one.time = _time(int(event["timestamp"]))
        return self._changed(one)

    @staticmethod
    def _changed(one: Transaction | None) -> Transaction | None:
        return one if one is not None and (one.rows or one.statements) else None


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
