"""spark_jobs.lake.fence without Spark: a fence that is lost is put up again, one that another run replaced is not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_jobs.lake import fence as module
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.state import FENCE, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions

ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a table with one row."""
    found = str(tmp_path / "t")
    write_deltalake(found, ROW)
    return found


def run_of(lake: Lake) -> Fence:
    return Fence(lake, Sessions("sc://127.0.0.1:1"))


def entered(lake: Lake, path: str, run: Fence) -> TableState:
    state = lake.state(path, "app")
    assert state is not None
    return run.enter(path, "app", state)


def once_followed_by(patch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Lets something happen right after the next commit of properties."""
    commit = module.set_properties

    def then(table: DeltaTable, properties: dict[str, str], noted: CommitProperties | None) -> None:
        patch.undo()
        commit(table, properties, noted)
        meanwhile()

    patch.setattr(module, "set_properties", then)


def test_a_fence_that_spark_replaced_is_put_up_again(
    lake: Lake, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk, Spark renames its commit over one that came after it had looked. Both its rows and the fence count."""
    late = tmp_path / "late"
    shutil.copytree(path, late)
    write_deltalake(late, ROW, mode="append")
    once_followed_by(monkeypatch, lambda: shutil.copytree(late, path, dirs_exist_ok=True) and None)
    run = run_of(lake)
    state = entered(lake, path, run)
    assert (state.version, run.owns(state)) == (2, True)
    assert DeltaTable(path).to_pyarrow_table().num_rows == 2
    run.check(path)


def test_a_fence_that_another_run_replaced_is_not_put_up_again(
    lake: Lake, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later run has the claim."""
    other, run = run_of(lake), run_of(lake)
    once_followed_by(monkeypatch, lambda: entered(lake, path, other) and None)
    state = entered(lake, path, run)
    assert (state.version, run.owns(state), other.owns(state)) == (2, False, True)
    assert DeltaTable(path).metadata().configuration[FENCE] == other.token
