"""What the Delta logs of a lake say, read as they grow: each commit once, without Spark and without delta-rs.

It knows commits as JSON, not checkpoints: it must see a table from its first commit on, or from a commit that replaces
it whole. That is so in a soak, whose commits are younger than the time for which Delta keeps them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from tests.support.probes import MEGA

LOG = "_delta_log"


@dataclass(slots=True)
class DeltaLog:
    """One table. `live`: rows and bytes by file of the newest version. `known`: all files that a commit ever named."""

    path: Path
    version: int = -1
    live: dict[str, tuple[int, int]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def read(self) -> None:
        """Reads the commits that are new. A table whose last commit is gone is another one than before."""
        if self.version >= 0 and not self._commit(self.version).exists():
            self.version, self.live, self.known = -1, {}, set()
        while (commit := self._commit(self.version + 1)).exists():
            actions = [json.loads(line) for line in commit.read_text().splitlines() if line.strip()]
            for action in (one["remove"] for one in actions if "remove" in one):
                self.live.pop(action["path"], None)
            for action in (one["add"] for one in actions if "add" in one):
                self.live[action["path"]] = _rows(action), int(action["size"])
            for action in (one[kind] for one in actions for kind in ("add", "cdc") if kind in one):
                self.known |= {unquote(action["path"]), *_vector(action)}
            self.version += 1

    def _commit(self, version: int) -> Path:
        return self.path / LOG / f"{version:020d}.json"

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.live.values())

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.live.values())


def _rows(action: dict[str, Any]) -> int:
    """The rows of an added file, without those that a deletion vector takes out."""
    stats = json.loads(action.get("stats") or "{}")
    gone = (action.get("deletionVector") or {}).get("cardinality", 0)
    return int(stats.get("numRecords", 0)) - int(gone)


def _vector(action: dict[str, Any]) -> Iterator[str]:
    """The name of the file of a deletion vector, of which the log has a UUID in base 85, four bytes in five digits."""
    vector = action.get("deletionVector") or {}
    if vector.get("storageType") == "u":
        digits = [_BASE85.index(character) for character in vector["pathOrInlineDv"][-20:]]
        words = (reduce(lambda number, digit: number * 85 + digit, digits[at : at + 5]) for at in range(0, 20, 5))
        yield f"deletion_vector_{UUID(''.join(f'{word:08x}' for word in words))}.bin"


_BASE85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class LakeProbe:
    """The tables of a lake, and Sluice's own below `_sluice`. `ledger`: the folder of the ledger."""

    def __init__(self, root: Path, ledger: Path) -> None:
        self._root, self._ledger = root, ledger
        self._logs: dict[Path, DeltaLog] = {}

    def __call__(self) -> dict[str, float]:
        found: dict[str, float] = {}
        tables = files = size = unknown = 0
        logs: list[DeltaLog] = []
        for path, names in _folders(self._root):
            log = self._logs.setdefault(path, DeltaLog(path))
            log.read()
            data = dict(_data(path))
            name = "/".join(path.relative_to(self._root).parts[-2:])
            found[f"log of {name}: files"] = len(names)
            found[f"log of {name}: commits"] = log.version + 1
            if path == self._ledger:
                found |= {"ledger: rows": log.rows, "ledger: live files": len(log.live)}
            elif "_sluice" not in path.relative_to(self._root).parts:
                logs.append(log)
                tables += 1
                files, size = files + len(data), size + sum(data.values())
                known = {one.rpartition("/")[2] for one in log.known}
                unknown += sum(file not in known for file in data)
        return found | {
            "lake: tables": tables,
            "lake: commits": sum(log.version + 1 for log in logs),
            "lake: rows": sum(log.rows for log in logs),
            "lake: live files": sum(len(log.live) for log in logs),
            "lake: live bytes": sum(log.bytes for log in logs) / MEGA,
            "lake: files": files,
            "lake: bytes": size / MEGA,
            "lake: files of no commit": unknown,
        }


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """The folders of tables, each with the names of the files of its log."""
    for place, folders, _ in os.walk(root):
        if "staging" in folders and Path(place).parent.name == "_sluice":
            folders.remove("staging")  # of rows on their way to a table
        if LOG in folders:
            folders.clear()  # no table is within another here
            names = (name for _, _, found in os.walk(Path(place) / LOG) for name in found)
            yield Path(place), [name for name in names if not _is_checksum(name)]


def _data(path: Path) -> Iterator[tuple[str, int]]:
    """The names and sizes of a table's own files, wherever below it."""
    for place, folders, names in os.walk(path):
        if LOG in folders:
            folders.remove(LOG)
        for name in names:
            if not _is_checksum(name):
                with suppress(OSError):
                    yield name, Path(place, name).stat().st_size


def _is_checksum(name: str) -> bool:
    """Whether Hadoop made the file beside another one, on a local disk."""
    return name.startswith(".")
