"""What a task of Spark does with a table of its share."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from cdc_core.client.changes import RowsDoor
from spark_jobs.lake.state import FENCE
from spark_jobs.write.order import Form, Order
from spark_jobs.write.small_table import Unfit, written


@pytest.mark.parametrize("form", [Form.INSERTED, Form.KEYED])
def test_a_table_that_got_deletion_vectors_meanwhile_is_left_alone(tmp_path: Path, form: Form) -> None:
    """By another program, after the run looked at it: delta-rs would write some of them, and lose their rows."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int32())}))
    DeltaTable(path).alter.set_table_properties({FENCE: "token"}, raise_if_not_exists=False)
    DeltaTable(path).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    before = DeltaTable(path).version()
    order = Order(path, "app", 5, "note", "token", form, ("id",), ("id",), (), RowsDoor("grpc://127.0.0.1:1"))
    with pytest.raises(Unfit, match="a feature that delta-rs does not write"):
        written(order)
    assert DeltaTable(path).version() == before
