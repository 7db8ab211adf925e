"""Looks for values that no part but the service may have: in files of all kinds, and in texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow.parquet as pq


def files_with(folder: Path, hidden: Collection[str], leave_out: Iterable[Path] = ()) -> list[tuple[str, str]]:
    """The files below a folder that have one of these texts, with it. Rows of Parquet are looked at as values, because
    their pages are compressed."""
    left = tuple(leave_out)
    found = []
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not any(file.is_relative_to(one) for one in left):
            text = _text(file)
            found += [(str(file.relative_to(folder)), one) for one in hidden if one.encode() in text]
    return found


def _text(file: Path) -> bytes:
    raw = file.read_bytes()
    if file.suffix != ".parquet" or not raw:
        return raw
    return raw + "\n".join(map(repr, pq.ParquetFile(file).read().to_pylist())).encode()
