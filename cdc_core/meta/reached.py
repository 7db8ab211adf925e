"""The nodes that keep how far each client's rows reached its lake, and the cursor that this service wrote last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cdc_core.contract.reached import How, Reached
from cdc_core.meta.client_nodes import ClientNodes
from cdc_core.meta.nodes import Change, Node
from cdc_core.position import Anchor, EntryPosition, LogPosition


class Written(NamedTuple):
    """The cursor that this service wrote last, as `mark_of` has it, and the anchor of its position."""

    mark: str
    anchor: Anchor | None = None

    @classmethod
    def of(cls, cursor: LogPosition) -> Written:
        return cls(mark_of(cursor), cursor.postion.anchor)

    def to_dict(self) -> dict[str, Any]:
        return {"cursor": self.mark, "anchor": Anchor.to_json(self.anchor)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Written | None:
        """None for a node of a version that did not keep it."""
        return cls(fields["cursor"], Anchor.from_json(fields.get("anchor"))) if fields.get("cursor") else None


def mark_of(cursor: LogPosition) -> str:
    """What is kept of a cursor that this service wrote, to see that another program moved it."""
    return f"{cursor.address}:{cursor.port}/{cursor.postion}"


def resumed(cursor: LogPosition, kept: Reached | None, mark: str | None, epoch: int) -> Reached:
    """What a client has reached that goes on at its kept `cursor`. `mark` is that of the cursor that this service wrote
    last; None where an older version did not keep it. `epoch` is the present one."""
    if kept is not None and mark is not None:
        return Reached(How.FOREIGN, epoch, cursor.postion) if _is_foreign(cursor, mark) else kept
    if kept is not None and kept.epoch == epoch:
        return kept
    # of an older version, or a Java Canal's: nothing was acked since the client began, or since its epoch did
    return Reached(How.RESET if epoch else How.START, epoch, cursor.postion)


def _is_foreign(cursor: LogPosition, mark: str) -> bool:
    """Whether another program moved the cursor. One that it set back on the same server loses nothing."""
    address, _, place = mark.partition("/")
    journal_name, _, offset = place.rpartition(":")
    own = EntryPosition(journal_name, int(offset))
    if address == f"{cursor.address}:{cursor.port}":
        return cursor.postion > own
    same_port = address.rpartition(":")[2] == str(cursor.port)  # the host may have been named in another way
    return not (same_port and cursor.postion == own)


class ReachedNodes(ClientNodes):
    """The nodes `acked`, which keep what the clients have reached."""

    def acked(self, client_id: int) -> EntryPosition | None:
        """The end of the last acked batch that had rows, in the present epoch."""
        reached, epoch = self.reached(client_id), self._number(client_id, "epoch")
        return reached.position if reached and (reached.how, reached.epoch) == (How.BATCH, epoch) else None

    def reached(self, client_id: int) -> Reached | None:
        """How far the client's rows were acked; None for a client that has not begun."""
        return self._read_reached(client_id)[0]

    def is_own(self, client_id: int) -> bool:
        """Whether this service wrote the client's cursor, and no other program has moved it."""
        return self._with_own(client_id)[1] is not None

    def _with_own(self, client_id: int) -> tuple[LogPosition | None, Written | None]:
        """The client's cursor, and what was kept with it; None where another program wrote the cursor."""
        path = self._path(client_id, "cursor")
        cursor = self._parsed_cursor(path, self._nodes.read(path))
        written = self._read_reached(client_id)[1] if cursor else None
        return cursor, written if cursor and written and written.mark == mark_of(cursor) else None

    def _parsed_cursor(self, path: str, node: Node | None) -> LogPosition | None:
        return self._parsed(path, node, LogPosition.from_json, "a cursor in Canal's JSON")

    def _number(self, client_id: int, name: str) -> int:
        path = self._path(client_id, name)
        return self._parsed(path, self._nodes.read(path), _natural, "an epoch, a number") or 0

    def _reached_change(
        self, client_id: int, cursor: LogPosition | None, acked: EntryPosition | None
    ) -> dict[str, Change]:
        """What an ack up to `acked`, and a `cursor` of our own, make of what the client has reached."""
        reached, written = self._read_reached(client_id)
        if acked is not None:
            epoch = self._number(client_id, "epoch")
            reached = reached.after(epoch, acked) if reached else Reached(How.BATCH, epoch, acked)
        written = written if cursor is None else Written.of(cursor)
        return self._reached_node(client_id, reached, written) if reached else {}

    def _resumed(self, client_id: int, cursor: LogPosition, epoch: int) -> Reached:
        reached, written = self._read_reached(client_id)
        return resumed(cursor, reached, written.mark if written else None, epoch)

    def _reached_node(self, client_id: int, reached: Reached, written: Written | None) -> dict[str, Change]:
        return self._changes(client_id, {"acked": reached_value(reached, written)})

    def _read_reached(self, client_id: int) -> tuple[Reached | None, Written | None]:
        """With the cursor that this service wrote last."""
        path = self._path(client_id, "acked")
        kept = self._parsed(path, self._nodes.read(path), _reached_fields, "a position with its epoch")
        return kept or (None, None)


def reached_value(reached: Reached, written: Written | None) -> bytes:
    """What the node has."""
    return json.dumps(reached.to_dict() | (written.to_dict() if written else {"cursor": None})).encode()


def _reached_fields(value: bytes) -> tuple[Reached, Written | None]:
    fields = json.loads(value)
    return Reached.from_dict(fields), Written.from_dict(fields)


def _natural(value: bytes) -> int:
    if not value.isdigit():
        raise ValueError(value)
    return int(value)
