"""The cursors and epochs of one destination's clients: Canal's layout and JSON, and our own nodes next to them.

    /otter/canal/destinations/{destination}/{client}/cursor         Canal's LogPosition
                                                    /filter         Canal's filter expression
                                                    /own_filter     the same, where the client brought it along
                                                    /rules          what its lake sees of the tables
                                                    /quarantined    how many rows of each table wait
                                                    /blocked        tables whose change logs wait for their rows
                                                    /captured       the filter up to the cursor: `meta.filter_notes`
                                                    /entries        its rows are read as Canal's entries
                                                    /epoch          rises with a rewind, and where rows are given up
                                                    /moved          the first epoch of the present source
                                                    /seamless       epochs that repeat no row of the one before
                                                    /source         address and uuid of the server of the cursor
                                                    /acked          how far rows were acked; the cursor, and its anchor
                                                    /set_back       see `meta.set_backs`
                                                    /unsubscribed   it is no client any more
                                                    /stopped_tables/{n}  see `meta.table_states`
                                                    /open_snapshots/{n}
                                                    /parts/{name}

A cursor is written when `write` returns. Only `rewind` and `move` (`meta.epoch`) lower it, and they begin a new epoch.
A node that cannot be parsed is never overwritten.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence

from cdc_core.contract.reached import How, Reached
from cdc_core.contract.snapshot import Snapshot
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import CursorError
from cdc_core.meta.epoch import EpochNodes, source_value
from cdc_core.meta.filter_notes import FilterChange, FilterNotes
from cdc_core.meta.nodes import Change, Nodes
from cdc_core.meta.reached import Written
from cdc_core.meta.set_backs import SetBacks
from cdc_core.position import EntryPosition, LogPosition


class Cursors(EpochNodes):
    """`filters` has the filters up to the cursors of the same clients."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        super().__init__(nodes, destination)
        self.set_backs = SetBacks(nodes, destination)
        self.filters = FilterNotes(nodes, destination)

    def identity(self) -> str:
        """Return the id that distinguishes this destination from one of the same name at another service. It is made
        once and lives as long as the cursors."""
        path = f"{self._root}/sluice_identity"
        node = self._nodes.read(path)
        if node is not None:
            return node.value.decode()
        made = uuid.uuid4().hex
        self._put(path, None, made.encode())
        return made

    def identify(self, identity: str) -> None:
        """Takes over the identity of a destination whose cursors were lost."""
        path = f"{self._root}/sluice_identity"
        self._put(path, self._nodes.read(path), identity.encode())

    def unsubscribe(self, client_id: int, *, keep_cursor: bool) -> None:
        """Its epoch and its stopped tables stay: a lake that it filled may come back to it."""
        gone = ["cursor", "filter", "own_filter", "source", "acked", "entries", "set_back", "quarantined", "blocked"]
        values: dict[str, bytes | None] = {} if keep_cursor else dict.fromkeys(gone)
        self._nodes.write(self._changes(client_id, values | {"unsubscribed": b"{}"}))

    def subscribe(self, client_id: int, filter_text: str = "") -> None:
        """Makes the client known. An existing client keeps its cursor."""
        if changes := self._subscribed(client_id, filter_text):
            self._nodes.write(changes)

    def _subscribed(self, client_id: int, filter_text: str) -> dict[str, Change]:
        filter_text = self.own_filter(client_id) or filter_text
        path = self._path(client_id, "filter")
        node = self._nodes.read(path)
        changes = self._changes(client_id, {"unsubscribed": None})
        if node is None or node.value.decode() != filter_text:
            changes[path] = Change(filter_text.encode(), node.version if node else None)
        return changes

    def own_filter(self, client_id: int) -> str:
        """The filter that the client brought along; empty without one."""
        node = self._nodes.read(self._path(client_id, "own_filter"))
        return node.value.decode() if node else ""

    def set_filter(self, client_id: int, text: str) -> None:
        """Keeps the filter that a client brought along."""
        self._nodes.write(self._changes(client_id, {"own_filter": text.encode(), "filter": text.encode()}))

    def rules(self, client_id: int) -> str:
        """What the client's lake sees of the tables, as JSON; empty for all of them."""
        path = self._path(client_id, "rules")
        return self._parsed(path, self._nodes.read(path), lambda value: value.decode(), "rules") or ""

    def set_rules(self, client_id: int, text: str) -> None:
        self._nodes.write(self._changes(client_id, {"rules": text.encode() or None}))

    def quarantined(self, client_id: int) -> dict[str, int]:
        """How many rows wait in the quarantines of the client's tables, as it was reported last."""
        path = self._path(client_id, "quarantined")
        return self._parsed(path, self._nodes.read(path), _counts, "counts of rows") or {}

    def set_quarantined(self, client_id: int, rows: Mapping[str, int]) -> None:
        value = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode() if rows else None
        self._nodes.write(self._changes(client_id, {"quarantined": value}))

    def blocked(self, client_id: int) -> tuple[StoppedTable, ...]:
        """The client's tables whose change logs are blocked by their rows, as it was reported last."""
        path = self._path(client_id, "blocked")
        return self._parsed(path, self._nodes.read(path), _stops, "blocked tables") or ()

    def set_blocked(self, client_id: int, tables: Sequence[StoppedTable]) -> None:
        found = [one.to_dict() for one in tables]
        value = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() if found else None
        self._nodes.write(self._changes(client_id, {"blocked": value}))

    def reads_entries(self, client_id: int) -> bool:
        """Whether the client's last reader was one of entries: a client of Canal's, or a message queue."""
        return self._nodes.read(self._path(client_id, "entries")) is not None

    def set_reads_entries(self, client_id: int, *, reads: bool) -> None:
        self._nodes.write(self._changes(client_id, {"entries": b"{}" if reads else None}))

    def write(
        self,
        client_id: int,
        cursor: LogPosition | None,
        acked: EntryPosition | None = None,
        source: str = "",
        stopped: Iterable[StoppedTable] = (),
        snapshots: Iterable[Snapshot] = (),
        lifted: Iterable[str] = (),
    ) -> None:
        """Moves the cursor forward, and in the same write `acked`, the end of the last batch with rows; or one of them.

        `source` is the uuid of the server that the cursor belongs to; `stopped` and `snapshots` are those that changed
        with it, `lifted` the tables whose stop ends with it. Raises CursorError for a lower cursor.
        """
        changes: dict[str, Change] = {}
        if cursor is not None:
            changes |= self._cursor_change(self._path(client_id, "cursor"), cursor)
            changes |= self._reached_change(client_id, cursor, acked)
            if source and source != self.source(client_id, cursor):
                changes |= self._changes(client_id, {"source": source_value(cursor, source)})
        elif acked is not None:
            changes |= self._reached_change(client_id, None, acked)
        changes |= self.stopped.changes(client_id, stopped, lifted) | self.snapshots.changes(client_id, snapshots)
        self._nodes.write(changes)  # also without changes: a fence may refuse it

    def begin(
        self,
        client_id: int,
        start: LogPosition,
        source: str = "",
        filter_text: str | None = None,
        change: FilterChange | None = None,
    ) -> Reached:
        """Keeps the cursor of a client that begins or goes on at `start`. What the client has reached by then. Where it
        was not reached by its own acks, its open snapshots lack changes: they are broken in the same write. Where rows
        were given up, a new epoch begins: within one there is no gap.

        With a `filter_text` the same write subscribes the client; `change` is what another filter changes.
        """
        kept, epoch = self.read(client_id), self._number(client_id, "epoch")
        if kept is None:
            reached = Reached(How.START, epoch, start.postion)
        elif start.postion > kept.postion:
            epoch += 1
            reached = Reached(How.LOST, epoch, start.postion)
        else:
            reached = self._resumed(client_id, kept, epoch)
        node = self._reached_node(client_id, reached, Written.of(start))
        changes = self._cursor_change(self._path(client_id, "cursor"), start) | node
        if filter_text is not None:
            changes |= self._subscribed(client_id, filter_text)
        if change is not None:
            changes |= self.filters.changes(client_id, change.note)
            changes |= self.stopped.also(client_id, change.stops, self.acked(client_id))
        if reached != self.reached(client_id):
            changes |= self.snapshots.broken(client_id, "changes were skipped before any run could store them")
        elif change is not None and change.unread:
            changes |= self.snapshots.broken(client_id, "the filter left its table out meanwhile", change.unread)
        if reached.how is How.LOST and reached.epoch > self._number(client_id, "epoch"):
            left = self._seamless(client_id) | {epoch: start.postion.version()}  # no row comes again
            values = {"epoch": str(epoch).encode(), "seamless": json.dumps(left).encode()}
            changes |= self._changes(client_id, values)
        if source and source != self.source(client_id, start):
            changes |= self._changes(client_id, {"source": source_value(start, source)})
        self._nodes.write(changes | self._changes(client_id, {"set_back": None}))
        return reached

    def _cursor_change(self, path: str, cursor: LogPosition) -> dict[str, Change]:
        node = self._nodes.read(path)
        present = self._parsed_cursor(path, node)
        if present is not None and cursor.postion < present.postion:
            raise CursorError(
                f"the new cursor {cursor.postion} is before the stored cursor {present.postion}",
                place=self._nodes.place(path),
                hint="Make sure that no other service runs this destination. To go back on purpose: sluice reset.",
            )
        return {path: Change(cursor.to_json().encode(), node.version if node else None)}


def _counts(value: bytes) -> dict[str, int]:
    return {str(table): int(rows) for table, rows in json.loads(value).items()}


def _stops(value: bytes) -> tuple[StoppedTable, ...]:
    return tuple(map(StoppedTable.from_dict, json.loads(value)))
