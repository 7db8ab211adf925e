"""Staged files with a log's changes over them, against a model; which files stay; what is left to Spark."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from cdc_core.errors import LakeError
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.tables import Lake
from spark_jobs.load import overlay
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.files import Files, StagedFile
from spark_jobs.load.overlay import laid_over
from spark_jobs.load.staging import Groups, Staging
from spark_jobs.snapshot.chunk import Chunk
from tests.support.change_images import logged
from tests.support.lake_types import SCHEMA, rows

LOW, UPTO, HIGH = 100, 200, 260
Row = tuple[Any, ...]


class Trial:
    """A staging table of several files, and a log. `columns` are staged under the names of `table`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, columns: pa.Schema, key: Sequence[str]) -> None:
        self.staging = Staging(Lake(folder / "lake"), "shop", "5f1c")
        self.log = ChangeLog(self.staging.lake, "shop", "5f1c")
        self.columns = columns
        self.table = TableSchema("shop", "t", tuple(Column(name, 3, 0) for name in columns.names), tuple(key))
        monkeypatch.setattr(overlay, "staged_schema", lambda _: columns)

    def stage(self, *files: Sequence[Row]) -> list[StagedFile]:
        table, written = self.staging.table(self.columns), []
        for part in files:
            one = Files(self.staging.path, {}, self.columns)
            for row in part:
                one.add(arrow(self.columns, [row]).to_batches()[0])
            written += one.end()
        self.staging.commit(table, written, Groups().then([Chunk(0)]))
        return written

    def keep(self, changes: Sequence[Row]) -> None:
        numbered = [pa.field(str(number), field.type) for number, field in enumerate(self.columns)]
        write_deltalake(self.log.path, logged(numbered, changes))

    def laid_over(self) -> list[StagedFile] | None:
        return laid_over(self.staging.lake, self.staging.path, self.table, self.log, LOW, UPTO)

    def rows(self, files: Sequence[StagedFile]) -> list[Row]:
        read = [pq.read_table(Path(self.staging.path, file.path)) for file in files]
        assert [one.num_rows for one in read] == [file.rows for file in files]
        return [tuple(row.values()) for one in read for row in one.to_pylist()]


def arrow(schema: pa.Schema, values: Sequence[Row]) -> pa.Table:
    columns = list(zip(*values, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays([pa.array(v, f.type) for v, f in zip(columns, schema, strict=True)], schema=schema)


KEYS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "whole": (pa.int32(), lambda number: number - 9),
    "text": (pa.string(), lambda number: ("ä" if number % 2 else "A") + "a" * number),
    "bytes": (pa.binary(), lambda number: bytes([number])),
    "exact": (pa.decimal128(20, 2), lambda number: Decimal(number) / 4),
    "day": (pa.date32(), lambda number: dt.date(1970 + number, 1, 1)),
    "moment": (pa.timestamp("us"), lambda number: dt.datetime(1582, 1, 1 + number, 5, 6, 7, 8)),
}


@pytest.mark.parametrize("key", [("whole",), ("text",), ("exact",), ("whole", "text"), ("bytes", "day", "moment")])
def test_the_last_change_of_each_key_counts(
    key: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are read at different times between the two places of the snapshot; what changed up to the switch is as it
    was there, and changes from before or after do not count."""
    chosen = random.Random(7)
    columns = pa.schema([pa.field("v", pa.int64()), *(pa.field(name, KEYS[name][0]) for name in key)])
    states: list[dict[Row, Row]] = [{}]
    log: list[Row] = []
    touched: set[Row] = set()
    for at in range(1, HIGH):
        state = dict(states[-1])
        one = tuple(KEYS[name][1](chosen.randrange(9)) for name in key)
        old = state.pop(one, None)
        if old is not None:
            log.append((*old, at, 2 * at, True))
        if old is None or chosen.random() < 0.6:
            state[one] = (chosen.choice((None, at)), *one)
            log.append((*state[one], at, 2 * at + 1, False))
        if LOW < at <= UPTO:
            touched.add(one)
        states.append(state)
    keys = sorted({one for state in states for one in state})
    times = {one: chosen.randint(LOW, HIGH - 1) for one in keys}
    staged = [states[times[one]][one] for one in keys if one in states[times[one]]]
    expected = [states[UPTO if one in touched else times[one]].get(one) for one in keys]

    trial = Trial(tmp_path, monkeypatch, columns, key)
    trial.stage(staged[::3], staged[1::3], staged[2::3])
    chosen.shuffle(log)
    trial.keep(log)
    found = trial.laid_over()
    assert found is not None
    assert sorted(trial.rows(found), key=repr) == sorted((row for row in expected if row), key=repr)


def test_files_without_a_changed_key_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their bounds, or by a look at their keys. One whose rows have all changed goes."""
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])
    trial = Trial(tmp_path, monkeypatch, columns, ["id"])
    staged = trial.stage([(1, "a"), (9, "b")], [(20, "c"), (29, "d")], [(30, "e"), (39, "f")], [(50, "g")])
    trial.keep(
        [(25, "new", 150, 0, False), (30, "gone", 150, 1, True), (50, "old", 150, 2, True), (50, "now", 150, 3, False)]
    )
    found = trial.laid_over()
    assert found is not None
    assert found[:2] == staged[:2]
    assert not {file.path for file in found} & {file.path for file in staged[2:]}
    assert trial.rows(found) == [(1, "a"), (9, "b"), (20, "c"), (29, "d"), (39, "f"), (25, "new"), (50, "now")]
    assert trial.rows(trial.laid_over() or []) == trial.rows(found)


def test_every_type_is_written_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was."""
    columns = pa.schema([pa.field("id", pa.int64()), *(pa.field(f"c{field.name}", field.type) for field in SCHEMA)])
    trial = Trial(tmp_path, monkeypatch, columns, ["id"])
    values = [tuple(row.values()) for row in rows().to_pylist()]
    trial.stage([(number, *row) for number, row in enumerate(values)], [])
    trial.keep([(1, *values[0], 150, 0, False), (7, *values[1], 150, 1, False)])
    found = trial.laid_over()
    assert found is not None
    assert trial.rows(found) == [(0, *values[0]), (2, *values[2]), (1, *values[0]), (7, *values[1])]


def test_what_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, a key of floats, of which some are equal in SQL alone, and a log that is large."""
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.float64())])
    trial = Trial(tmp_path, monkeypatch, columns, ["id"])
    trial.stage([(1, 0.5)])
    trial.keep([(1, 1.5, 150, 0, False)])
    assert trial.laid_over() is not None
    for key in ((), ("v",), ("id", "v")):
        trial.table = TableSchema("shop", "t", trial.table.columns, key)
        assert trial.laid_over() is None
    trial.table = TableSchema("shop", "t", trial.table.columns, ("id",))
    monkeypatch.setattr(overlay, "_MOST_BYTES", 10)
    assert trial.laid_over() is None


def test_a_staged_file_that_is_gone_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the staging table's place."""
    trial = Trial(tmp_path, monkeypatch, pa.schema([pa.field("id", pa.int64())]), ["id"])
    (file,) = trial.stage([(1,)])
    trial.keep([(1, 150, 0, True)])
    Path(trial.staging.path, file.path).unlink()
    with pytest.raises(LakeError) as caught:
        trial.laid_over()
    assert caught.value.place == trial.staging.path
