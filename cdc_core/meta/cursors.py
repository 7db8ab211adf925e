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
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from cdc_core.errors import CursorError, PositionError
from cdc_core.meta.nodes import Change, Node, Nodes
from cdc_core.position import EntryPosition, LogPosition

_MEND = "Mend or remove the node, then start again; nothing was overwritten."


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A table that cannot go on, why, since which position, and what mends it."""

    table: str
    reason: str
    hint: str
    position: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The present epoch; the first one of the present source; those that tell nothing again (`Cursors.seamless`)."""

    number: int
    moved: int
    seamless: Mapping[int, int]


class Cursors:
    """No state of its own: every call goes to `nodes`."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        self._nodes = nodes
        self.destination = destination
        self._root = f"/otter/canal/destinations/{destination}"

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

    def _changes(self, client_id: int, values: Mapping[str, bytes | None]) -> dict[str, Change]:
        """None: be gone."""
        changes = {}
        for name, value in values.items():
            node = self._nodes.read(self._path(client_id, name))
            if value is not None or node is not None:
                changes[self._path(client_id, name)] = Change(value, node.version if node else None)
        return changes

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
        node = self._nodes.read(path)
        try:
            return {int(epoch): int(left) for epoch, left in json.loads(node.value).items()} if node else {}
        except (AttributeError, TypeError, ValueError) as error:
            assert node is not None
            raise self._broken(path, node, "epochs with versions") from error

    def source(self, client_id: int, cursor: LogPosition) -> str:
        """The uuid of the server that the cursor is of; empty where that is not known. It was noted with an address: a
        Java Canal that moves the cursor to another one does not know of it."""
        path = self._path(client_id, "source")
        node = self._nodes.read(path)
        try:
            fields = json.loads(node.value) if node else {}
            return str(fields["uuid"]) if fields.get("address") == _address(cursor) else ""
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            assert node is not None
            raise self._broken(path, node, "a server's address and uuid") from error

    def present(self, client_id: int) -> Epoch:
        return Epoch(self.epoch(client_id), self.moved(client_id), self.seamless(client_id))

    def _number(self, client_id: int, name: str) -> int:
        path = self._path(client_id, name)
        node = self._nodes.read(path)
        if node is None:
            return 0
        if not node.value.isdigit():
            raise self._broken(path, node, "an epoch, a number")
        return int(node.value)

    def stopped(self, client_id: int) -> list[StoppedTable]:
        root = self._path(client_id, "stopped")
        return [found for name in self._nodes.children(root) if (found := self._read_stopped(f"{root}/{name}"))]

    def stop_table(self, client_id: int, stopped: StoppedTable) -> None:
        path = self._stopped_path(client_id, stopped.table)
        self._put(path, self._nodes.read(path), json.dumps(stopped.to_dict()).encode())

    def resume_table(self, client_id: int, table: str) -> None:
        path = self._stopped_path(client_id, table)
        node = self._nodes.read(path)
        if node is not None:
            self._nodes.write({path: Change(None, node.version)})

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
        if node is None:
            return None, None
        try:
            fields = json.loads(node.value)
            return node, EntryPosition.from_dict(fields) if fields["epoch"] == epoch else None
        except (PositionError, KeyError, TypeError, ValueError) as error:
            raise self._broken(path, node, "a position with its epoch") from error

    def _read_stopped(self, path: str) -> StoppedTable | None:
        node = self._nodes.read(path)
        if node is None:
            return None
        try:
            return StoppedTable(**json.loads(node.value))
        except (TypeError, ValueError) as error:
            raise self._broken(path, node, "a stopped table") from error

    def _parse(self, path: str, node: Node | None) -> LogPosition | None:
        if node is None:
            return None
        try:
            return LogPosition.from_json(node.value)
        except PositionError as error:
            raise self._broken(path, node, "a cursor in Canal's JSON") from error

    def _put(self, path: str, node: Node | None, value: bytes) -> None:
        self._nodes.write({path: Change(value, node.version if node else None)})

    def _broken(self, path: str, node: Node, expected: str) -> CursorError:
        return CursorError(f"not {expected}: {node.value[:200]!r}", place=self._nodes.place(path), hint=_MEND)

    def _path(self, client_id: int, name: str) -> str:
        return f"{self._root}/{client_id}/{name}"

    def _stopped_path(self, client_id: int, table: str) -> str:
        return f"{self._path(client_id, 'stopped')}/{quote(table, safe='')}"


def _address(cursor: LogPosition) -> str:
    return f"{cursor.address}:{cursor.port}"


def _source(cursor: LogPosition, uuid: str) -> bytes:
    return json.dumps({"address": _address(cursor), "uuid": uuid}).encode()
