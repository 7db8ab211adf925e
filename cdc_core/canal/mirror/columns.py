"""Images of rows as the target's values: which column has which value of an image, and in which form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

from cdc_core.canal.client.events import Image, Rows, Shape
from cdc_core.canal.entries.java_types import JavaType
from cdc_core.canal.mirror.rules import MirrorRule

Values = tuple[Any, ...]  # of a row, by the target's columns
TEXT, NUMBER, RAW = range(3)  # forms of a value
_LABELLED = ("enum", "set(")
_BINARY = re.compile(r"binary\((\d+)\)", re.IGNORECASE)
_LABEL = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True)
class Columns:
    """By column of the target: its name, its place in an image of `width` columns, the form of its values, the bytes
    that they have at least (of BINARY), and MySQL's type."""

    names: tuple[str, ...]
    places: tuple[int, ...]
    forms: tuple[int, ...]
    sizes: tuple[int, ...]
    kinds: tuple[str, ...]
    width: int

    @staticmethod
    def of(names: tuple[str, ...], shape: Shape, rule: MirrorRule) -> Columns:
        chosen = rule.columns({name: place for place, name in enumerate(names)})
        places = tuple(chosen.values())
        kinds = tuple(shape.mysql_types[names[place]] for place in places)
        forms = tuple(_form(shape.types[names[place]], kind) for place, kind in zip(places, kinds, strict=True))
        sizes = tuple(_size(kind) if form == RAW else 0 for form, kind in zip(forms, kinds, strict=True))
        return Columns(tuple(chosen), places, forms, sizes, kinds, len(names))

    def place(self, name: str) -> int:
        """The place of a column's value in an image."""
        return self.places[self.names.index(name)]

    @cached_property
    def _in_place(self) -> bool:
        return self.places == tuple(range(self.width))

    @cached_property
    def _typed(self) -> tuple[tuple[int, int, int, str], ...]:
        """Of the columns whose values are not texts."""
        of = zip(self.forms, self.sizes, self.kinds, strict=True)
        return tuple((at, *one) for at, one in enumerate(of) if one[0] != TEXT)

    def values(self, image: Image, *, labels: bool) -> Values:
        """The values of an image, which is not used any more. `labels`: those of ENUM and SET are texts."""
        values: list[Any] = image if self._in_place else [image[place] for place in self.places]
        for at, form, size, kind in self._typed:
            values[at] = _value(values[at], form, size, kind, labels)
        return tuple(values)

    def only(self, kept: Sequence[int]) -> Columns:
        """Some of the columns, by their numbers."""
        return Columns(
            tuple(self.names[at] for at in kept),
            tuple(self.places[at] for at in kept),
            tuple(self.forms[at] for at in kept),
            tuple(self.sizes[at] for at in kept),
            tuple(self.kinds[at] for at in kept),
            self.width,
        )


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Rows of an entry, from `low` to `high`."""

    rows: Rows
    low: int
    high: int


class EntryImages(Sequence[Values]):
    """The images after a change of rows of entries. Their values are read when they are asked for: a target may write
    them from the entries' bytes instead."""

    def __init__(self, columns: Columns, *, labels: bool) -> None:
        self.columns, self.labels = columns, labels
        self.parts: list[EntryRange] = []
        self._count = 0
        self._values: list[Values] | None = None

    def __repr__(self) -> str:
        return f"<EntryImages {self._count} rows>"

    def add(self, rows: Rows, low: int, high: int) -> None:
        last = self.parts[-1] if self.parts else None
        if last is not None and last.rows is rows and last.high == low:
            self.parts[-1] = EntryRange(rows, last.low, high)
        else:
            self.parts.append(EntryRange(rows, low, high))
        self._count, self._values = self._count + high - low, None

    def only(self, kept: Sequence[int]) -> EntryImages:
        """The same rows with some of the columns."""
        chosen = EntryImages(self.columns.only(kept), labels=self.labels)
        chosen.parts, chosen._count = self.parts, self._count
        return chosen

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Values]:
        if self._values is None:
            images = (part.rows.after(number) for part in self.parts for number in range(part.low, part.high))
            self._values = [self.columns.values(image, labels=self.labels) for image in images]
        return iter(self._values)

    @overload
    def __getitem__(self, number: int) -> Values: ...
    @overload
    def __getitem__(self, number: slice) -> list[Values]: ...
    def __getitem__(self, number: int | slice) -> Values | list[Values]:
        iter(self)
        assert self._values is not None
        return self._values[number]


def _form(java_type: int, kind: str) -> int:
    """In which form the target takes a value: bytes of BLOB and BINARY, numbers of BIT, ENUM and SET, others as
    Canal's text. Canal gives a NULL in a SET the type BLOB; MySQL's type name identifies it."""
    if java_type == JavaType.BIT or kind[:4].lower() in _LABELLED:
        return NUMBER
    return RAW if java_type == JavaType.BLOB else TEXT


def _size(kind: str) -> int:
    """The bytes of a BINARY, which the binlog has without the zeros at its end; 0 of other types."""
    size = _BINARY.match(kind)
    return int(size[1]) if size else 0


def _value(text: str | None, form: int, size: int, kind: str, labels: bool) -> Any:
    if text is None:
        return None
    if form == RAW:
        return text.encode("latin-1").ljust(size, b"\0")
    return labels_of(int(text), kind) if labels and kind[:4].lower() in _LABELLED else int(text)


def labels_of(number: int, kind: str) -> str:
    """The text of an ENUM's or SET's number. `kind`: MySQL's type, `enum('a','b')`. Number 0 of an ENUM is empty."""
    labels = [one.replace("''", "'") for one in _LABEL.findall(kind)]
    if kind[:3].lower() == "set":
        return ",".join(label for bit, label in enumerate(labels) if number >> bit & 1)
    return labels[number - 1] if 0 < number <= len(labels) else ""
