"""Queries by delta-rs, of tables that are as they should be and of damaged ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from spark_jobs.lake.queries import identifiers, selected, selected_table

ODD = 'a "b"'


def test_rows_of_a_query(tmp_path: Path) -> None:
    """Names may have any characters."""
    write_deltalake(tmp_path, pa.table({ODD: [1, 2], "v": ["x", "y"]}))
    question = f"SELECT {identifiers([ODD])} FROM t WHERE v = 'y'"
    table = DeltaTable(tmp_path)
    assert [batch.to_pydict() for batch in selected(table, "t", question) if batch.num_rows] == [{ODD: [2]}]
    assert selected_table(table, "t", question).to_pydict() == {ODD: [2]}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Its error has a class that those who read tables expect."""
    write_deltalake(tmp_path, pa.table({"v": [1]}))
    (file,) = tmp_path.glob("*.parquet")
    file.write_bytes(b"damaged" * 100)
    with pytest.raises(DeltaError, match="Parquet"):
        list(selected(DeltaTable(tmp_path), "t", "SELECT * FROM t"))
    with pytest.raises(DeltaError, match="Parquet"):
        selected_table(DeltaTable(tmp_path), "t", "SELECT * FROM t")
