"""The definitions behind the schema numbers in the volumes: one line each, in the order of the numbers.

An index in a volume is used as it is, so a number must mean the same definition after a restart.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema


class SchemaNumbers:
    """`count` definitions of the registry are in the file, those with the first numbers."""

    def __init__(self, path: Path, registry: SchemaRegistry) -> None:
        self.path, self._registry = path, registry
        self.count = 0

    def __repr__(self) -> str:
        return f"<SchemaNumbers {self.path} count={self.count}>"

    def load(self) -> bool:
        """Gives the registry the definitions of the file. Whether each has its number there."""
        known = _read(self.path)
        for number, (_, schema) in enumerate(known):
            if self._registry.intern(schema) != number:
                return False
        self.count = len(known)
        if self.path.exists():
            os.truncate(self.path, known[-1][0] if known else 0)
        return True

    def forget(self) -> None:
        """Removes the file: the next `keep` writes all that the registry has."""
        self.path.unlink(missing_ok=True)
        self.count = 0

    def keep(self) -> None:
        """Writes the definitions that the registry got since. Raises OSError; then the next call writes them."""
        count = len(self._registry)
        lines = b"".join(_line(self._registry.get(number)) for number in range(self.count, count))
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


def _line(schema: TableSchema) -> bytes:
    text = json.dumps(schema.to_dict(), separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read(path: Path) -> list[tuple[int, TableSchema]]:
    """The definitions up to the first line that is not whole, each with the offset behind its line."""
    found: list[tuple[int, TableSchema]] = []
    data = path.read_bytes() if path.exists() else b""
    at = 0
    for line in data.splitlines(keepends=True):
        checksum, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
            break
        at += len(line)
        found.append((at, TableSchema.from_dict(json.loads(text))))
    return found
