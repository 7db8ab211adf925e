"""The files of a version of a local Delta table, and a second name for each, under which a later version may have it.

A file of an earlier version may be deleted at any time (VACUUM), because the newest one does not need it. So it is
given another name, a hard link, before a commit counts on it: that costs nothing, whatever its size, and no clean-up of
the old name concerns it. What is linked and not committed is an unknown file, which VACUUM deletes later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow.parquet as pq

from spark_jobs.past.files import DataFile
from spark_jobs.past.vectors import renamed, vector_file

_KEPT = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector", "tags")
_CHECKPOINT = ".checkpoint.parquet"


class UnknownForm(Exception):
    """The table's log, or a file of it, has a form that is not read here."""


def files_at(log: Path, version: int) -> dict[DataFile, dict[str, Any]]:
    """Returns the files of a version as the log `log` adds them, by file. Raises UnknownForm, OSError."""
    began = max((one for one in map(_checkpointed, log.glob(f"*{_CHECKPOINT}")) if one <= version), default=None)
    found = dict[DataFile, dict[str, Any]]()
    if began is not None:
        found = {DataFile.of(add): add for add in _checkpoint(log / f"{began:020d}{_CHECKPOINT}")}
    for number in range(0 if began is None else began + 1, version + 1):
        actions = [json.loads(line) for line in (log / f"{number:020d}.json").read_bytes().splitlines() if line.strip()]
        for action in actions:
            if "remove" in action:
                found.pop(DataFile.of(action["remove"]), None)
        for action in actions:
            if "add" in action:
                found[DataFile.of(action["add"])] = _added(action["add"])
    return found


def _checkpointed(file: Path) -> int:
    """Returns the version of a checkpoint in one file of the first form, -1 for another."""
    name = file.name.removesuffix(_CHECKPOINT)
    return int(name) if name.isdecimal() else -1


def _checkpoint(file: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        if "sidecar" in names and opened.read(["sidecar"])["sidecar"].null_count < opened.metadata.num_rows:
            raise UnknownForm(f"{file} leaves its files to others")
        for batch in opened.iter_batches(columns=["add"]):
            yield from (_added(one) for one in batch.column("add").drop_null().to_pylist())


def _added(action: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry of the log in one form, from a commit or a checkpoint."""
    found = {name: action[name] for name in _KEPT if action.get(name) is not None}
    for name in ("partitionValues", "tags"):
        if not isinstance(found.get(name, {}), dict):
            found[name] = dict(found[name])
    if (vector := found.get("deletionVector")) is not None:
        found["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return found


@dataclass(slots=True)
class Links:
    """Second names of files of the table in folder `root`."""

    root: Path
    made: list[Path] = field(default_factory=list)
    _vectors: dict[str, str] = field(default_factory=dict)

    def of(self, add: Mapping[str, Any]) -> dict[str, Any]:
        """Links a file and its deletion vector, and returns its entry with the new names. Raises UnknownForm for a file
        outside of the table, OSError for one that is not there or cannot be linked."""
        path = str(add["path"])
        if "://" in path or path.startswith("/"):
            raise UnknownForm(f"{path} lies outside of the table")
        name = str(PurePosixPath(path).with_name(f"part-{uuid4()}.parquet"))
        self._link(unquote(path), unquote(name))
        vector = add.get("deletionVector")
        return {**add, "path": name} | ({"deletionVector": self._vector(vector)} if vector else {})

    def _vector(self, vector: Mapping[str, Any]) -> dict[str, Any]:
        kind, where = vector["storageType"], str(vector["pathOrInlineDv"])
        if kind == "i":
            return dict(vector)
        if kind != "u":
            raise UnknownForm("a deletion vector lies outside of the table")
        if where not in self._vectors:  # one file has the vectors of many
            self._vectors[where] = renamed(where, uuid4())
            self._link(vector_file(where), vector_file(self._vectors[where]))
        return {**vector, "pathOrInlineDv": self._vectors[where]}

    def _link(self, old: str, new: str) -> None:
        (self.root / new).hardlink_to(self.root / old)
        self.made.append(self.root / new)
        os.utime(self.root / new)  # VACUUM spares a young file that no commit has yet

    def undo(self) -> None:
        """Removes the second names: no commit has them."""
        for one in self.made:
            one.unlink(missing_ok=True)
