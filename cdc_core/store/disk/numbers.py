"""The definitions behind the schema numbers in the volumes: one line each, in the order of the numbers. A line with a
number stands for so many that are retired.

An index in a volume is used as it is, so a number must mean the same definition after a restart.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from cdc_core.files import replace_file
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema

_RETIRED = 1000  # lines of retired definitions until the file is rewritten


class SchemaNumbers:
    """`count` numbers of the registry are in the file, the first ones."""

    def __init__(self, path: Path, registry: SchemaRegistry) -> None:
        self.path, self._registry = path, registry
        self.count = 0
        self._lines = 0  # of definitions

    def __repr__(self) -> str:
        return f"<SchemaNumbers {self.path} count={self.count}>"

    def load(self) -> bool:
        """Gives the registry the definitions of the file. Whether each has its number there."""
        known = _read(self.path)
        schemas = [schema for _, one in known for schema in (one if isinstance(one, list) else [one])]
        if not self._registry.restore(schemas):
            return False
        self.count, self._lines = len(schemas), sum(schema is not None for schema in schemas)
        if self.path.exists():
            os.truncate(self.path, known[-1][0] if known else 0)
        return True

    def is_known(self, number: int) -> bool:
        """Whether the file has a definition of the number, as far as that is not retired."""
        return number < self.count and self._registry.find(number) is not None

    def forget(self) -> None:
        """Removes the file: the next `keep` writes all that the registry has."""
        self.path.unlink(missing_ok=True)
        self.count = self._lines = 0

    def keep(self) -> None:
        """Writes the definitions that the registry got since. Raises OSError; then the next call writes them."""
        count = len(self._registry)
        lines, held = self._text(self.count, count)
        if not lines:
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("ab") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            if self.path.exists():
                os.truncate(self.path, size)
            raise
        self.count = count
        self._lines += held

    def compact(self) -> None:
        """Rewrites the file, as a whole or not at all, when most of its definitions are retired. Raises OSError."""
        if self._lines < 2 * self._registry.held + _RETIRED:
            return
        lines, held = self._text(0, self.count)
        replace_file(self.path, lines)  # durable: else definitions that are added later may vanish
        self._lines = held

    def _text(self, low: int, high: int) -> tuple[bytes, int]:
        """The lines of these numbers, and how many definitions they have."""
        schemas = [self._registry.find(number) for number in range(low, high)]
        return b"".join(map(_line, _runs(schemas))), sum(schema is not None for schema in schemas)


def _runs(schemas: Iterable[TableSchema | None]) -> Iterator[TableSchema | int]:
    """The same with the number of retired ones in their place."""
    for is_retired, run in groupby(schemas, key=lambda schema: schema is None):
        if is_retired:
            yield len(list(run))
        else:
            yield from (schema for schema in run if schema is not None)


def _line(one: TableSchema | int) -> bytes:
    text = json.dumps(one if isinstance(one, int) else one.to_dict(), separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read(path: Path) -> list[tuple[int, TableSchema | list[None]]]:
    """The definitions, or runs of retired ones, up to the first line that is not whole, each with the offset after its
    line."""
    found: list[tuple[int, TableSchema | list[None]]] = []
    data = path.read_bytes() if path.exists() else b""
    at = 0
    for line in data.splitlines(keepends=True):
        checksum, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
            break
        at += len(line)
        fields = json.loads(text)
        found.append((at, [None] * fields if isinstance(fields, int) else TableSchema.from_dict(fields)))
    return found
