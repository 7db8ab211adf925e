"""Table definitions by number: what a block's index holds instead of the definition.

A definition keeps its number for the life of the process; numbers are never stored or sent.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from cdc_core.errors import SchemaError
from cdc_core.schema.row_layout import row_layout
from cdc_core.schema.table import TableSchema


class SchemaRegistry:
    """`intern` gives a definition its number; `get` and `row_layout` look it up. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[TableSchema, int] = {}
        self._schemas: list[TableSchema] = []
        self._layouts: list[npt.NDArray[np.int32]] = []

    def intern(self, schema: TableSchema) -> int:
        """The definition's number; a new definition gets the next one. SchemaError for an unknown type."""
        with self._lock:
            number = self._numbers.get(schema)
            if number is None:
                layout = row_layout(schema)
                number = self._numbers[schema] = len(self._schemas)
                self._layouts.append(layout)
                self._schemas.append(schema)
            return number

    def get(self, number: int) -> TableSchema:
        """Raises SchemaError for a number that was never given out."""
        if not 0 <= number < len(self._schemas):
            raise SchemaError(f"no definition has the number {number}", hint="Annotate the block before reading it.")
        return self._schemas[number]

    def row_layout(self, number: int) -> npt.NDArray[np.int32]:
        """How wide the columns are in a row image: see `schema.row_layout`."""
        self.get(number)
        return self._layouts[number]

    def __len__(self) -> int:
        return len(self._schemas)

    def __repr__(self) -> str:
        return f"<SchemaRegistry schemas={len(self._schemas)}>"
