"""Table definitions by number: what a block's index holds instead of the definition.

A number means one definition for the life of the process, and on disk for as long as a volume has it. One that nothing
needs any more is retired: its definition goes, and the number is never given again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable

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
        self._schemas: list[TableSchema | None] = []
        self._layouts: list[npt.NDArray[np.int32] | None] = []
        self.held = 0  # numbers that are not retired

    def intern(self, schema: TableSchema) -> int:
        """The definition's number; a new definition gets the next one. SchemaError for an unknown type."""
        with self._lock:
            number = self._numbers.get(schema)
            return self._add(schema) if number is None else number

    def _add(self, schema: TableSchema) -> int:
        layout = row_layout(schema)
        number = self._numbers[schema] = len(self._schemas)
        self._layouts.append(layout)
        self._schemas.append(schema)
        self.held += 1
        return number

    def restore(self, known: Iterable[TableSchema | None]) -> bool:
        """Takes over definitions in the order of their numbers, None for a retired one. Whether each has its number
        here."""
        with self._lock:
            for number, schema in enumerate(known):
                if number < len(self._schemas):
                    if schema not in (None, self._schemas[number]):
                        return False
                elif schema is None:
                    self._schemas.append(None)
                    self._layouts.append(None)
                else:
                    self._add(schema)
            return True

    def retire(self, numbers: Collection[int]) -> None:
        """Forgets the definitions of these numbers. The caller knows that no event with one of them is left, and that
        none comes."""
        with self._lock:
            for number in numbers:
                schema = self._schemas[number]
                if schema is not None:
                    if self._numbers.get(schema) == number:
                        del self._numbers[schema]
                    self._schemas[number] = self._layouts[number] = None
                    self.held -= 1

    def find(self, number: int) -> TableSchema | None:
        """None for a number that is retired, or was never given out."""
        return self._schemas[number] if 0 <= number < len(self._schemas) else None

    def get(self, number: int) -> TableSchema:
        """Raises SchemaError for a number that is retired, or was never given out."""
        found = self.find(number)
        if found is None:
            raise SchemaError(f"no definition has the number {number}", hint="Annotate the block before reading it.")
        return found

    def row_layout(self, number: int) -> npt.NDArray[np.int32]:
        """How wide the columns are in a row image: see `schema.row_layout`."""
        self.get(number)
        layout = self._layouts[number]
        assert layout is not None
        return layout

    def numbers(self) -> set[int]:
        """Those that are not retired."""
        return {number for number, schema in enumerate(list(self._schemas)) if schema is not None}

    def __len__(self) -> int:
        """How many numbers were given, retired ones too."""
        return len(self._schemas)

    def __repr__(self) -> str:
        return f"<SchemaRegistry schemas={self.held}>"
