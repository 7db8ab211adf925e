"""What Delta's log says of new files: which columns have statistics, those whose statistics delta-rs writes exactly.

It notes the least and the greatest DECIMAL as a number of 64 bits, which has 15 digits. A MERGE, and any query with a
condition, would leave out files that have the row.
"""

from __future__ import annotations

import time
from collections.abc import Collection

import pyarrow as pa
from deltalake import ColumnProperties, WriterProperties
from deltalake.transaction import AddAction

_EXACT_DIGITS = 15


def exact_statistics(schema: pa.Schema, key: Collection[str] = ()) -> WriterProperties:
    """Returns the options to write rows of the schema. Times of a `key` have no statistics either: distant times are
    rounded too."""
    inexact = [field.name for field in schema if _rounds(field.type) or _is_time(field, key)]
    none = ColumnProperties(statistics_enabled="NONE")
    return WriterProperties(column_properties=dict.fromkeys(inexact, none) or None)


def new_file(name: str, size: int, statistics: str) -> AddAction:
    """Returns Delta's entry of a file that was written just now, with its statistics as JSON."""
    return AddAction(name, size, {}, int(time.time() * 1000), True, statistics)


def _rounds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.precision > _EXACT_DIGITS


def _is_time(field: pa.Field, key: Collection[str]) -> bool:
    return field.name in key and bool(pa.types.is_timestamp(field.type))
