"""`ChangedRow`: one change of one row, with the row before and after it, for people and for JSON.

Images are record batches in the form of a change log: the table's columns and `OP`, the two images of an update one
after the other. `VERSION` and `TIME` are there where the source of the images knows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from spark_jobs.changes.columns import DELETE, INSERT, NAMES, OP, TIME, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE, VERSION
from spark_jobs.lake.types import RESERVED

_KINDS = {INSERT: "insert", DELETE: "delete", UPDATE_AFTER: "update", UPDATE_BEFORE: "update", TRUNCATE: "truncate"}
VALUE = 60  # characters of a value for people
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_OURS = NAMES | set(RESERVED)
_AT_ONCE = 1000  # images that become objects, whatever a batch has


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """`kind`: insert, update, delete or truncate. `before` and `after`: the row, None where there was none. `version`
    (`EntryPosition.version()`) and `time` are those of the event, None if they are not known."""

    kind: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    version: int | None = None
    time: datetime | None = None

    @property
    def differing(self) -> tuple[str, ...]:
        """The columns that an update changed; all that have a value of an inserted or a deleted row."""
        if self.before is None or self.after is None:
            there = self.after or self.before or {}
            return tuple(name for name, value in there.items() if value is not None)
        before, names = self.before, dict.fromkeys([*self.before, *self.after])
        return tuple(name for name in names if before.get(name) != self.after.get(name))

    def key_text(self, key: Sequence[str], most: int = VALUE) -> str:
        """Returns the key's columns with their values, of which `most` characters each."""
        there = self.after or self.before or {}
        return ", ".join(f"{name}={value_text(there[name], most)}" for name in key if name in there)

    def columns_text(self, key: Sequence[str], most: int = VALUE) -> str:
        """Returns the other columns: of an update those that changed, with the values before and after."""
        names, before, after = self.differing, self.before, self.after
        if before is not None and after is not None:
            sides = ((name, value_text(before.get(name), most), value_text(after.get(name), most)) for name in names)
            return ", ".join(f"{name}: {old} -> {new}" for name, old, new in sides)
        there = after or before or {}
        return ", ".join(f"{name}={value_text(there[name], most)}" for name in names if name not in key)


def value_text(value: Any, most: int = VALUE) -> str:
    """Returns a value for people in at most so many characters, without control characters: a terminal would obey
    them."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        value = value[:most].hex()
    elif isinstance(value, (dict, list)):
        value = json.dumps(value, default=str, ensure_ascii=False)
    return shortened(_CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", str(value)), most)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def changed_rows(images: Iterable[pa.RecordBatch]) -> Iterator[ChangedRow]:
    """Yields the changes that images mean. An image of an update without its other half is an update of which only
    that half is known."""
    waiting: ChangedRow | None = None
    for image in _halves(images):
        if waiting is not None and image.kind == waiting.kind and image.before is None:
            yield replace(image, before=waiting.before)
            waiting = None
            continue
        if waiting is not None:
            yield waiting
        waiting = image if image.kind == "update" and image.after is None else None
        if waiting is None:
            yield image
    if waiting is not None:
        yield waiting


def _halves(images: Iterable[pa.RecordBatch]) -> Iterator[ChangedRow]:
    """Yields a change for each image: of an update, with that half alone."""
    for batch in images:
        shown = [name for name in batch.schema.names if name not in _OURS]
        there = [name for name in (VERSION, TIME) if name in batch.schema.names]
        for at in range(0, batch.num_rows, _AT_ONCE):
            for image in _objects(batch.slice(at, _AT_ONCE).select([*shown, OP, *there])):
                op, row = image[OP], {name: image[name] for name in shown}
                before = row if op in (DELETE, UPDATE_BEFORE) else None
                after = row if op in (INSERT, UPDATE_AFTER) else None
                yield ChangedRow(_KINDS[op], before, after, image.get(VERSION), image.get(TIME))


def _objects(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Returns the rows as objects. Dates and times of years that Python does not have, such as year 0, are texts."""
    columns = [_values(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        found = [_value(one) for one in column]
    return found


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return str(scalar.cast(pa.string()))
