"""Random changes of tables with every type: each change is possible, as the one before it left the table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import prod
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from spark_jobs.lake.tables import Lake
from tests.support.spark_feed import Change, Row, Table

DRAWN: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "tiny": (pa.int8(), (-128, 0, 127)),
    "big": (pa.int64(), (-(2**63), 0, 2**63 - 1)),
    "unsigned": (pa.decimal128(20, 0), tuple(map(Decimal, (0, 2**53 + 1, 1234567890123456789, 2**60 + 3, 2**64 - 1)))),
    "exact": (pa.decimal128(38, 10), (Decimal("-0.0000000001"), Decimal("9999999999999999999999999999.9999999999"))),
    "bit": (pa.bool_(), (True, False)),
    "day": (pa.date32(), (date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31))),
    "local": (
        pa.timestamp("us"),
        (datetime(1000, 1, 1), datetime(7621, 7, 25, 21, 44, 38, 194333), datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ),
    "instant": (pa.timestamp("us", "UTC"), (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),)),
    "text": (pa.string(), ("", " ", "a", "A", "ä", "'\"`\\", "🐬" * 50, *map(str, range(200)))),
    "bytes": (pa.binary(), (b"", b"\x00", b"\xff\x00")),
    'odd.Name"with`dots': (pa.int32(), (1, 2)),
}
FLOATS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "single": (pa.float32(), (0.0, -0.0, 1.5)),
    "double": (pa.float64(), (0.0, -0.0, 1e300, -1e-300)),
}


def rows(lake: Lake, table: str) -> Counter[Any]:
    found = QueryBuilder().register("t", DeltaTable(lake.path("shop", table))).execute("SELECT * FROM t").read_all()
    return Counter(repr(row) for row in zip(*(column.to_pylist() for column in pa.table(found).columns), strict=True))


class Script:
    """Random changes of one table, each of which is possible."""

    def __init__(self, rng: random.Random, table: Table, values: Sequence[Sequence[Any]]) -> None:
        self._rng, self.table, self._values = rng, table, values
        self._key = [table.fields.get_field_index(name) for name in table.key]
        self._keys = prod(len({*values[at]}) for at in self._key)
        self.there: list[Row] = []

    def changes(self, start: int, count: int) -> list[Change]:
        return [self._change(start + n + 1) for n in range(count)]

    def _change(self, position: int) -> Change:
        is_full = bool(self._key) and 2 * len(self.there) >= self._keys
        if not self.there or (self._rng.random() < 0.5 and not is_full):
            return Change(position, None, self._put(self._row()))
        before = self.there.pop(self._rng.randrange(len(self.there)))
        return Change(position, before, None if self._rng.random() < 0.4 else self._put(self._row()))

    def _row(self) -> Row:
        while True:
            row = tuple(
                self._rng.choice(values) if at in self._key or self._rng.random() < 0.8 else None
                for at, values in enumerate(self._values)
            )
            key = [row[at] for at in self._key]
            if not key or all([one[at] for at in self._key] != key for one in self.there):
                return row

    def _put(self, row: Row) -> Row:
        self.there.append(row)
        return row


def scripts(rng: random.Random) -> list[Script]:
    """A table for each type in its key, two with columns of ours, and three without a key."""
    every = DRAWN | FLOATS
    made = []
    wide = {name: kind for name, (kind, _) in every.items()}
    values = [values for _, values in every.values()]
    for at, name in enumerate(("unsigned", "exact", "local", "text", "bytes")):
        key = (name,) if name == "text" else (name, "text")
        made.append(Script(rng, Table(f"by_{at}", pa.schema(wide), key=key), values))
    for name in ("soft", "marked"):
        made.append(Script(rng, Table(name, pa.schema(wide), key=("unsigned", "day")), values))
    made.append(Script(rng, Table("bag", pa.schema({name: kind for name, (kind, _) in DRAWN.items()})), values[:-2]))
    made.append(Script(rng, Table("floats", pa.schema(wide)), values))
    made.append(Script(rng, Table("few", pa.schema({"a": pa.int32(), "b": pa.string()})), [(1, 2), ("x", "y")]))
    return made
