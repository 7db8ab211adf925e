"""Rows put into tables of a lake on disk, by delta-rs, without Spark and without a service."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import cast
from unittest import mock

import pyarrow as pa
import pytest

from cdc_core.errors import LakeError
from spark_jobs.lake.corrections import NOTE, CorrectedTable, Correction
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.load.result import WentOn
from spark_jobs.session import Sessions
from spark_jobs.undo.commit import Corrector, statement
from tests.support.lake_history import LakeHistory
from tests.support.undoing import NOW, A, Killed, Undoing, killed_at


@pytest.fixture
def undoing(tmp_path: Path) -> Undoing:
    return Undoing(tmp_path)


class TestUndo:
    def test_batch(self, undoing: Undoing) -> None:
        """A batch that inserted, changed and deleted a row: the rows are as before it, in one commit that is noted with
        its reason; redo takes it back."""
        undoing.batch({1: 10, 2: 20})
        number = undoing.batch({1: 11, 2: None, 3: 30})
        found = undoing.undo(number)
        assert undoing.rows == {1: 10, 2: 20}
        (noted,) = undoing.noted()
        assert (noted.state, noted.version, noted.correction.reason) == ("done", found.version, "a bad release")
        assert noted.counts["put"] == 3
        undoing.redo(noted.correction.number)
        assert undoing.rows == {1: 11, 3: 30}

    def test_place_stays(self, undoing: Undoing) -> None:
        """The table is at the same place before and after, so the next batch applies once."""
        undoing.batch({1: 10})
        number = undoing.batch({1: 11})
        before = undoing.lake.lake.state(undoing.lake.path(A), undoing.lake.app(A))
        undoing.undo(number)
        after = undoing.lake.lake.state(undoing.lake.path(A), undoing.lake.app(A))
        assert before is not None
        assert after is not None
        assert before.applied == after.applied
        undoing.batch({2: 20})
        assert undoing.rows == {1: 10, 2: 20}

    def test_later_changes(self, undoing: Undoing) -> None:
        """A row that a later batch changed is left, and put only when that is forced."""
        undoing.batch({1: 10, 2: 20})
        number = undoing.batch({1: 11, 2: 21})
        undoing.batch({2: 22})
        assert undoing.undo(number).plan.decision.left_alone == 1
        assert undoing.rows == {1: 10, 2: 22}
        assert undoing.noted()[-1].counts["left"] == 1
        undoing.undo(number, force=True)
        assert undoing.rows == {1: 10, 2: 20}
        undoing.redo(2)
        undoing.redo(1)
        assert undoing.redo(1).version is None
        assert undoing.rows == {1: 11, 2: 22}

    def test_range(self, undoing: Undoing) -> None:
        """Several batches are undone together: rows are as before the first."""
        undoing.batch({1: 10})
        first = undoing.batch({1: 11, 2: 20})
        last = undoing.batch({1: 12, 2: None, 3: 30})
        undoing.undo(first, last)
        assert undoing.rows == {1: 10}

    def test_again(self, undoing: Undoing) -> None:
        """Done again it writes nothing: the rows are as before the batch already."""
        undoing.batch({1: 10})
        number = undoing.batch({1: 11})
        undoing.undo(number)
        assert undoing.undo(number).version is None
        first, again = undoing.noted()
        assert (first.counts["put"], first.put_rows, again.state, again.put_rows) == (1, True, "done", False)
        assert {one: again.counts[one] for one in ("put", "already", "left")} == {"put": 0, "already": 1, "left": 0}

    def test_soft_deletes(self, tmp_path: Path) -> None:
        """A deleted row that comes back takes the place of its marked row, by an undo, a redo and a replay."""
        undoing = Undoing(tmp_path, soft=[A])
        undoing.batch({1: 10, 2: 20})
        number = undoing.batch({1: None, 2: 21})
        undoing.undo(number)
        assert undoing.rows == {1: 10, 2: 20}
        undoing.redo(1)
        assert undoing.rows == {2: 21}
        undoing.redo(2)
        undoing.batch({1: None})
        number = undoing.batch({1: 12})
        undoing.batch({1: None})
        undoing.corrected(undoing.planner(number, toward="after"), Correction("replay", 0, number, number), A)
        assert undoing.rows == {1: 12, 2: 20}

    def test_replay(self, undoing: Undoing) -> None:
        """A batch whose rows somebody set back is applied again."""
        undoing.batch({1: 10})
        number = undoing.batch({1: 11, 2: 20})
        undoing.lake.write(A, {1: 10}, "")
        undoing.corrected(undoing.planner(number, toward="after"), Correction("replay", 0, number, number), A)
        assert undoing.rows == {1: 11, 2: 20}

    def test_redo_after_later_changes(self, undoing: Undoing) -> None:
        """A redo leaves rows that changed since the undo."""
        undoing.batch({1: 10, 2: 20})
        number = undoing.batch({1: 11, 2: 21})
        undoing.undo(number)
        undoing.batch({2: 22})
        assert undoing.redo(1).plan.decision.left_alone == 1
        assert undoing.rows == {1: 11, 2: 22}


class TestRange:
    @pytest.mark.parametrize(
        ("keys", "outside", "expected"),
        [
            (pa.array([7, 3, 5]), 100 << 20, (3, 7)),
            (pa.array([7, 3, 5]), 1, None),
            (pa.array([7, None]), 100 << 20, None),
            (pa.array(["a"]), 100 << 20, None),
            (pa.array([Decimal(3)], pa.decimal128(20, 0)), 100 << 20, (3, 3)),
        ],
    )
    def test_bounds(self, undoing: Undoing, keys: pa.Array, outside: int, expected: tuple[int, int] | None) -> None:
        """A key of one integer bounds the statement, where that spares enough files."""
        number = undoing.batch({1: 10})
        planner = undoing.planner(number)
        plan, kind = planner.plan(A), {"decimal128(20, 0)": "decimal(20,0)"}.get(str(keys.type), "bigint")
        plan = replace(plan, state=replace(plan.state, columns=(LakeColumn("id", kind),)))
        corrector = Corrector(undoing.tables, cast(Sessions, None), planner)
        with mock.patch.object(Lake, "bytes_outside", return_value=outside):
            found = corrector._key_range(undoing.tables.path(A), plan, pa.table({"id": keys}))
        assert found == expected
        assert ("BETWEEN 3 AND 7" in statement("p", ["id"], ("id",), found)) is (found == (3, 7))


class TestKills:
    @pytest.mark.parametrize(
        "step",
        [
            "spark_jobs.lake.corrections.Corrections.asked",
            "spark_jobs.load.rewrite.Rewrite.begun",
            "spark_jobs.lake.corrections.write_deltalake",
            "spark_jobs.lake.corrections.Corrections.note",
            "spark_jobs.load.rewrite.Rewrite.check",
            "spark_jobs.undo.commit.by_delta_rs",
        ],
    )
    @pytest.mark.parametrize("after", [False, True])
    def test_every_step(self, undoing: Undoing, step: str, after: bool) -> None:
        """Killed before or after each step and done again, the rows are undone once, and one commit is noted as
        done."""
        undoing.batch({1: 10})
        number = undoing.batch({1: 11, 2: 20})
        with suppress(Killed), killed_at(step, after=after):
            undoing.undo(number)
        undoing.undo(number)
        assert undoing.rows == {1: 10}
        notes = [one.note for one in undoing.lake.lake.commits(undoing.lake.path(A)) if NOTE in one.note]
        assert len(notes) == 1
        assert [one.state for one in undoing.noted() if one.put_rows] == ["done"]
        undoing.batch({3: 30})
        assert undoing.rows == {1: 10, 3: 30}

    def test_between_tables(self, undoing: Undoing) -> None:
        """A run that dies between two tables, or before or after its commit: the same order is the same correction, so
        that one redo takes all of it back. Another order is another one, and so is one that puts rows once more."""
        number = undoing.batch({1: 10}, "shop.b")
        asked, rows = Correction("undo", 0, number, number, "batch", "first"), {A: 1, "shop.b": 1}
        undoing.batch({1: 10})
        number = undoing.batch({1: 11})
        first = undoing.corrections.asked(asked, NOW, rows)
        again = replace(asked, reason="again", run_id="later")
        assert undoing.corrections.unfinished(again, rows) == (replace(again, number=first.number), set())
        planner = undoing.planner(number)
        corrector = Corrector(undoing.tables, cast(Sessions, None), planner)
        with suppress(Killed), killed_at("spark_jobs.undo.commit.by_delta_rs", after=True):
            corrector.correct(first, planner.plan(A))
        assert corrector.correct(first, planner.plan(A)).version is not None
        left = {A: 0, "shop.b": 1}
        assert undoing.corrections.unfinished(again, left) == (replace(again, number=first.number), {A})
        (noted,) = undoing.noted()
        assert (noted.state, noted.counts["put"], noted.put_rows) == ("done", 1, True)
        for other, planned in ((again, rows), (again, {A: 0}), (replace(again, end=7), left)):
            assert undoing.corrections.unfinished(other, planned) == (other, set())
        undoing.corrections.note(CorrectedTable(first, "shop.b", "done", 1), NOW)
        assert undoing.corrections.unfinished(again, left) == (again, set())

    def test_two_at_once(self, undoing: Undoing) -> None:
        """Of two undos the one whose fence came first is refused, and nothing is put twice."""
        undoing.batch({1: 10})
        number = undoing.batch({1: 11})

        def other(*_: object) -> None:
            undoing.undo(number)

        planner = undoing.planner(number)
        corrector = Corrector(undoing.tables, cast(Sessions, None), planner)
        asked = undoing.corrections.asked(Correction("undo", 0, number, number), NOW)
        with pytest.raises(WentOn):
            corrector.correct(asked, planner.plan(A), other)
        assert undoing.rows == {1: 10}

    def test_batch_in_between(self, undoing: Undoing) -> None:
        """A batch that comes between the plan and the commit is not overwritten: it is planned again."""
        undoing.batch({1: 10})
        number = undoing.batch({1: 11})
        planner = undoing.planner(number)
        plan = planner.plan(A)
        undoing.batch({1: 12})
        corrector = Corrector(undoing.tables, cast(Sessions, None), planner)
        with pytest.raises(WentOn):
            corrector.correct(undoing.corrections.asked(Correction("undo", 0, 1, 1), NOW), plan)
        assert undoing.rows == {1: 12}
        assert undoing.undo(number).version is None


class TestRefused:
    def test_statement(self, undoing: Undoing) -> None:
        """Across a statement nothing is undone, and nothing is written."""
        number = undoing.batch({1: 10})
        undoing.lake.statement("truncate", A)
        undoing.lake.batch_of(1)
        self._check(undoing, number, "followed a statement")

    def test_copy(self, undoing: Undoing) -> None:
        """Nor across a copy."""
        number = undoing.batch({1: 10})
        undoing.batch({1: 11})
        undoing.lake.copy(A, undoing.lake.cursor, undoing.lake.cursor)
        self._check(undoing, number, "reloaded since")

    def test_redo_across_a_copy(self, undoing: Undoing) -> None:
        """Nor does a redo put rows into a table that was copied since, also at the same place."""
        undoing.batch({1: 10})
        undoing.undo(undoing.batch({1: 11}))
        undoing.lake.copy(A, undoing.lake.cursor, undoing.lake.cursor)
        with pytest.raises(LakeError, match="reloaded since"):
            undoing.redo(1)

    def test_keyless(self, undoing: Undoing) -> None:
        """Nor in a table without a key."""
        number = undoing.batch({1: 10}, "shop.keyless")
        self._check(undoing, number, "no primary key", "shop.keyless")

    def test_change_log_alone(self, tmp_path: Path) -> None:
        """Nor where the lake has the change log alone, as with `append`: the log says what the source did."""
        undoing = Undoing(tmp_path)
        undoing.lake = LakeHistory(tmp_path, Random(1), [A], ["shop.l"])
        undoing.tables = undoing.lake.follows
        number = undoing.batch({1: 10}, "shop.l")
        self._check(undoing, number, "change log alone", "shop.l")
        undoing.lake.merge("shop.l")
        number = undoing.batch({2: 20}, "shop.l")
        self._check(undoing, number, "not got all of these changes yet", "shop.l")
        undoing.lake.merge("shop.l")
        assert undoing.undo(number, name="shop.l").plan.part.origin == "log"
        assert undoing.lake.current("shop.l") == {1: 10}

    def test_unknown_table(self, undoing: Undoing) -> None:
        """Nor in a table that the lake does not have."""
        number = undoing.batch({1: 10})
        self._check(undoing, number, "no such table", "shop.never")

    def test_vacuumed(self, undoing: Undoing) -> None:
        """Nor where the files of the versions are gone."""
        undoing.batch({1: 10})
        number = undoing.batch({1: 11})
        undoing.batch({2: 20})
        undoing.lake.vacuum(A)
        self._check(undoing, number, "cannot be compared")

    def _check(self, undoing: Undoing, number: int, why: str, table: str = A) -> None:
        before = undoing.lake.lake.state(undoing.lake.path(table), "")
        with pytest.raises(LakeError, match=why):
            undoing.planner(number).plan(table)
        after = undoing.lake.lake.state(undoing.lake.path(table), "")
        assert (before and before.version) == (after and after.version)
        assert undoing.corrections.tables() == []
