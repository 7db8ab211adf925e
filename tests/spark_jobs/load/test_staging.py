"""spark_jobs.load.staging: what a killed copy leaves behind goes, what a live one has stays. Without Spark."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.tables import Lake
from spark_jobs.load.staging import Groups, Staging, dead, temporary
from spark_jobs.snapshot.chunk import Chunk

HOURS = 3600.0
TABLE = TableSchema("shop", "t", (Column("id", 3, 0),), ("id",))


def age(folder: Path, seconds: float) -> None:
    """Makes all files of a folder so old."""
    then = time.time() - seconds
    for file in folder.rglob("*"):
        os.utime(file, (then, then))


def _with_files(root: Path) -> set[str]:
    """The folders that have files: an object store knows no other."""
    return {file.relative_to(root).parts[0] for file in root.rglob("*") if file.is_file()}


def test_the_next_copy_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """Not what another copy, of any table, still works on, nor what a snapshot has staged; and its own folder goes with
    it."""
    lake = Lake(tmp_path)
    left, fresh = (Path(lake.staging_path("d", f"copies/{name}")) for name in ("left", "fresh"))
    snapshot = Path(lake.staging_path("d", "5f1c"))
    for folder in (left, fresh, snapshot):
        write_deltalake(str(folder), pa.table({"0": [1]}))
    for folder in (left, snapshot):
        age(folder, 2 * HOURS)
    with temporary(lake, "d") as own:
        write_deltalake(own.path, pa.table({"0": [1]}))
        assert _with_files(left.parent) == {"fresh", Path(own.home).name}
    assert _with_files(left.parent) == {"fresh"}
    assert _with_files(snapshot.parent) == {"copies", "5f1c"}


def test_a_copy_that_lives_says_so(tmp_path: Path) -> None:
    """It marks its folder again and again, also while it writes no rows: another copy leaves it alone."""
    lake = Lake(tmp_path)
    with temporary(lake, "d", every=0.05) as own:
        age(Path(own.home), 2 * HOURS)
        deadline = time.monotonic() + 60
        while all(file.stat().st_mtime < time.time() - HOURS for file in Path(own.home).rglob("*.json")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with temporary(lake, "d"):
            assert Path(own.home).name in _with_files(Path(own.home).parent)


def test_rows_that_no_group_has_are_removed(tmp_path: Path) -> None:
    """A copy of an earlier version staged them, and was killed. Groups stay; where nothing is, nothing is done."""
    staging = Staging(Lake(tmp_path), "d", "5f1c")
    assert staging.keep_groups() == Groups()
    write_deltalake(staging.path, pa.table({"0": [1, 2, 3]}))
    assert staging.keep_groups() == staging.staged() == Groups()
    staging.write([pa.record_batch({"id": pa.array([1, 2, 3], pa.int32())})], TABLE)
    assert staging.keep_groups() == staging.staged() == Groups(1, 1, 3, Chunk(0))


def test_age_is_by_the_stores_clock() -> None:
    """Against the copy's own mark; where that is not seen nothing is removed."""
    written = {"own": 9000.0, "old": 5000.0, "live": 8000.0}
    assert dead(written, "own") == ["old"]
    assert dead({"old": 5000.0}, "own") == []
