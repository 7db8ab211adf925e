"""The entries of a window but for their store values: sizes, places, and the headers.

An entry is a field of `Messages` (its length, then `Entry`): the header, the entry's type, the store value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.canal.entries.gtid_props import gtid_props
from cdc_core.canal.entries.gtid_sets import ExecutedTexts
from cdc_core.canal.entries.sequence import Sequence
from cdc_core.canal.entries.window import FACTS, Window
from cdc_core.canal.entries.wire import (
    block_size,
    digits_of,
    put_digits,
    put_head,
    put_part,
    put_varint,
    text,
    varint_size,
)
from cdc_core.compiled.kernel import (
    BYTES,
    INTS,
    LONGS,
    OUT_BYTES,
    OUT_LONGS,
    Bytes,
    helper,
    int64,
    kernel,
    named,
    records,
)

ENTRY = np.dtype(
    [
        ("event", "<i4"),  # of the window
        ("entry_type", "<i4"),  # EntryType
        ("event_type", "<i4"),  # CanalEventType; 0: the header has none
        ("name", "<i4"),  # which of the tables' names the header has; 0 is none
        ("rows", "<i4"),  # of a rows event
        ("store", "<i8"),  # bytes of the store value
        ("at", "<i8"),  # where the store value starts in the output
    ]
)
_FIRST = np.frombuffer(b"\x08\x01", np.uint8)  # version 1
_CODING = np.frombuffer(b"\x2a\x05UTF-8", np.uint8)
_SOURCE = np.frombuffer(b"\x38\x02", np.uint8)  # MYSQL
_ROWS = np.frombuffer(b"rowsCount", np.uint8)


class _Parts(NamedTuple):
    """What headers are made of: texts of journals and of tables' names; by group GTID props and the field `gtid`."""

    texts: Any
    journals: Any
    names: Any
    groups: Any
    props: Any
    prop_sizes: Any
    sets: Any
    set_ends: Any


_PROPS = types.Array(types.uint8, 2, "C", readonly=True)
_PARTS = named(_Parts, BYTES, LONGS, LONGS, INTS, _PROPS, INTS, BYTES, LONGS)
_ENTRIES, _FACTS = records(ENTRY, writable=True), records(FACTS)


def named_table(database: str, table: str) -> bytes:
    """The header's fields of a table's name."""
    return text(8, database) + text(9, table)


def written(
    window: Window,
    sequence: Sequence,
    entries: npt.NDArray[np.void],
    names: list[bytes],
    executed: ExecutedTexts,
    space: Callable[[int], Bytes],
) -> Bytes:
    """The output with all headers, in memory that `space` gives; `at` of each entry is set to where its store value
    belongs."""
    journals = [text(2, name) for name in window.journals]
    texts = np.frombuffer(b"".join([*journals, b"", *names]), np.uint8)
    ends = np.cumsum([0, *map(len, journals), *map(len, names)]).astype(np.int64)
    split = len(journals) + 1
    props, sizes = gtid_props(window.data, window.index, sequence.gtids)
    sets = executed.fields(props, sizes) if sequence.groups.max(initial=-1) >= 0 else ()
    parts = _Parts(
        texts,
        _frozen(ends[:split]),
        _frozen(ends[split - 1 :]),
        _frozen(sequence.groups),
        _frozen(props),
        _frozen(sizes),
        np.frombuffer(b"".join(sets) + b"\0", np.uint8),
        _frozen(np.cumsum([0, *map(len, sets)]).astype(np.int64)),
    )
    wholes = np.empty(len(entries), np.int64)
    _measure(window.facts, entries, parts, wholes)
    places = np.concatenate([[0], np.cumsum(wholes)])
    out = space(int(places[-1]))
    _write(window.facts, entries, parts, places, out)
    return out


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = array.copy()
    array.flags.writeable = False
    return array


@helper
def _header_size(fact: Any, entry: Any, parts: _Parts) -> int:
    """Bytes of a header."""
    journal, name = int64(fact.journal), int64(entry.name)
    size = len(_FIRST) + len(_CODING) + len(_SOURCE)
    size += parts.journals[journal + 1] - parts.journals[journal] + parts.names[name + 1] - parts.names[name]
    size += _number_size(int64(fact.offset)) + _number_size(int64(fact.server))
    size += _number_size(int64(fact.seconds) * 1000) + _number_size(int64(fact.size))
    if entry.event_type:
        size += 2
    group = parts.groups[entry.event]
    if group >= 0:
        size += parts.prop_sizes[group] + parts.set_ends[group + 1] - parts.set_ends[group]
    if entry.rows:
        size += 2 + _rows_size(int64(entry.rows))
    return int64(size)


@helper
def _number_size(value: int) -> int:
    return 1 + varint_size(value) if value else 0


@helper
def _rows_size(rows: int) -> int:
    """Bytes of the Pair that says how many rows."""
    return 4 + len(_ROWS) + digits_of(rows)


@helper
def _put_number(tag: int, value: int, out: Bytes, at: int) -> int:
    if not value:
        return at
    out[at] = tag
    return put_varint(value, out, at + 1)


@helper
def _put_all(part: Bytes, out: Bytes, at: int) -> int:
    for k in range(len(part)):
        out[at + k] = part[k]
    return at + len(part)


@helper
def _put_header(fact: Any, entry: Any, parts: _Parts, out: Bytes, at: int) -> int:
    """Writes a header; returns the end."""
    journal, name = int64(fact.journal), int64(entry.name)
    at = _put_all(_FIRST, out, at)
    at = put_part(parts.texts, parts.journals[journal], parts.journals[journal + 1], out, at)
    at = _put_number(0x18, int64(fact.offset), out, at)
    at = _put_number(0x20, int64(fact.server), out, at)
    at = _put_all(_CODING, out, at)
    at = _put_number(0x30, int64(fact.seconds) * 1000, out, at)
    at = _put_all(_SOURCE, out, at)
    at = put_part(parts.texts, parts.names[name], parts.names[name + 1], out, at)
    at = _put_number(0x50, int64(fact.size), out, at)
    at = _put_number(0x58, int64(entry.event_type), out, at)
    group = parts.groups[entry.event]
    if group >= 0:
        for k in range(parts.prop_sizes[group]):
            out[at + k] = parts.props[group, k]
        at += parts.prop_sizes[group]
    if entry.rows:
        at = put_head(0x62, _rows_size(int64(entry.rows)), out, at)
        at = _put_all(_ROWS, out, put_head(0x0A, len(_ROWS), out, at))
        at = put_head(0x12, digits_of(int64(entry.rows)), out, at)
        at = put_digits(int64(entry.rows), out, at)
    if group >= 0:
        at = put_part(parts.sets, parts.set_ends[group], parts.set_ends[group + 1], out, at)
    return at


@helper
def _entry_size(fact: Any, entry: Any, parts: _Parts) -> int:
    """Bytes of an Entry. A store value without bytes is left out."""
    store = int64(entry.store)
    return block_size(_header_size(fact, entry, parts)) + 2 + (block_size(store) if store else 0)


@kernel(types.void(_FACTS, records(ENTRY), _PARTS, OUT_LONGS))
def _measure(facts: Any, entries: Any, parts: _Parts, wholes: Any) -> None:
    for i in range(entries.size):
        wholes[i] = block_size(_entry_size(facts[entries[i].event], entries[i], parts))


@kernel(types.void(_FACTS, _ENTRIES, _PARTS, OUT_LONGS, OUT_BYTES))
def _write(facts: Any, entries: Any, parts: _Parts, places: Any, out: Any) -> None:
    for i in range(entries.size):
        entry = entries[i]
        fact = facts[entry.event]
        at = put_head(0x12, _entry_size(fact, entry, parts), out, places[i])
        at = put_head(0x0A, _header_size(fact, entry, parts), out, at)
        at = _put_header(fact, entry, parts, out, at)
        out[at], out[at + 1] = 0x10, entry.entry_type
        if entry.store:
            at = put_head(0x1A, int64(entry.store), out, at + 2)
        entry.at = at
