"""The TABLE_MAP bodies seen so far, each with what its rows need: a hash table that kernels search.

A TABLE_MAP comes with every statement, and nearly always says what an earlier one said: comparing its bytes saves
parsing it again. After a DDL statement the same bytes may mean other columns, so what it may name is forgotten.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.compiled.kernel import (
    BYTES,
    OUT_BYTES,
    OUT_INTS,
    OUT_LONGS,
    Bytes,
    Ints,
    Longs,
    int64,
    kernel,
    named,
    records,
)
from cdc_core.compiled.memory import little

FILTERED = -1  # in place of a schema id: rows of this table are not captured

_FIELDS = ("hash", "start", "length", "schema", "layout", "columns")
DEFINITION = np.dtype([(name, "<u8" if name == "hash" else "<i8") for name in _FIELDS])


class Known(NamedTuple):
    """`definitions` in the order in which they came; `slots` hold their numbers by hash, -1 where empty.

    A definition's body is `bodies[start:start + length]`, its row layout `layouts[layout:layout + columns]`.
    """

    slots: Longs
    definitions: npt.NDArray[np.void]
    bodies: Bytes
    layouts: Ints


KNOWN = named(Known, OUT_LONGS, records(DEFINITION, writable=True), OUT_BYTES, OUT_INTS)
_PLAIN = re.compile(r"[0-9A-Za-z_]*")
_FORGOTTEN = 1000  # bodies that are kept although nothing finds them
_SEED, _FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)


@kernel(types.uint64(BYTES, types.int64, types.int64))
def body_hash(data: Any, at: int, size: int) -> Any:
    value = _SEED ^ np.uint64(size)
    for i in range(0, size, 8):
        value = (value ^ np.uint64(little(data, at + i, min(8, size - i)))) * _FACTOR
        value ^= value >> np.uint64(29)
    return value


@kernel(types.int64(BYTES, types.int64, types.int64, KNOWN))
def find(data: Any, at: int, size: int, known: Known) -> int:
    """The number of the definition with the body `data[at:at + size]`, -1 when there is none."""
    wanted = body_hash(data, at, size)
    mask = np.uint64(known.slots.size - 1)
    slot = wanted & mask
    while known.slots[slot] >= 0:
        number = known.slots[slot]
        entry = known.definitions[number]
        if entry.hash == wanted and entry.length == size:
            same = True
            for i in range(size):
                if data[at + i] != known.bodies[entry.start + i]:
                    same = False
                    break
            if same:
                return int64(number)
        slot = (slot + np.uint64(1)) & mask
    return -1


class Definitions:
    """Grows by `add`, loses by `forget` and `clear`; `known` is what kernels take."""

    def __init__(self) -> None:
        self.clear()

    def __len__(self) -> int:
        return len(self._tables)

    def clear(self) -> None:
        self._tables: dict[int, tuple[str, str]] = {}  # database and table of those that can be found
        self.known = Known(
            np.full(64, -1, np.int64), np.zeros(0, DEFINITION), np.zeros(0, np.uint8), np.zeros(0, np.int32)
        )

    def forget(self, text: str) -> None:
        """Forgets every table that a DDL statement may name: those whose name occurs in its text. In doubt all."""
        plain = text.lower()
        whole = "database" in plain or "schema" in plain
        in_doubt = not plain.isascii()  # the server folds other letters by its own rules
        for number, (database, table) in list(self._tables.items()):
            if in_doubt or table in plain or (whole and database in plain):
                self.known.definitions["length"][number] = -1  # `find` passes over it
                del self._tables[number]
        if len(self.known.definitions) > len(self._tables) + _FORGOTTEN:
            self.clear()

    def add(self, body: Bytes, schema: int, layout: Ints, table: tuple[str, str]) -> None:
        """Adds a body that `find` does not find. `schema` is an id of the registry, or FILTERED."""
        self._tables[len(self.known.definitions)] = _in_text(table[0]), _in_text(table[1])
        slots, definitions, bodies, layouts = self.known
        entry = np.zeros(1, DEFINITION)
        entry["hash"], entry["start"], entry["length"] = body_hash(body, 0, len(body)), len(bodies), len(body)
        entry["schema"], entry["layout"], entry["columns"] = schema, len(layouts), len(layout)
        definitions = np.concatenate([definitions, entry])
        if 2 * len(definitions) > len(slots):
            slots = np.full(2 * len(slots), -1, np.int64)
            for number in range(len(definitions) - 1):
                _insert(slots, definitions, number)
        _insert(slots, definitions, len(definitions) - 1)
        self.known = Known(slots, definitions, np.concatenate([bodies, body]), np.concatenate([layouts, layout]))


def _in_text(name: str) -> str:
    """What every statement that names it contains; of a name that may be quoted in several ways, nothing."""
    return name.lower() if _PLAIN.fullmatch(name) else ""


def _insert(slots: Longs, definitions: npt.NDArray[np.void], number: int) -> None:
    mask = len(slots) - 1
    slot = int(definitions["hash"][number]) & mask
    while slots[slot] >= 0:
        slot = slot + 1 & mask
    slots[slot] = number
