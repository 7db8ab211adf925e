"""spark_jobs.load.staging: what a killed copy leaves behind goes, what a live one has stays. Without Spark."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from spark_jobs.lake.tables import Lake
from spark_jobs.load.staging import dead, temporary

HOURS = 3600.0


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


def test_age_is_told_by_the_stores_clock() -> None:
    """Against the copy's own mark; where that is not seen nothing is removed."""
    written = {"own": 9000.0, "old": 5000.0, "live": 8000.0}
    assert dead(written, "own") == ["old"]
    assert dead({"old": 5000.0}, "own") == []
