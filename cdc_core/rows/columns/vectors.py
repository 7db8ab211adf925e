"""VECTOR of MySQL 9: floats of 32 bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cdc_core.charsets.unicode import Offsets
from cdc_core.compiled.fault import Fault
from cdc_core.compiled.kernel import Bytes
from cdc_core.rows.columns.arrays import numbers, validity
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.strings import texts
from cdc_core.schema.table import Column

_TYPE = pa.list_(pa.float32())


def arrow_type(_: Column) -> pa.DataType:
    return _TYPE


def decode(cells: Cells) -> pa.Array:
    return lists(cells, *texts(cells, cells.column.meta))


def lists(cells: Cells, raw: Bytes, offsets: Offsets) -> pa.Array:
    """Values joined in `raw`, as Arrow. Raises DecodeError for one that is not whole floats."""
    odd = np.flatnonzero(np.diff(offsets) % 4)
    if len(odd):
        cells.check((Fault.MALFORMED, int(odd[0])))
    buffers = [validity(cells.present()), pa.py_buffer(offsets // 4)]
    return pa.Array.from_buffers(_TYPE, len(cells), buffers, children=[numbers(raw.view("<f4"))])
