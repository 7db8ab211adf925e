"""The filter by which everything before a client's cursor was read, and the filters before it.

    .../{client}/captured     a `FilterNote` as JSON, compressed where it is large

A table that the present filter captures and the noted one does not has changes before the cursor that the client never
got.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.meta.client_nodes import ClientNodes
from cdc_core.meta.nodes import Change

_MOST_FILTERS, _MOST_CHARACTERS = 20, 1 << 16  # of the filters before the present one
_PLAIN = 1024  # bytes of JSON that are kept as they are


@dataclass(frozen=True, slots=True)
class FilterText:
    """The expressions of the tables to capture, and of those to leave out."""

    regex: str
    black: str


@dataclass(frozen=True, slots=True)
class FilterNote:
    """`now` is the filter up to the cursor, `before` are the earlier ones; with `any_before` others are not known, and
    any table may have been captured once."""

    now: FilterText
    before: tuple[FilterText, ...] = ()
    any_before: bool = False

    def after(self, now: FilterText) -> FilterNote:
        """The same when another filter begins. Too many earlier ones are not kept."""
        before = tuple(dict.fromkeys((*self.before, self.now)))
        size = sum(len(one.regex) + len(one.black) for one in before)
        if len(before) > _MOST_FILTERS or size > _MOST_CHARACTERS:
            return FilterNote(now, (), any_before=True)
        return FilterNote(now, before, self.any_before)

    def to_bytes(self) -> bytes:
        before = [[one.regex, one.black] for one in self.before]
        fields = {"now": [self.now.regex, self.now.black], "before": before, "any_before": self.any_before}
        text = json.dumps(fields).encode()
        return text if len(text) <= _PLAIN else zlib.compress(text)

    @classmethod
    def from_bytes(cls, value: bytes) -> FilterNote:
        """Raises TypeError, KeyError or ValueError for another form."""
        try:
            fields: Mapping[str, Any] = json.loads(value if value.startswith(b"{") else zlib.decompress(value))
        except zlib.error as error:
            raise ValueError(str(error)) from error
        before = tuple(FilterText(*map(str, one)) for one in fields["before"])
        return cls(FilterText(*map(str, fields["now"])), before, bool(fields["any_before"]))


@dataclass(frozen=True, slots=True)
class FilterChange:
    """What a client's start with another filter writes: the note, `stops` of tables whose changes it never got, and
    `unread`: the tables whose open snapshots lack changes."""

    note: FilterNote
    stops: tuple[StoppedTable, ...] = ()
    unread: frozenset[str] = frozenset()


class FilterNotes(ClientNodes):
    """The notes of a destination's clients."""

    def of(self, client_id: int) -> FilterNote | None:
        """None for a client that has begun with none, or under an older version. Raises CursorError."""
        path = self._path(client_id, "captured")
        return self._parsed(path, self._nodes.read(path), FilterNote.from_bytes, "a note of filters")

    def older(self, client_id: int, now: FilterText, *, own: bool) -> FilterNote | None:
        """What an older version says: it kept the expressions of the tables to capture. None for a client that has not
        begun. `own`: a filter that the client brought along is the destination's."""
        if self._nodes.read(self._path(client_id, "cursor")) is None:
            return None
        foreign = not own and self._nodes.read(self._path(client_id, "own_filter")) is not None
        node = None if foreign else self._nodes.read(self._path(client_id, "filter"))
        regex = node.value.decode() if node else now.regex
        return FilterNote(FilterText(regex, now.black), any_before=True)

    def changes(self, client_id: int, note: FilterNote) -> dict[str, Change]:
        """What writes the note, for a write of several nodes."""
        return self._changes(client_id, {"captured": note.to_bytes()})
