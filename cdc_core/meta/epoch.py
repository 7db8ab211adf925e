"""An epoch of a client: the stretch between two moves of its cursor on purpose, or over rows that were given up.

    .../{client}/epoch, moved, seamless, source    see `meta.cursors`
    .../sluice_move                                a move of several clients that is under way, as JSON

One write moves one client, with its stopped tables and open snapshots; ZooKeeper does not take those of many clients at
once. So a move is noted first, and whoever starts the destination finishes it before reading any cursor.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cdc_core.contract.reached import How, Reached
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.meta.nodes import Change, Nodes
from cdc_core.meta.reached import ReachedNodes, Written, mark_of, reached_value
from cdc_core.meta.snapshots import Snapshots
from cdc_core.meta.stopped_tables import StoppedTables
from cdc_core.position import Anchor, EntryPosition, LogPosition


@dataclass(frozen=True, slots=True)
class Epoch:
    """The present epoch's number, and what is known of those before.

    `moved` is the first epoch of the present source: positions of earlier epochs belong to another server. `seamless`
    has the epochs that repeat no row of the one before, each with the version of the cursor that it began after.
    """

    number: int = 0
    moved: int = 0
    seamless: Mapping[int, int] = field(default_factory=dict)


class Before(NamedTuple):
    """A client before a move: its epoch, its cursor as `mark_of` has it ("" for none), whether it was subscribed."""

    epoch: int
    cursor: str
    subscribed: bool


@dataclass(frozen=True, slots=True)
class ServerMove:
    """To `cursor`, a place of the server `source`. `before` has each client as it was. For the clients in `seamless`
    the place is exactly after their cursor: no row comes again."""

    cursor: LogPosition
    source: str
    before: Mapping[int, Before]
    seamless: Collection[int] = ()

    def to_bytes(self) -> bytes:
        place = self.cursor.postion
        fields = {
            "address": self.cursor.address,
            "port": self.cursor.port,
            "place": place.to_dict(),
            "anchor": Anchor.to_json(place.anchor),
            "source": self.source,
            "before": self.before,
            "seamless": sorted(self.seamless),
        }
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> ServerMove:
        """Raises PositionError, AttributeError, TypeError, KeyError or ValueError for another form."""
        fields = json.loads(value)
        place = replace(EntryPosition.from_dict(fields["place"]), anchor=Anchor.from_json(fields["anchor"]))
        kept = fields["before"].items()
        before = {int(client): Before(int(epoch), str(mark), bool(there)) for client, (epoch, mark, there) in kept}
        cursor = LogPosition(str(fields["address"]), int(fields["port"]), place)
        return cls(cursor, str(fields["source"]), before, frozenset(map(int, fields["seamless"])))


class EpochNodes(ReachedNodes):
    """Cursors, and what begins an epoch with them. `stopped` has the stopped tables of the same clients, `snapshots`
    the open snapshots."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        super().__init__(nodes, destination)
        self.stopped = StoppedTables(nodes, destination)
        self.snapshots = Snapshots(nodes, destination)

    def known(self) -> list[int]:
        """The clients that have nodes, sorted; also those that are not subscribed any more."""
        return sorted(int(name) for name in self._nodes.children(self._root) if name.isdigit())

    def clients(self) -> list[int]:
        """The subscribed clients, sorted."""
        return [one for one in self.known() if self._nodes.read(self._path(one, "unsubscribed")) is None]

    def read(self, client_id: int) -> LogPosition | None:
        """The cursor; None when the client has none yet. Raises CursorError for a node that is no cursor."""
        cursor, written = self._with_own(client_id)
        return cursor.at(replace(cursor.postion, anchor=written.anchor)) if cursor and written else cursor

    def rewind(
        self,
        client_id: int,
        cursor: LogPosition,
        stops: Iterable[StoppedTable] = (),
        *,
        moved: bool = False,
        epoch: int = 0,
    ) -> int:
        """Sets the cursor to any place, stops these tables and begins a new epoch, in one write. `moved`: the place is
        another server's. The new epoch is at least `epoch`.

        Returns the new epoch.
        """
        epoch = max(epoch, self._number(client_id, "epoch") + 1)
        reached = Reached(How.RESET, epoch, cursor.postion)
        values = self._epoch_values(epoch, cursor, reached) | {"seamless": None, "source": None, "unsubscribed": None}
        if moved:
            values["moved"] = str(epoch).encode()
        stopped = {one.table: one for one in self._stopped_at(client_id, cursor.postion, moved=moved)}
        stopped |= {one.table: one.over(stopped.get(one.table)) for one in stops}
        changes = self._changes(client_id, values) | self.stopped.changes(client_id, stopped.values())
        self._nodes.write(changes | self.snapshots.broken(client_id, "the destination was reset"))
        return epoch

    def _stopped_at(self, client_id: int, place: EntryPosition, *, moved: bool) -> list[StoppedTable]:
        stopped = self.stopped.of(client_id, self.acked(client_id))
        return [one.at(place, moved=moved) for one in stopped]

    def move(self, clients: Iterable[int], cursor: LogPosition, source: str, seamless: Collection[int] = ()) -> None:
        """Sets cursors to a place of another server, whose uuid is `source`, and begins new epochs. A kill leaves all
        cursors as they were, or a move that `finish_move` goes on with.

        For the clients in `seamless` the place is exactly after their cursor: no row comes again.
        """
        before = {client_id: self._before(client_id) for client_id in clients}
        noted = ServerMove(cursor, source, before, [one for one in before if one in seamless])
        self._put(self._move_path, None, noted.to_bytes())
        self.finish_move()

    def finish_move(self) -> None:
        """Moves the clients that an interrupted move has left; not one whose cursor another hand wrote since, for which
        the place was not chosen, nor one that was unsubscribed since. Without such a move it changes nothing."""
        node = self._nodes.read(self._move_path)
        move = self._parsed(self._move_path, node, ServerMove.from_bytes, "a move of clients to another server")
        if node is None or move is None:
            return
        for client_id, before in move.before.items():
            if self._before(client_id) == before:
                self._nodes.write(self._moved(client_id, move, before.epoch + 1))
        self._nodes.write({self._move_path: Change(None, node.version)})

    def _before(self, client_id: int) -> Before:
        cursor, unsubscribed = self.read(client_id), self._nodes.read(self._path(client_id, "unsubscribed"))
        return Before(self._number(client_id, "epoch"), mark_of(cursor) if cursor else "", unsubscribed is None)

    @property
    def _move_path(self) -> str:
        return f"{self._root}/sluice_move"

    def _moved(self, client_id: int, move: ServerMove, epoch: int) -> dict[str, Change]:
        before, cursor = self.read(client_id), move.cursor
        reached = Reached(How.START, epoch, cursor.postion)
        if before is not None:
            reached = self._resumed(client_id, before, epoch - 1)
        left: dict[int, int] | None = None
        if client_id in move.seamless and before is not None:
            left = self._seamless(client_id) | {epoch: before.postion.version()}
        values = self._epoch_values(epoch, cursor, reached) | {
            "moved": str(epoch).encode(),
            "seamless": json.dumps(left).encode() if left else None,
            "source": source_value(cursor, move.source),
        }
        changes = self._changes(client_id, values)
        changes |= self.stopped.changes(client_id, self._stopped_at(client_id, cursor.postion, moved=True))
        return changes | self.snapshots.broken(client_id, "the destination reads another server now")

    def _epoch_values(self, epoch: int, cursor: LogPosition, reached: Reached) -> dict[str, bytes | None]:
        acked = reached_value(reached, Written.of(cursor))
        return {"cursor": cursor.to_json().encode(), "epoch": str(epoch).encode(), "acked": acked, "set_back": None}

    def epoch(self, client_id: int) -> Epoch:
        """The present epoch; number 0 for a client whose cursor was never moved on purpose."""
        number, moved = self._number(client_id, "epoch"), self._number(client_id, "moved")
        return Epoch(number, moved, self._seamless(client_id))

    def source(self, client_id: int, cursor: LogPosition) -> str:
        """The uuid of the server that the cursor belongs to; empty when it is not known.

        It is kept with an address, since a Java Canal that moves the cursor to another server does not update it.
        """
        path = self._path(client_id, "source")
        kept = self._parsed(path, self._nodes.read(path), _source_fields, "a server's address and uuid")
        return kept[1] if kept and kept[0] == _address(cursor) else ""

    def _seamless(self, client_id: int) -> dict[int, int]:
        path = self._path(client_id, "seamless")
        return self._parsed(path, self._nodes.read(path), _versions, "epochs with versions") or {}


def _address(cursor: LogPosition) -> str:
    return f"{cursor.address}:{cursor.port}"


def source_value(cursor: LogPosition, uuid: str) -> bytes:
    return json.dumps({"address": _address(cursor), "uuid": uuid}).encode()


def _source_fields(value: bytes) -> tuple[str, str]:
    fields = json.loads(value)
    return str(fields["address"]), str(fields["uuid"])


def _versions(value: bytes) -> dict[int, int]:
    return {int(epoch): int(left) for epoch, left in json.loads(value).items()}
