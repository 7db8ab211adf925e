"""What the source of a destination's clients was seen to lack, although it had been read from it.

    .../{client}/set_back     a `SetBack` as JSON

A note stays until the source has the event again, or the client's cursor is set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_core.meta.reached import ReachedNodes
from cdc_core.position import Anchor, EntryPosition


@dataclass(frozen=True, slots=True)
class SetBack:
    """`position` is the end of the event that was read, with its anchor; `message` is the error's."""

    position: EntryPosition
    message: str

    def to_bytes(self) -> bytes:
        fields = {"message": self.message, "anchor": Anchor.to_json(self.position.anchor)}
        return json.dumps(fields | self.position.to_dict()).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> SetBack:
        """Raises PositionError, TypeError, KeyError or ValueError for another form."""
        fields: dict[str, Any] = json.loads(value)
        position = replace(EntryPosition.from_dict(fields), anchor=Anchor.from_json(fields["anchor"]))
        return cls(position, str(fields["message"]))


class SetBacks(ReachedNodes):
    """The notes of a destination's clients."""

    def of(self, clients: Iterable[int]) -> dict[int, SetBack]:
        """The notes by client; not those of clients whose cursor another program has moved. Raises CursorError."""
        found: dict[int, SetBack] = {}
        for client_id in clients:
            path = self._path(client_id, "set_back")
            note = self._parsed(path, self._nodes.read(path), SetBack.from_bytes, "what a source was seen to lack")
            if note is not None and self.is_own(client_id):
                found[client_id] = note
        return found

    def write(self, notes: Mapping[int, SetBack | None]) -> None:
        """Writes the notes; None removes one. Each by itself: positions with large sets of GTIDs are too many bytes for
        one request, and one note is enough to refuse the source."""
        for client_id, note in notes.items():
            self._nodes.write(self._changes(client_id, {"set_back": note.to_bytes() if note else None}))
