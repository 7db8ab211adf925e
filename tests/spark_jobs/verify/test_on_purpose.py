"""Rows that differ on purpose, by the rows that corrections noted."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.changes.columns import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE
from spark_jobs.lake.corrections import CorrectedTable, Correction, Corrections, redoable
from spark_jobs.lake.tables import Lake
from spark_jobs.verify.on_purpose import OnPurpose, Replaced, add, on_purpose

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = TableSchema("shop", "t", tuple(Column(one, ColumnType.LONGLONG, 0) for one in ("id", "v")), ("id",))


@pytest.fixture
def corrections(tmp_path: Path) -> Corrections:
    return Corrections(Lake(tmp_path), "d", 1)


def images(*rows: tuple[int, int, str]) -> pa.Table:
    ids, values, ops = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.int64()), OP: list(ops)})


def noted(corrections: Corrections, rows: pa.Table, kind: str = "undo", table: str = "shop.t") -> CorrectedTable:
    correction = corrections.asked(Correction(kind, 0, 1, 2, "batch 7", "a bad release"), NOW)  # type: ignore[arg-type]
    one = CorrectedTable(correction, table, "began", counts={"put": 1, "epoch": 0, "at": 2})
    corrections.began(one, rows, NOW)
    return one


class TestOnPurpose:
    def test_rows(self, corrections: Corrections) -> None:
        """A row that was changed, one that came and one that went: on purpose where the source has what was replaced
        and the lake what was put, and only there."""
        rows = images((1, 11, UPDATE_BEFORE), (1, 10, UPDATE_AFTER), (2, 20, DELETE), (3, 30, INSERT))
        noted(corrections, rows)
        found, name = on_purpose(corrections, SCHEMA), "undo 1: a bad release"
        assert found.by(b"1", b"1,11", [b"1,10"]) == name
        assert found.by(b"2", b"2,20", []) == name
        assert found.by(b"3", None, [b"3,30"]) == name
        assert found.by(b"1", b"1,12", [b"1,10"]) == ""
        assert found.by(b"1", b"1,11", [b"1,9"]) == ""
        assert found.by(b"1", b"1,11", [b"1,10", b"1,10"]) == ""
        assert found.by(b"4", None, [b"4,1"]) == ""

    def test_undo_of_an_undone_row(self, corrections: Corrections) -> None:
        """Two undos of one row stand for both together, whichever of them was committed."""
        noted(corrections, images((1, 12, UPDATE_BEFORE), (1, 11, UPDATE_AFTER)))
        noted(corrections, images((1, 11, UPDATE_BEFORE), (1, 10, UPDATE_AFTER)))
        found = on_purpose(corrections, SCHEMA)
        assert found.by(b"1", b"1,12", [b"1,10"]).startswith("undo 2")
        assert found.by(b"1", b"1,12", [b"1,11"]).startswith("undo 1")

    def test_other_columns(self, corrections: Corrections) -> None:
        """After a statement the rows that were put have other columns: nothing is on purpose any more."""
        noted(corrections, images((1, 11, DELETE)).drop_columns(["v"]))
        assert on_purpose(corrections, SCHEMA) == OnPurpose()

    def test_rows_removed(self, corrections: Corrections) -> None:
        """Somebody may remove the rows that were put: then nothing is on purpose any more."""
        one = noted(corrections, images((1, 11, DELETE)))
        shutil.rmtree(corrections.rows_path(one.correction.number, one.table))
        assert on_purpose(corrections, SCHEMA) == OnPurpose()

    def test_void(self, corrections: Corrections) -> None:
        """What is certain not to have come explains nothing, nor do other tables and restores."""
        one = noted(corrections, images((1, 11, DELETE)))
        corrections.note(CorrectedTable(one.correction, "shop.t", "void"), NOW)
        noted(corrections, images((1, 11, DELETE)), table="shop.u")
        noted(corrections, images((1, 11, DELETE)), kind="restore")
        assert on_purpose(corrections, SCHEMA) == OnPurpose()

    def test_chain(self) -> None:
        """A correction that goes on from another's row also stands for both."""
        there = list[Replaced]()
        add(there, Replaced(1, b"c", b"b"))
        add(there, Replaced(2, b"b", b"a"))
        assert there == [Replaced(1, b"c", b"b"), Replaced(2, b"c", b"a"), Replaced(2, b"b", b"a")]


class TestCorrections:
    def test_numbers(self, corrections: Corrections) -> None:
        """They rise, also where two ask at the same time."""
        asked = Correction("undo", 0, 1, 2, "batch 7", "why")
        assert [corrections.asked(asked, NOW).number for _ in range(3)] == [1, 2, 3]
        opened = corrections._open()
        corrections.asked(asked, NOW)
        one = CorrectedTable(asked, "", "asked")
        with pytest.raises(CommitFailedError):
            corrections._append(opened, one, NOW, 4)

    def test_states(self, corrections: Corrections) -> None:
        """The last state of a table counts; its rows are as they were noted."""
        rows = images((1, 11, UPDATE_BEFORE), (1, 10, UPDATE_AFTER))
        one = noted(corrections, rows)
        assert [found.state for found in corrections.of_table("shop.t")] == ["began"]
        corrections.note(CorrectedTable(one.correction, "shop.t", "done", 7, one.counts), NOW)
        header, done = corrections.tables()
        assert (header.table, header.state, header.correction.reason) == ("", "asked", "a bad release")
        assert (done.state, done.version, done.counts) == ("done", 7, one.counts)
        assert redoable(corrections.tables(), 1) == [done]
        assert corrections.rows(1, "shop.t").sort_by("v").to_pylist() == rows.sort_by("v").to_pylist()

    def test_nothing(self, corrections: Corrections) -> None:
        """A lake without corrections has none."""
        assert corrections.tables() == []
        assert on_purpose(corrections, SCHEMA) == OnPurpose()
