"""States of a client's tables, such as stops, in a fixed number of nodes: a write of all tables fits one transaction.

    .../{client}/{kind}/{n}      the states of the tables whose names hash to n, as JSON; or the names of their parts
    .../{client}/parts/{name}    a part: compressed bytes, written once

States of more than 1 KB lie in parts. They are written before the node that names them, and removed in the write that
changes that node: a crash in between leaves parts that no node names, which the next first write removes.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from cdc_core.errors import CursorError
from cdc_core.gtid import Gtids
from cdc_core.meta.client_nodes import ClientNodes
from cdc_core.meta.nodes import Change, Node, Nodes
from cdc_core.position import EntryPosition

States = dict[str, dict[str, Any]]  # the fields of each table's state

_NODES = 32  # a change of one table rewrites the states of every 32nd
_INLINE = 1024  # bytes of JSON in a node
_PART = 512 << 10  # bytes in a part, and in one write of several parts
_AT_ONCE = 500  # nodes of an older version that one write takes over
_TRIES = 3


class TableStates(ClientNodes):
    """Base of those that keep a state of each table. `kind` names the nodes, `older` those of an older version, which
    had one for each table. `check` raises for fields that are no state. The writes of one client are not concurrent."""

    def __init__(
        self, nodes: Nodes, destination: str, kind: str, older: str, check: Callable[[dict[str, Any]], object]
    ) -> None:
        super().__init__(nodes, destination)
        self._kind, self._older, self._check = kind, older, check
        self._settled: set[int] = set()

    def _settle(self, client_id: int) -> None:
        """Takes over the nodes of an older version and removes parts that no node names, before the first write."""
        names = self._nodes.children(self._path(client_id, self._older))
        for first in range(0, len(names), _AT_ONCE):
            self._take_over(client_id, names[first : first + _AT_ONCE])
        parts = self._path(client_id, "parts")
        own = [name for name in self._nodes.children(parts) if name.startswith(self._prefix(client_id))]
        if own:
            used = {name for node in self._read_nodes(client_id) for name in node[1]}
            lost = [name for name in own if name not in used]
            for first in range(0, len(lost), _AT_ONCE):
                self._nodes.write({f"{parts}/{name}": Change(None, 0) for name in lost[first : first + _AT_ONCE]})
        self._settled.add(client_id)

    def _states(self, client_id: int) -> States:
        """By table, in the order of their names."""
        found: States = {}
        for name in self._nodes.children(self._path(client_id, self._older)):
            path = self._path(client_id, f"{self._older}/{name}")
            found[unquote(name)] = self._parsed(path, self._nodes.read(path), self._older_fields, "a state") or {}
        for states, _ in self._read_nodes(client_id):
            found |= states
        return dict(sorted((table, fields) for table, fields in found.items() if fields))

    def _state_changes(self, client_id: int, values: Mapping[str, dict[str, Any] | None]) -> dict[str, Change]:
        """Writes the parts of these states, and returns what names them, for a write of several nodes. None removes
        the state of a table."""
        if values and client_id not in self._settled:
            self._settle(client_id)
        return self._changed_nodes(client_id, values)

    def _changed_nodes(self, client_id: int, values: Mapping[str, dict[str, Any] | None]) -> dict[str, Change]:
        by_node: dict[str, dict[str, dict[str, Any] | None]] = {}
        for table, fields in values.items():
            by_node.setdefault(str(zlib.crc32(table.encode()) % _NODES), {})[table] = fields
        changes: dict[str, Change] = {}
        parts: dict[str, bytes] = {}
        for name, wanted in by_node.items():
            path = self._path(client_id, f"{self._kind}/{name}")
            node, states, old = self._read_node(client_id, path)
            after = {table: one for table, one in (states | wanted).items() if one is not None}
            if after == states:
                continue
            value, new = self._encoded(client_id, name, after)
            parts |= new
            changes[path] = Change(value, node.version if node else None)
            changes |= {self._path(client_id, f"parts/{one}"): Change(None, 0) for one in old}
        self._write_parts(client_id, parts)
        return changes

    def _encoded(self, client_id: int, name: str, states: States) -> tuple[bytes | None, dict[str, bytes]]:
        """A node's value, None for no node; and the parts that it names."""
        if not states:
            return None, {}
        text = json.dumps(states, separators=(",", ":")).encode()
        if len(text) <= _INLINE:
            return json.dumps({"tables": states}).encode(), {}
        packed = zlib.compress(text)
        head = f"{self._prefix(client_id)}{name}-{uuid.uuid4().hex}"
        parts = {f"{head}-{at // _PART}": packed[at : at + _PART] for at in range(0, len(packed), _PART)}
        return json.dumps({"parts": list(parts)}).encode(), parts

    def _write_parts(self, client_id: int, parts: Mapping[str, bytes]) -> None:
        batch: dict[str, Change] = {}
        size = 0
        for name, value in parts.items():
            if batch and size + len(value) > _PART:
                self._nodes.write(batch)
                batch, size = {}, 0
            batch[self._path(client_id, f"parts/{name}")] = Change(value, None)
            size += len(value)
        if batch:
            self._nodes.write(batch)

    def _read_nodes(self, client_id: int) -> Iterator[tuple[States, list[str]]]:
        for name in self._nodes.children(self._path(client_id, self._kind)):
            _, states, parts = self._read_node(client_id, self._path(client_id, f"{self._kind}/{name}"))
            yield states, parts

    def _read_node(self, client_id: int, path: str) -> tuple[Node | None, States, list[str]]:
        """The node, its states and the names of its parts. A part that goes away meanwhile was replaced."""
        for _ in range(_TRIES):
            node = self._nodes.read(path)
            fields = self._parsed(path, node, self._node_fields, "states of tables") or {}
            names = [str(one) for one in fields.get("parts", ())]
            found = [self._nodes.read(self._path(client_id, f"parts/{name}")) for name in names]
            values = [one.value for one in found if one is not None]
            if not names:
                return node, fields.get("tables", {}), names
            if len(values) == len(names):
                first = self._path(client_id, f"parts/{names[0]}")
                states = self._parsed(first, Node(b"".join(values), 0), self._unpacked, "states of tables")
                return node, states or {}, names
        raise CursorError(
            f"a part of the table states is missing: {names[0]}",
            place=self._nodes.place(path),
            hint="Restore the node from a backup. Or remove it, then copy the tables that were stopped: sluice status "
            "no longer lists them.",
        )

    def _node_fields(self, value: bytes) -> dict[str, Any]:
        fields = dict(json.loads(value))
        self._checked(fields.get("tables", {}))
        return fields

    def _unpacked(self, value: bytes) -> States:
        try:
            return self._checked(json.loads(zlib.decompress(value)))
        except zlib.error as error:
            raise ValueError(str(error)) from error

    def _checked(self, states: States) -> States:
        for fields in states.values():
            self._check(fields)
        return states

    def _older_fields(self, value: bytes) -> dict[str, Any]:
        fields = dict(json.loads(value))
        self._check(fields)
        return fields

    def _take_over(self, client_id: int, names: Iterable[str]) -> None:
        states: dict[str, dict[str, Any] | None] = {}
        changes: dict[str, Change] = {}
        for name in names:
            path = self._path(client_id, f"{self._older}/{name}")
            node = self._nodes.read(path)
            if node is not None:
                states[unquote(name)] = self._parsed(path, node, self._older_fields, "a state")
                changes[path] = Change(None, node.version)
        self._nodes.write(self._changed_nodes(client_id, states) | changes)

    def _prefix(self, client_id: int) -> str:
        return f"{client_id}-{self._kind}-"


def placed(position: EntryPosition | None) -> dict[str, Any] | None:
    """A position as a state keeps it: without the set of all transactions before it, which may be large."""
    if position is None:
        return None
    return (replace(position, gtid=None) if isinstance(position.gtid, Gtids) else position).to_dict()
