"""The schema history of one destination, durable with its cursors. A destination's clients share it.

    /otter/canal/destinations/{destination}/tsdb/current          the generation in use, and the source that it is of
                                                /{g}-snapshot-{n}  the history when the generation began, in parts
                                                /{g}-change-{n}    what a statement or a catalogue added since, in order
                                                /{g}-more-{i}-...  what is too long for one of these nodes

A value is JSON, compressed and in base64. A long one is cut: its node begins with the number of pieces, and is written
after the others. A new generation is complete before `current` names it; the nodes of others are removed after that.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from cdc_core.errors import CursorError
from cdc_core.meta.nodes import Change, Nodes
from cdc_core.schema.history import Name, SchemaHistory, Version

_PART = 2 << 20  # characters of JSON in a part; compressed they mostly fit a ZooKeeper node
_PIECE = 700_000  # bytes in a node
_PIECES = 32
_HINT = "Remove the nodes below tsdb: the history restarts with the present definitions."


class SchemaLog:
    """The one writer of a destination's history. Every call raises CursorError where the nodes cannot be used."""

    def __init__(self, nodes: Nodes, destination: str) -> None:
        self._nodes = nodes
        self._root = f"/otter/canal/destinations/{destination}/tsdb"
        self._source = ""
        self._generation = self.changes = 0

    def __repr__(self) -> str:
        return f"<SchemaLog generation={self._generation} changes={self.changes}>"

    def load(self, source: str) -> SchemaHistory | None:
        """The history of a source, None when there is none of it. `source` is the server's uuid."""
        node = self._nodes.read(f"{self._root}/current")
        if node is None:
            return None
        fields = self._parsed("current", node.value)
        self._generation, self._source = int(fields["generation"]), str(fields["source"])
        if self._source != source:
            return None
        history = SchemaHistory().with_versions(
            Version.from_list(one) for n in range(int(fields["parts"])) for one in self._value(f"snapshot-{n}")
        )
        for name in self._own("change-"):
            history = history.with_versions(Version.from_list(one) for one in self._value(name))
            self.changes = int(name.removeprefix("change-")) + 1
        return history

    def append(self, added: Iterable[tuple[Name, Version]]) -> None:
        """What is added is durable when the call returns."""
        for part in _parts(added):
            self._put(self._generation, f"change-{self.changes:08d}", part)
            self.changes += 1

    def replace(self, history: SchemaHistory, source: str) -> None:
        """Begins a new generation with the whole history."""
        generation, parts = self._generation + 1, 0
        for parts, part in enumerate(_parts(history.versions()), 1):
            self._put(generation, f"snapshot-{parts - 1}", part)
        fields = {"generation": generation, "source": source, "parts": parts}
        self._write("current", json.dumps(fields).encode())
        self._generation, self._source, self.changes = generation, source, 0
        for name in self._nodes.children(self._root):
            if name != "current" and not name.startswith(f"{self._generation}-"):
                self._remove(name)

    def _own(self, prefix: str) -> list[str]:
        head = f"{self._generation}-"
        names = (name.removeprefix(head) for name in self._nodes.children(self._root) if name.startswith(head))
        return sorted(name for name in names if name.startswith(prefix))

    def _value(self, name: str) -> list[Any]:
        try:
            count, _, value = self._bytes(name).rpartition(b" ")
            value += b"".join(self._bytes(f"more-{piece}-{name}") for piece in range(1, int(count or 1)))
            return list(json.loads(zlib.decompress(base64.b64decode(value))))
        except (ValueError, zlib.error) as error:
            raise self._damaged(f"{self._generation}-{name}") from error

    def _bytes(self, name: str) -> bytes:
        node = self._nodes.read(f"{self._root}/{self._generation}-{name}")
        return node.value if node else b""

    def _parsed(self, name: str, value: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(value)
            return {key: fields[key] for key in ("generation", "source", "parts")}
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(name) from error

    def _damaged(self, name: str) -> CursorError:
        place = self._nodes.place(f"{self._root}/{name}")
        return CursorError("not a part of a schema history", place=place, hint=_HINT)

    def _put(self, generation: int, name: str, part: str) -> None:
        value = base64.b64encode(zlib.compress(part.encode()))
        pieces = [value[at : at + _PIECE] for at in range(0, len(value), _PIECE)]
        if len(pieces) > _PIECES:
            raise self._too_large(part, len(value))
        for number, piece in enumerate(pieces[1:], 1):
            self._write(f"{generation}-more-{number}-{name}", piece)
        self._write(f"{generation}-{name}", value if len(pieces) == 1 else b"%d %s" % (len(pieces), pieces[0]))

    def _too_large(self, part: str, size: int) -> CursorError:
        """A part of so many bytes has one definition: others begin their own part."""
        table = ".".join(json.loads(part)[0][:2])
        return CursorError(
            f"the definition of {table} has {size:,} bytes, compressed: the schema history takes {_PIECE * _PIECES:,}",
            place=self._nodes.place(self._root),
            hint="Give the table fewer or shorter labels and comments and set the destination's cursor after that "
            "(sluice reset); or set canal.instance.tsdb.enable = false.",
        )

    def _write(self, name: str, value: bytes) -> None:
        path = f"{self._root}/{name}"
        node = self._nodes.read(path)
        self._nodes.write({path: Change(value, node.version if node else None)})

    def _remove(self, name: str) -> None:
        path = f"{self._root}/{name}"
        node = self._nodes.read(path)
        if node is not None:
            self._nodes.write({path: Change(None, node.version)})


def _parts(versions: Iterable[tuple[Name, Version]]) -> Iterator[str]:
    """JSON lists of versions, each of some megabytes at most, or of one version."""
    part: list[str] = []
    size = 0
    for name, version in versions:
        text = json.dumps(version.to_list(name), separators=(",", ":"))
        if part and size + len(text) > _PART:
            yield f"[{','.join(part)}]"
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield f"[{','.join(part)}]"
