"""The statistics of a file for Delta's log: its count of rows, and the least and greatest value of columns of integers.

Delta skips files by them (Delta protocol, "Per-file Statistics"). Other types have none here: each may be left out.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

_COLUMNS = 32  # the first ones, as Delta's own writers count


class Bounds:
    """Of one file, row group by row group."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = [field.name for field in list(schema)[:_COLUMNS] if pa.types.is_integer(field.type)]
        self._least: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._nulls = dict.fromkeys(self._names, 0)

    def __repr__(self) -> str:
        return f"<Bounds columns={len(self._names)}>"

    def add(self, group: pa.Table) -> None:
        for name in self._names:
            column = group.column(name)
            found = pc.min_max(column).as_py()
            self._nulls[name] += column.null_count
            if found["min"] is not None:
                self._least[name] = min(found["min"], self._least.get(name, found["min"]))
                self._most[name] = max(found["max"], self._most.get(name, found["max"]))

    def to_json(self, rows: int) -> str:
        return json.dumps(
            {"numRecords": rows, "minValues": self._least, "maxValues": self._most, "nullCount": self._nulls}
        )
