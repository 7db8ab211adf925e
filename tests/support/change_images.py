"""Small change logs for parts that Arrow reads: images of a table with a key of two columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from spark_jobs.changes.columns import DELETE, EPOCH, INSERT, NTH, OP, SYSTEM, TIME, VERSION
from spark_jobs.following.pending import Part
from spark_jobs.lake.tables import Lake

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
    """A log of these images in files of a few, and the part after version 10 up to 90."""
    path = str(tmp_path / "log")
    for start in range(0, len(images), 50):
        write_deltalake(path, pa.Table.from_pylist(images[start : start + 50], SCHEMA), mode="append")
    return Lake(tmp_path / "lake"), DeltaTable(path), Part(0, 10, 90, len(images), 0.0)


def logged(fields: Sequence[pa.Field], changes: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Changes as a log has them: each the values of `fields`, a version, its order, and whether the row goes."""
    columns = list(zip(*changes, strict=True)) or [()] * (len(fields) + 3)
    own = {field.name: pa.array(values, field.type) for field, values in zip(fields, columns, strict=False)}
    own |= {EPOCH: pa.array([0] * len(changes), pa.int32()), VERSION: pa.array(columns[-3], pa.int64())}
    own |= {NTH: pa.array(columns[-2], pa.int64())}
    own |= {OP: pa.array([DELETE if gone else INSERT for gone in columns[-1]], pa.string())}
    schema = pa.schema([*fields, *SYSTEM])
    return pa.table([own.get(field.name, pa.nulls(len(changes), field.type)) for field in schema], schema)
