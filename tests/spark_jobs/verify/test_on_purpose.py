"""Rows that differ on purpose, by the rows that corrections noted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.changes.columns import DELETE, INSERT, OP, UPDATE_AFTER, UPDATE_BEFORE
from spark_jobs.lake.corrections import CorrectedTable, Correction, Corrections, redoable
from spark_jobs.lake.record import COPIED, CopyNote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.verify.on_purpose import OnPurpose, Replaced, after, on_purpose

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


def done(corrections: Corrections, one: CorrectedTable) -> None:
    corrections.note(replace(one, state="done", version=7), datetime.now(UTC))


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

    def test_redone(self, corrections: Corrections) -> None:
        """A row that was put back differs from nothing: a later difference has another reason, also the one between the
        same two rows the other way round, as a change that the lake lost makes it. So does the first undo of a row that
        was changed since and undone again."""
        done(corrections, noted(corrections, images((1, 11, UPDATE_BEFORE), (1, 10, UPDATE_AFTER), (2, 20, DELETE))))
        done(corrections, noted(corrections, images((1, 10, UPDATE_BEFORE), (1, 11, UPDATE_AFTER)), "redo"))
        found = on_purpose(corrections, SCHEMA)
        assert found.by(b"1", b"1,11", [b"1,10"]) == ""
        assert found.by(b"1", b"1,10", [b"1,11"]) == ""
        assert found.by(b"2", b"2,20", []).startswith("undo 1")
        done(corrections, noted(corrections, images((2, 21, UPDATE_BEFORE), (2, 20, UPDATE_AFTER))))
        found = on_purpose(corrections, SCHEMA)
        assert found.by(b"2", b"2,20", []) == ""
        assert found.by(b"2", b"2,21", [b"2,20"]).startswith("undo 3")

    def test_replaced_since(self, corrections: Corrections) -> None:
        """A copy at the place of the correction, or later, has other rows; one from before it has not."""
        done(corrections, noted(corrections, images((1, 11, DELETE))))
        for low, counts in ((1, True), (2, False), (9, False)):
            about = {COPIED: CopyNote(0, low, low).to_json()}
            with mock.patch.object(Lake, "state", lambda *_, about=about: TableState(5, 2, (), about)):
                assert bool(on_purpose(corrections, SCHEMA).by(b"1", b"1,11", [])) is counts

    def test_restored_since(self, corrections: Corrections) -> None:
        """A restore to a later place brings the row that was put again, one to an earlier place does not."""
        done(corrections, noted(corrections, images((1, 11, DELETE))))
        for at, counts in ((2, True), (9, True), (1, False)):
            asked = corrections.asked(Correction("restore", 0, at, at, "a place", "why"), NOW)
            place = {"epoch": 1, "at": at}
            corrections.note(CorrectedTable(asked, "shop.t", "done", 7, place), datetime.now(UTC))
            about = {COPIED: CopyNote(1, at, at).to_json()}
            with mock.patch.object(Lake, "state", lambda *_, about=about: TableState(5, 2, (), about)):
                assert bool(on_purpose(corrections, SCHEMA).by(b"1", b"1,11", [])) is counts

    def test_after(self) -> None:
        """A correction that goes on from another's row stands for both, alone if its commit came."""
        there = after([], Replaced(1, b"c", b"b"), certain=False)
        assert there == [Replaced(1, b"c", b"b")]
        assert after(there, Replaced(2, b"b", b"a"), certain=False) == [*there, Replaced(2, b"c", b"a")]
        assert after(there, Replaced(2, b"b", b"a"), certain=True) == [Replaced(2, b"c", b"a")]
        assert after(there, Replaced(2, b"b", b"c"), certain=True) == []
        assert after(there, Replaced(2, b"b", b"c"), certain=False) == there
        assert after(there, Replaced(2, b"c", b"a"), certain=True) == [Replaced(2, b"c", b"a")]


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
