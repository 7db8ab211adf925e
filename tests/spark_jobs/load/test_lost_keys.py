"""The keys that left parents, kept with a snapshot; and what a cascade has left of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.errors import LakeError
from spark_jobs.lake.tables import Lake
from spark_jobs.load.lost_keys import LostKeys
from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule, descendants
from spark_jobs.snapshot.source_rows import Left, left_by

BY_ID = ForeignKey(("d", "c"), ("p",), ("d", "p"), ("id",), Rule.CASCADE, Rule.RESTRICT)
BY_CODE = ForeignKey(("d", "c"), ("a", "b"), ("d", "p"), ("x", "y"), Rule.SET_NULL, Rule.CASCADE)


def test_keys_of_each_foreign_key_are_kept(tmp_path: Path) -> None:
    """As often as they are given; also when the parent's columns have another type by then."""
    lost = LostKeys(Lake(tmp_path / "lake"), "shop", "5f1c")
    assert list(lost.tables()) == []
    lost.keep(BY_ID, pa.table({"id": [1, 2]}))
    lost.keep(BY_ID, pa.table({"id": [2, 3]}))
    lost.keep(BY_ID, pa.table({"id": pa.array([4], pa.int32())}))
    lost.keep(BY_ID, pa.table({"id": pa.array([], pa.string())}))
    lost.keep(BY_CODE, pa.table({"x": ["one"], "y": [1]}))
    found: dict[ForeignKey, list[Any]] = {BY_ID: [], BY_CODE: []}
    for key, path in lost.tables():
        found[key] += [tuple(row.values()) for row in lost.lake.open(path).to_pyarrow_table().to_pylist()]
    assert {key: sorted(rows) for key, rows in found.items()} == {
        BY_ID: [(1,), (2,), (2,), (3,), (4,)],
        BY_CODE: [("one", 1)],
    }


def test_a_lake_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """With the place."""
    (tmp_path / "lake").write_text("a file")
    lost = LostKeys(Lake(tmp_path / "lake"), "shop", "5f1c")
    with pytest.raises(LakeError, match="cannot be kept"):
        lost.keep(BY_ID, pa.table({"id": [1]}))


@pytest.mark.parametrize(
    ("rules", "primary_key", "now", "left"),
    [
        ((Rule.CASCADE, Rule.CASCADE), ["id"], (1,), Left.SAME),
        ((Rule.CASCADE, Rule.CASCADE), ["id"], (22,), (22,)),
        ((Rule.CASCADE, Rule.CASCADE), ["id"], None, Left.GONE),
        ((Rule.CASCADE, Rule.CASCADE), ["id", "p"], None, Left.UNKNOWN),
        ((Rule.CASCADE, Rule.RESTRICT), ["id", "p"], None, Left.GONE),
        ((Rule.SET_NULL, Rule.RESTRICT), ["id"], (None,), (None,)),
        ((Rule.SET_NULL, Rule.RESTRICT), ["id"], None, (None,)),
        ((Rule.RESTRICT, Rule.SET_NULL), ["id"], None, Left.SAME),
    ],
)
def test_what_a_cascade_has_left(
    rules: tuple[Rule, Rule], primary_key: list[str], now: tuple[Any, ...] | None, left: Any
) -> None:
    """Of a row that referenced key 1, by what the source has of it now."""
    key = ForeignKey(("d", "c"), ("p",), ("d", "p"), ("id",), *rules)
    assert left_by(key, primary_key, (1,), now) == left


def test_the_tables_below_a_table() -> None:
    """Through others, and itself where it references itself."""
    keys = [
        ForeignKey(("d", child), ("x",), ("d", parent), ("id",), Rule.CASCADE, Rule.RESTRICT)
        for child, parent in (("b", "a"), ("c", "b"), ("tree", "tree"), ("a", "other"))
    ]
    assert descendants(keys, ("d", "a")) == {("d", "b"), ("d", "c")}
    assert descendants(keys, ("d", "tree")) == {("d", "tree")}
    assert descendants(keys, ("d", "c")) == frozenset()
