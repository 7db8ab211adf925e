"""FLOAT and DOUBLE: the IEEE bytes as they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cdc_core.rows.columns.arrays import fixed
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.integers import gathered
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column


def arrow_type(column: Column) -> pa.DataType:
    return pa.float32() if column.type_code == ColumnType.FLOAT else pa.float64()


def decode(cells: Cells) -> pa.Array:
    if cells.column.type_code == ColumnType.FLOAT:
        return fixed(pa.float32(), gathered(cells, 4).astype(np.int32), cells.present())
    return fixed(pa.float64(), gathered(cells, 8), cells.present())
