"""GEOMETRY: four bytes of SRID, little-endian, then WKB as it is stored, whatever axis order the SRID has for text.

Where a NOT NULL column was added to existing rows, their values have no bytes: no SRID and empty WKB.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cdc_core.charsets.unicode import Offsets
from cdc_core.compiled.fault import Fault
from cdc_core.compiled.kernel import Bytes
from cdc_core.rows.columns.arrays import fixed, validity, variable
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.strings import texts
from cdc_core.schema.table import Column

_SRID = 4  # bytes; an unsigned number
_TYPE = pa.struct([("srid", pa.int64()), ("wkb", pa.binary())])


def arrow_type(_: Column) -> pa.DataType:
    return _TYPE


def decode(cells: Cells) -> pa.Array:
    return shapes(cells, *texts(cells, cells.column.meta))


def shapes(cells: Cells, raw: Bytes, offsets: Offsets) -> pa.Array:
    """Values joined in `raw`, as Arrow. Raises DecodeError for one that is too short."""
    lengths = np.diff(offsets)
    short = np.flatnonzero((lengths > 0) & (lengths < _SRID))
    if len(short):
        cells.check((Fault.MALFORMED, int(short[0])))
    filled = lengths > 0
    heads = offsets[:-1][filled][:, None] + np.arange(_SRID)
    srids = np.zeros(len(cells), np.int64)
    srids[filled] = raw[heads].view("<u4")[:, 0]
    rest = np.ones(len(raw), bool)
    rest[heads] = False
    ends = offsets - _SRID * np.concatenate([[0], np.cumsum(filled)]).astype(np.int32)
    present = cells.present()
    children = [fixed(pa.int64(), srids, filled.view(np.uint8)), variable(pa.binary(), ends, raw[rest], present)]
    return pa.Array.from_buffers(_TYPE, len(cells), [validity(present)], children=children)
