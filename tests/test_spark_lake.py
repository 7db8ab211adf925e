"""spark_jobs.lake: paths and states, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.table import TableSchema
from spark_jobs.lake import Lake, app_id, check_owner


def test_names_stay_below_the_root() -> None:
    """A plain name is its folder; one with slashes or dots alone cannot climb out."""
    lake = Lake("/lake/")
    assert lake.path("shop", "order lines") == "/lake/shop/order lines"
    assert lake.path("..", "a/b") == "/lake/%2E%2E/a%2Fb"
    with pytest.raises(TableStopped, match="reserved"):
        lake.path("_sluice", "batches")


def test_the_applied_version_is_read_back(tmp_path: Path) -> None:
    """By app id; no table and no version are told apart."""
    lake, app = Lake(tmp_path), app_id("d", 1, "s.t", 0)
    path = lake.path("s", "t")
    assert lake.state(path, app) is None
    commit = CommitProperties(app_transactions=[Transaction(app, 77)])
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int16())}), commit_properties=commit)
    state = lake.state(path, app)
    assert state is not None
    assert (state.applied, [(c.name, c.type) for c in state.columns]) == (77, [("id", "smallint")])
    other = lake.state(path, app_id("d", 1, "s.t", 1))
    assert other is not None
    assert other.applied is None


def test_a_foreign_table_is_named(tmp_path: Path) -> None:
    """One without our properties, and one of another destination."""
    lake, schema = Lake(tmp_path), TableSchema("s", "t", ())
    path = lake.path("s", "t")
    write_deltalake(path, pa.table({"id": [1]}))
    state = lake.state(path, "x")
    assert state is not None
    with pytest.raises(TableStopped, match="was not made by Sluice"):
        check_owner(state, "d", schema, path)


def test_a_damaged_log_is_a_lake_error(tmp_path: Path) -> None:
    """Its place is the table."""
    lake = Lake(tmp_path)
    path = lake.path("s", "t")
    write_deltalake(path, pa.table({"id": [1]}))
    next((Path(path) / "_delta_log").glob("*.json")).write_text("{broken")
    with pytest.raises(LakeError) as caught:
        lake.state(path, "x")
    assert caught.value.place == path
