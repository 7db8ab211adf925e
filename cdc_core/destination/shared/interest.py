"""Which readers of a shared connection want a block at once; the others take it later, with what comes after it.

It decides when a reader looks, never what it gets: each reads all events, by its own filter. What cannot be told from
the tables alone (a statement, an XA transaction, an event of an unknown type) everybody wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np

from cdc_core.binlog import table_map
from cdc_core.binlog.block import Block
from cdc_core.binlog.events import HEADER, TREATMENT, EventType, Treatment
from cdc_core.errors import SluiceError
from cdc_core.source.logged import Captured
from cdc_core.stream.expand import expand
from cdc_core.stream.group_scan import Decision, decisive_events, new_state

_TELLING = (
    Treatment.PASS,
    Treatment.QUERY,
    Treatment.XID,
    Treatment.TABLE_MAP,
    Treatment.ROWS,
    Treatment.MARIA_GTID,
    Treatment.NEW_FILE,
)
_PLAIN = np.isin(TREATMENT, _TELLING)  # by type
_ENDS = (EventType.XID, EventType.QUERY, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD)
_MOST = 50_000  # tables, and ids of them: a server gives a table that it opens once more another id
_POST_HEADER = 8  # bytes of a TABLE_MAP's body before its names: table id 6, flags 2


class Interest:
    """Readers go by numbers, each with its filter."""

    def __init__(self) -> None:
        self._filters: dict[int, Captured] = {}
        self._by_id: dict[bytes, Set[int]] = {}  # by a table's id on this connection
        self._by_name: dict[tuple[str, str], Set[int]] = {}
        self._within: frozenset[int] = frozenset()  # who wants the open transaction

    def add(self, reader: int, captured: Captured) -> None:
        self._filters[reader] = captured
        self._forget()

    def remove(self, reader: int) -> None:
        self._filters.pop(reader, None)
        self._within -= {reader}
        self._forget()

    def _forget(self) -> None:
        self._by_id.clear()
        self._by_name.clear()

    def of(self, block: Block) -> Set[int]:
        """The readers of a block, which follows the one before it. After a transaction's first captured table they are
        those of all its blocks."""
        if not len(block.index):
            return frozenset()
        try:
            found: Set[int] = self._within.union(*map(self._of_plain, _pieces(block)))
        except SluiceError:  # each reader meets it, with its place
            found = self._filters.keys()
        self._within = frozenset() if block.index["type"][-1] in _ENDS else frozenset(found)
        return found

    def _of_plain(self, block: Block) -> Set[int]:
        types = block.index["type"]
        if not _PLAIN[types].all():
            return self._filters.keys()
        if EventType.QUERY in types and (decisive_events(block, new_state())["decision"] == Decision.STATEMENT).any():
            return self._filters.keys()
        return frozenset[int]().union(*(self._of_table(block, row) for row in _tables(block)))

    def _of_table(self, block: Block, row: int) -> Set[int]:
        """The readers that capture the table of a TABLE_MAP event."""
        offset, length = int(block.index["offset"][row]), int(block.index["length"][row])
        body = block.data[offset + HEADER : offset + length].tobytes()
        found = self._by_id.get(body[:6])
        if found is None:
            if max(len(self._by_id), len(self._by_name)) >= _MOST:
                self._forget()
            names = table_map.names_in(body[_POST_HEADER:])
            found = self._by_name.get(names)
            if found is None:
                found = frozenset(reader for reader, captured in self._filters.items() if captured(*names))
                self._by_name[names] = found
            self._by_id[body[:6]] = found
        return found


def _pieces(block: Block) -> Iterator[Block]:
    """The block, without compression."""
    return iter((block,)) if _PLAIN[block.index["type"]].all() else expand(block)


def _tables(block: Block) -> list[int]:
    """A TABLE_MAP event for each table id of the block."""
    rows = np.flatnonzero(block.index["type"] == EventType.TABLE_MAP)
    if len(rows) < 2:
        return list(map(int, rows))
    at = block.index["offset"][rows].astype(np.int64)[:, np.newaxis] + HEADER + np.arange(6)
    if int(at.max()) >= block.data.size:
        return list(map(int, rows))
    ids = (block.data[at].astype(np.int64) << 8 * np.arange(6)).sum(axis=1)
    return list(map(int, rows[np.unique(ids, return_index=True)[1]]))
