"""Small change logs for parts that Arrow reads: images of a table with a key of two columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from spark_jobs.following.pending import Part
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.columns import EPOCH, NTH, OP, TIME, VERSION

KEY, COLUMNS = ("a", "b"), ["a", "b", "v"]
SCHEMA = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.string(),
        "v": pa.string(),
        OP: pa.string(),
        EPOCH: pa.int32(),
        VERSION: pa.int64(),
        NTH: pa.int64(),
        TIME: pa.timestamp("us", "UTC"),
    }
)


def image(a: int | None, b: str, op: str, version: int, nth: int, epoch: int = 0) -> dict[str, Any]:
    v = None if version % 7 == 0 else f"{version}-{nth}"
    return {"a": a, "b": b, "v": v, OP: op, EPOCH: epoch, VERSION: version, NTH: nth, TIME: version * 1_000_000}


def part_of(tmp_path: Path, images: list[dict[str, Any]]) -> tuple[Lake, DeltaTable, Part]:
    """A log of these images in files of a few, and the part behind version 10 up to 90."""
    path = str(tmp_path / "log")
    for start in range(0, len(images), 50):
        write_deltalake(path, pa.Table.from_pylist(images[start : start + 50], SCHEMA), mode="append")
    return Lake(tmp_path / "lake"), DeltaTable(path), Part(0, 10, 90, len(images), 0.0)
