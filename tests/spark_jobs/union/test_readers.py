"""What programs of others read of a union."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.union.publish import publish
from tests.support.readers.cells import READERS, rows_of
from tests.support.readers.environment import read, readers_python

pytestmark = [pytest.mark.integration, pytest.mark.full]
ORDERS = Union("all.orders", r"shop\.orders_(\d+)", ("shop",), "region")
NARROW = pa.schema({"id": pa.int64(), "n": pa.int32(), "f": pa.float32()})
WIDE = pa.schema({"id": pa.int64(), "n": pa.int64(), "f": pa.float64(), "note": pa.string()})


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_sees_whose_a_row_is(reader: str, tmp_path: Path) -> None:
    """And the narrow numbers of a shard in the union's wide columns, and NULL for a column that it lacks."""
    lake = Lake(tmp_path, unions=Unions("eu-1", (ORDERS,)))
    narrow = pa.table({"id": [1], "n": [7], "f": [1.5]}, NARROW)
    wide = pa.table({"id": [1], "n": [1 << 40], "f": [2.5], "note": ["x"]}, WIDE)
    for name, rows in (("orders_1", narrow), ("orders_2", wide)):
        path = lake.path("shop", name)
        noted = {DESTINATION: "eu-1", TABLE: f"shop.{name}"}
        DeltaTable.create(path, rows.schema, configuration=noted, raise_if_key_not_exists=False)
        write_deltalake(path, rows, mode="append")
    publish(lake, ORDERS)
    path = lake.path("all", "orders")
    whole = pa.concat_tables([narrow, wide], promote_options="permissive")
    whole = whole.append_column("region", pa.array(["eu-1", "eu-1"])).append_column("shop", pa.array(["1", "2"]))
    assert read(readers_python(), reader, [path])[path] == {"rows": rows_of(whole)}
