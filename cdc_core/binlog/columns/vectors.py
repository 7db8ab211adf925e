"""VECTOR of MySQL 9: its bytes are the numbers themselves, 32 bits each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cdc_core.binlog.columns.kernel import MALFORMED, Cells, numbers, validity
from cdc_core.binlog.columns.strings import texts
from cdc_core.schema.table import Column

_TYPE = pa.list_(pa.float32())


def arrow_type(_: Column) -> pa.DataType:
    return _TYPE


def decode(cells: Cells) -> pa.Array:
    raw, offsets = texts(cells, cells.column.meta)
    odd = np.flatnonzero(np.diff(offsets) % 4)
    if len(odd):
        cells.check((MALFORMED, int(odd[0])))
    buffers = [validity(cells.present()), pa.py_buffer(offsets // 4)]
    return pa.Array.from_buffers(_TYPE, len(cells), buffers, children=[numbers(raw.view("<f4"))])
