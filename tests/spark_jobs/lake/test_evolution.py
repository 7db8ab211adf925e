"""spark_jobs.lake.evolution: changed definitions. They need no Spark."""

from __future__ import annotations

import pytest

from cdc_core.errors import TableStopped
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.evolution import added_columns, check_key
from spark_jobs.lake.types import LakeColumn

ID, NAME = LakeColumn("id", "bigint"), LakeColumn("name", "string")


def test_a_column_may_come_anywhere() -> None:
    """Added columns are found at any place; moved ones are not a change."""
    new = LakeColumn("new", "int")
    assert added_columns([ID, NAME], [ID, new, NAME], "s.t") == (new,)
    assert added_columns([ID, NAME], [NAME, ID], "s.t") == ()


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ([ID], "'name' .* is gone"),
        ([ID, LakeColumn("title", "string")], "'name' .* was renamed"),
        ([LakeColumn("id", "int"), NAME], "'id' was bigint and is int now"),
    ],
)
def test_any_other_change_stops(new: list[LakeColumn], words: str) -> None:
    """The error has the column, what it was and what it is."""
    with pytest.raises(TableStopped, match=words):
        added_columns([ID, NAME], new, "s.t")


def test_rows_that_come_again_may_lack_columns() -> None:
    """A column that came later keeps its values; one that went later comes back until its DROP comes again."""
    gone = LakeColumn("gone", "int")

    assert added_columns([ID, NAME], [ID], "s.t", again=True) == ()
    assert added_columns([ID], [ID, gone], "s.t", again=True) == (gone,)


@pytest.mark.parametrize("new", [[ID, LakeColumn("title", "string")], [LakeColumn("id", "int"), NAME]])
def test_rows_from_before_a_rename_or_another_type_need_a_copy(new: list[LakeColumn]) -> None:
    """Which column of the lake they belong to, or what they became, is not known."""
    with pytest.raises(CopyNeeded, match=r"repeated rows are from|was bigint and is int"):
        added_columns([ID, NAME], new, "s.t", again=True)


def test_a_changed_key_stops() -> None:
    """The error has the old key and the new one."""
    check_key(["id"], ["id"], "s.t")
    with pytest.raises(TableStopped, match=r"was \(id\) and is \(none\)"):
        check_key(["id"], [], "s.t")
