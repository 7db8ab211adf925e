"""One destination's clients as they are kept: Canal's layout and JSON, and beside them what is ours.

    /otter/canal/destinations/{destination}/{client}/cursor         Canal's LogPosition
                                                    /filter         Canal's filter expression
                                                    /epoch          rises with every deliberate rewind
                                                    /moved          the epoch in which the source became another server
                                                    /seamless       epochs that began at another server without telling
                                                                    again: {epoch: version of the cursor that was left}
                                                    /source         the server that the cursor is of, by its uuid
                                                    /acked          the end of the last acked batch that had rows
                                                    /stopped/{table}

A cursor is written before `write` returns, and never lower than it was but by `rewind`. What
cannot be read is never overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cdc_core.errors import CursorError
from cdc_core.meta.kept import Kept
from cdc_core.meta.nodes import Change, Node, Nodes
from cdc_core.meta.stopped import StoppedTables
from cdc_core.position import EntryPosition, LogPosition


@dataclass(frozen=True, slots=True)
class Epoch:
    """The present epoch; the first one of the present source; those that tell nothing again (`Cursors.seamless`)."""

    number: int
    moved: int
    seamless: Mapping[int, int]


class Cursors(Kept):
    """`stopped` is what is kept of tables beside the cursors."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        super().__init__(nodes, destination)
        self.stopped = StoppedTables(nodes, destination)

    def clients(self) -> list[int]:
        return sorted(int(name) for name in self._nodes.children(self._root) if name.isdigit())

    def subscribe(self, client_id: int, filter_text: str = "") -> None:
        """Makes the client known; an existing one keeps its cursor."""
        path = self._path(client_id, "filter")
        node = self._nodes.read(path)
        if node is None or node.value.decode() != filter_text:
            self._put(path, node, filter_text.encode())

    def read(self, client_id: int) -> LogPosition | None:
        """The cursor, or None when the client has none yet. Raises CursorError for a node that is not one."""
        path = self._path(client_id, "cursor")
        return self._parse(path, self._nodes.read(path))

    def write(
        self, client_id: int, cursor: LogPosition | None, acked: EntryPosition | None = None, source: str = ""
    ) -> None:
        """Moves the cursor on, and with it the end of the last batch that had rows; either alone as well. `source`: the
        uuid of the server that the cursor is of."""
        changes: dict[str, Change] = {}
        if cursor is not None:
            changes |= self._cursor_change(self._path(client_id, "cursor"), cursor)
            if source and source != self.source(client_id, cursor):
                changes |= self._changes(client_id, {"source": _source(cursor, source)})
        if acked is not None:
            changes |= self._acked_change(client_id, acked)
        self._nodes.write(changes)  # also without changes: where writes are fenced, this is where an ack fails

    def rewind(self, client_id: int, cursor: LogPosition, *, moved: bool = False) -> int:
        """Sets the cursor to any place and begins a new epoch, in one write; `acked` was the old one's. `moved`: the
        place is another server's. The new epoch."""
        epoch = self.epoch(client_id) + 1
        values = self._begun(epoch, cursor) | {"seamless": None, "source": None}
        if moved:
            values["moved"] = str(epoch).encode()
        self._nodes.write(self._changes(client_id, values))
        return epoch

    def move(self, clients: Iterable[int], cursor: LogPosition, source: str, seamless: Collection[int] = ()) -> None:
        """Sets cursors to a place of another server, `source` by its uuid, and begins new epochs; all in one write.
        For those in `seamless` reading goes on there behind what their cursor had, and tells nothing again."""
        changes: dict[str, Change] = {}
        for client_id in clients:
            before, epoch = self.read(client_id), self.epoch(client_id) + 1
            left: dict[int, int] | None = None
            if client_id in seamless and before is not None:
                left = self.seamless(client_id) | {epoch: before.postion.version()}
            changes |= self._changes(
                client_id,
                self._begun(epoch, cursor)
                | {
                    "moved": str(epoch).encode(),
                    "seamless": json.dumps(left).encode() if left else None,
                    "source": _source(cursor, source),
                },
            )
        self._nodes.write(changes)

    def _begun(self, epoch: int, cursor: LogPosition) -> dict[str, bytes | None]:
        return {"cursor": cursor.to_json().encode(), "epoch": str(epoch).encode(), "acked": None}

    def acked(self, client_id: int) -> EntryPosition | None:
        """The end of the last acked batch that had rows, in the present epoch."""
        return self._read_acked(client_id, self.epoch(client_id))[1]

    def epoch(self, client_id: int) -> int:
        return self._number(client_id, "epoch")

    def moved(self, client_id: int) -> int:
        """The first epoch of the present source: positions of earlier ones are another server's."""
        return self._number(client_id, "moved")

    def seamless(self, client_id: int) -> dict[int, int]:
        """Epochs that tell nothing again of the one before, and the version of the cursor that each was begun from."""
        path = self._path(client_id, "seamless")
        return self._parsed(path, self._nodes.read(path), _versions, "epochs with versions") or {}

    def source(self, client_id: int, cursor: LogPosition) -> str:
        """The uuid of the server that the cursor is of; empty where that is not known. It was noted with an address: a
        Java Canal that moves the cursor to another one does not know of it."""
        path = self._path(client_id, "source")
        noted = self._parsed(path, self._nodes.read(path), _noted, "a server's address and uuid")
        return noted[1] if noted and noted[0] == _address(cursor) else ""

    def present(self, client_id: int) -> Epoch:
        return Epoch(self.epoch(client_id), self.moved(client_id), self.seamless(client_id))

    def _number(self, client_id: int, name: str) -> int:
        path = self._path(client_id, name)
        return self._parsed(path, self._nodes.read(path), _natural, "an epoch, a number") or 0

    def _cursor_change(self, path: str, cursor: LogPosition) -> dict[str, Change]:
        node = self._nodes.read(path)
        present = self._parse(path, node)
        if present is not None and cursor.postion < present.postion:
            raise CursorError(
                f"cursor {cursor.postion} is lower than {present.postion}, which is kept",
                place=self._nodes.place(path),
                hint="Another service may serve this destination; a deliberate rewind raises the epoch.",
            )
        return {path: Change(cursor.to_json().encode(), node.version if node else None)}

    def _acked_change(self, client_id: int, acked: EntryPosition) -> dict[str, Change]:
        epoch = self.epoch(client_id)
        node, present = self._read_acked(client_id, epoch)
        if present is not None and acked <= present:
            return {}
        value = json.dumps({"epoch": epoch, **acked.to_dict()}).encode()
        return {self._path(client_id, "acked"): Change(value, node.version if node else None)}

    def _read_acked(self, client_id: int, epoch: int) -> tuple[Node | None, EntryPosition | None]:
        path = self._path(client_id, "acked")
        node = self._nodes.read(path)
        of_epoch = self._parsed(path, node, _acked, "a position with its epoch")
        return node, of_epoch[1] if of_epoch and of_epoch[0] == epoch else None

    def _parse(self, path: str, node: Node | None) -> LogPosition | None:
        return self._parsed(path, node, LogPosition.from_json, "a cursor in Canal's JSON")


def _address(cursor: LogPosition) -> str:
    return f"{cursor.address}:{cursor.port}"


def _source(cursor: LogPosition, uuid: str) -> bytes:
    return json.dumps({"address": _address(cursor), "uuid": uuid}).encode()


def _noted(value: bytes) -> tuple[str, str]:
    fields = json.loads(value)
    return str(fields["address"]), str(fields["uuid"])


def _versions(value: bytes) -> dict[int, int]:
    return {int(epoch): int(left) for epoch, left in json.loads(value).items()}


def _acked(value: bytes) -> tuple[int, EntryPosition]:
    fields = json.loads(value)
    return fields["epoch"], EntryPosition.from_dict(fields)


def _natural(value: bytes) -> int:
    if not value.isdigit():
        raise ValueError(value)
    return int(value)
