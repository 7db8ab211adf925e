"""The statistics of new files in Delta's log: those of Sluice's own writers, and which columns delta-rs writes exactly.

A file has statistics of all its first columns, or the number of its rows alone. If it has some of them, delta-rs takes
every bound that is missing for NULL: a query with a condition on that column finds no row of the file.

delta-rs itself notes the least and the greatest DECIMAL as a number of 64 bits, which has 15 digits. A MERGE, and any
query with a condition, would leave out files that have the row.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from deltalake import ColumnProperties, DeltaTable, WriterProperties
from deltalake.transaction import AddAction

_EXACT_DIGITS = 15
INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
INDEXED, MOST_INDEXED = 32, 256  # first columns with statistics: Delta's default, and the most that is affordable
_LONGEST = 32  # characters of a text's bound
_PARTS = ("min.", "max.", "null_count.")
_GREATEST = "\U0010ffff"
_BOUNDED = (
    pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_boolean, pt.is_date, pt.is_timestamp,
    pt.is_string, pt.is_large_string,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The least and the greatest value of a column in a file, None if all are NULL, and the number of NULLs."""

    low: Any
    high: Any
    nulls: int

    def joined(self, other: ColumnBounds) -> ColumnBounds:
        """Returns the bounds of both files' rows."""
        lows, highs = ([one for one in pair if one is not None] for pair in zip(self.both, other.both, strict=True))
        return ColumnBounds(min(lows, default=None), max(highs, default=None), self.nulls + other.nulls)

    @property
    def both(self) -> tuple[Any, Any]:
        return self.low, self.high


class FileBounds:
    """The bounds of all columns that need them, of one file with these columns, row group by row group."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._found = {field.name: ColumnBounds(None, None, 0) for field in _bounded(schema)}

    def __repr__(self) -> str:
        return f"<FileBounds columns={len(self._found)}>"

    def add(self, group: pa.Table) -> None:
        for name, before in list(self._found.items()):
            column = group.column(name)
            found = pc.min_max(column)
            low, high = (_shortened(_value(found[one])) for one in ("min", "max"))
            if (low is None or high is None) and column.null_count < len(column):
                del self._found[name]
                continue
            bounds = ColumnBounds(low and low[0], high and high[1], column.null_count)
            self._found[name] = before.joined(bounds)

    @property
    def known(self) -> Mapping[str, ColumnBounds]:
        return self._found

    def to_json(self, rows: int) -> str:
        """Returns Delta's JSON of the file's statistics."""
        return statistics(self._schema, rows, self._found)


def statistics(
    schema: Iterable[pa.Field], rows: int, known: Mapping[str, ColumnBounds], columns: int = MOST_INDEXED
) -> str:
    """Returns Delta's JSON of the statistics of a file in a table with these columns (Delta protocol, "Per-file
    Statistics"), as readers look for them if the table has statistics of that many columns, or fewer. It has the number
    of rows alone if the bounds of a column are not known that needs them."""
    fields = list(schema)[:columns]
    texts = dict[str, tuple[str, str]]()
    for field in _bounded(fields):
        found = known.get(field.name)
        texts[field.name] = low, high = (_text(found.low), _text(found.high)) if found else ("", "")
        if found is None or ((not low or not high) and found.nulls != rows):
            return json.dumps({"numRecords": rows})
    # A struct has bounds of its own columns, of which none has to be there.
    structs = {field.name: "{}" for field in fields if pt.is_struct(field.type)}
    parts = (
        ("minValues", {name: low for name, (low, _) in texts.items() if low} | structs),
        ("maxValues", {name: high for name, (_, high) in texts.items() if high} | structs),
        ("nullCount", {name: str(known[name].nulls) for name in texts}),
    )
    return "{" + ", ".join([f'"numRecords": {rows}', *(f'"{part}": {_object(of)}' for part, of in parts)]) + "}"


def files_in_log(table: DeltaTable, *, bounds: bool = True) -> list[dict[str, Any]]:
    """Returns what the table's log has of each file: the rows of `get_add_actions(flatten=True)`, which take a while
    with the `bounds` of all columns."""
    files = pa.table(table.get_add_actions(flatten=True))
    if not bounds:
        files = files.select([one for one in files.column_names if not one.startswith(_PARTS)])
    columns = [_values(column) for column in files.columns]
    return [dict(zip(files.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def known_statistics(schema: Iterable[pa.Field], file: Mapping[str, Any]) -> dict[str, ColumnBounds]:
    """Returns the bounds that a table's log has of a file."""
    found = dict[str, ColumnBounds]()
    for field in _bounded(schema):
        low, high, nulls = (file.get(f"{part}.{field.name}") for part in ("min", "max", "null_count"))
        if nulls is not None:
            found[field.name] = ColumnBounds(low, high, nulls)
    return found


def _bounded(schema: Iterable[pa.Field]) -> list[pa.Field]:
    return [field for field in list(schema)[:MOST_INDEXED] if any(fits(field.type) for fits in _BOUNDED)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_value(one) for one in column]


def _value(found: pa.Scalar) -> Any:
    """Returns the value, None for one that Python lacks: a day of the year 0, for example."""
    try:
        return found.as_py()
    except (OverflowError, ValueError):
        return None


def _shortened(value: Any) -> tuple[Any, Any] | None:
    """Returns a lower and an upper bound of the value, of which a text's are not long."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value, value
    end = _LONGEST
    while end < len(value) and value[end] == _GREATEST:
        end += 1
    return value[:_LONGEST], value[:end] + _GREATEST if end < len(value) else value


def _text(value: Any) -> str:
    """Returns the value in JSON, as Delta's statistics have it; "" for None, and for a number that JSON lacks."""
    match value:
        case None:
            return ""
        case float():
            return repr(value) if math.isfinite(value) else ""
        case Decimal():
            return format(value, "f")
        case datetime():
            utc = "Z" if value.tzinfo else ""
            return json.dumps(value.replace(tzinfo=None).isoformat(timespec="microseconds") + utc)
        case date():
            return json.dumps(value.isoformat())
        case _:
            return json.dumps(value, ensure_ascii=False)  # delta-rs takes an escaped U+20000 and above for another


def _object(texts: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in texts.items()) + "}"


def exact_statistics(
    schema: pa.Schema, key: Collection[str] = (), written: Sequence[Mapping[str, ColumnBounds]] = ()
) -> WriterProperties:
    """Returns the options to write rows of the schema. Times of a `key` have no statistics either: distant times are
    rounded too. `written`: the bounds of all rows that may be written, as far as they are known."""
    inexact = [field.name for field in schema if _rounded(field, written) or _is_time(field, key)]
    none = ColumnProperties(statistics_enabled="NONE")
    return WriterProperties(column_properties=dict.fromkeys(inexact, none) or None)


def exact_statistics_of(rows: pa.Table, table: DeltaTable, key: Collection[str] = ()) -> WriterProperties:
    """Returns the options to merge the rows into the table: few numbers have all the digits that their DECIMAL may
    have."""
    schema = pa.schema(table.schema().to_arrow())
    if not any(_rounds(field.type) for field in schema):
        return exact_statistics(schema, key)
    bounds, nothing = FileBounds(rows.schema), ColumnBounds(None, None, rows.num_rows)
    bounds.add(rows)
    new = dict(bounds.known) | {name: nothing for name in schema.names if name not in rows.column_names}
    return exact_statistics(schema, key, [new, *(known_statistics(schema, file) for file in files_in_log(table))])


def new_file(name: str, size: int, statistics: str) -> AddAction:
    """Returns Delta's entry of a file that was written just now, with its statistics as JSON."""
    return AddAction(name, size, {}, int(time.time() * 1000), True, statistics)


def _rounds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind)) and kind.precision > _EXACT_DIGITS


def _rounded(field: pa.Field, written: Sequence[Mapping[str, ColumnBounds]]) -> bool:
    if not _rounds(field.type):
        return False
    found = [one[field.name] for one in written if field.name in one]
    values = [value for one in found for value in one.both if value is not None]
    known = bool(written) and len(found) == len(written)
    return not known or any(abs(value).scaleb(field.type.scale) >= 10**_EXACT_DIGITS for value in values)


def _is_time(field: pa.Field, key: Collection[str]) -> bool:
    return field.name in key and bool(pa.types.is_timestamp(field.type))
