"""A part of a change log read in slices, of a log that delta-rs wrote."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import LakeError
from spark_jobs.changes.columns import EPOCH, GTID, NTH, OP, ROW, SYSTEM, TIME, VERSION
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.past import logged
from spark_jobs.past.logged import LoggedImages, slice_ends

SCHEMA = pa.schema([pa.field("id", pa.int64()), *SYSTEM])


def image(version: int, row: int, epoch: int = 1) -> dict[str, Any]:
    """An inserted row whose id says where it stands."""
    place = {
        EPOCH: epoch,
        VERSION: version,
        ROW: row,
        NTH: row,
        TIME: datetime.fromtimestamp(version, UTC),
        GTID: "a:1",
    }
    return dict.fromkeys(SCHEMA.names) | {"id": 100 * version + row, OP: "insert"} | place


def log_of(path: Path, rows: list[dict[str, Any]], seed: int) -> OpenedLog:
    """The rows in three commits, in any order."""
    random.Random(seed).shuffle(rows)
    log = TableLog(Lake(path), "d", 1, "shop.t")
    for part in range(3):
        write_deltalake(log.path, pa.Table.from_pylist(rows[part::3], SCHEMA), mode="append")
    return OpenedLog(log, DeltaTable(log.path))


class TestLoggedImages:
    @pytest.mark.parametrize("seed", range(4))
    def test_slices(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        """The images of the range alone come in their order, each once, whatever the slices."""
        monkeypatch.setattr(logged, "_ROWS", 3 + seed)
        rows = [image(version, row) for version in range(1, 8) for row in range(version)]
        log = log_of(tmp_path, [*rows, image(3, 0, epoch=2)], seed)
        batches = list(LoggedImages(log, VersionRange(1, 2, 6)).images())
        found = [one for batch in batches for one in batch.column("id").to_pylist()]
        assert found == [100 * version + row for version in range(3, 7) for row in range(version)]
        assert batches[0].schema.names == ["id", OP, VERSION, TIME, GTID]
        assert list(LoggedImages(log, VersionRange(5, None, 6)).images()) == []

    def test_lost_file(self, tmp_path: Path) -> None:
        """A file that is gone is an error that names another way."""
        log = log_of(tmp_path, [image(1, row) for row in range(6)], 0)
        for file in Path(log.path).glob("*.parquet"):
            file.unlink()
        with pytest.raises(LakeError, match="cannot be read") as caught:
            list(LoggedImages(log, VersionRange(1, None, 6)).images())
        assert "binlog" in caught.value.hint


class TestSliceEnds:
    @pytest.mark.parametrize(
        ("versions", "ends"),
        [([], []), ([5], [5]), ([3, 1, 2, 1], [2, 3]), ([1] * 9 + [2], [1, 2]), ([1, 2, 3, 4, 5, 6], [3, 6])],
    )
    def test_ends(self, versions: list[int], ends: list[int]) -> None:
        """Each slice has three rows at least, but the last one, and no version is in two."""
        assert slice_ends(np.array(versions, np.int64), 3) == ends
