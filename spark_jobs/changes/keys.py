"""Finds equal keys in Arrow tables, whatever types their columns have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TEXT = 64  # characters of one value that are shown


def key_codes(keys: pa.Table) -> np.ndarray:
    """Returns a number for each key, the same for the same key. NULL is equal to NULL."""
    codes = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        encoded = column.combine_chunks().dictionary_encode("encode")
        values = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * len(encoded.dictionary) + values, return_inverse=True)
    return codes


def is_among(keys: pa.Table, others: pa.Table) -> np.ndarray:
    """Returns, for each of the keys, whether it is among the `others`, which have columns of the same names."""
    if not others.num_rows or not keys.num_rows:
        return np.zeros(keys.num_rows, bool)
    both = pa.concat_tables([keys, others.select(keys.column_names).cast(keys.schema)])
    codes = key_codes(both)
    found: np.ndarray = np.isin(codes[: keys.num_rows], codes[keys.num_rows :])
    return found


def without_keys(rows: pa.Table, left_out: pa.Table | None) -> pa.Table:
    """Returns the rows whose key is not among the ones `left_out`, whose columns are the key's."""
    if left_out is None or not left_out.num_rows:
        return rows
    return rows.filter(pa.array(~is_among(rows.select(left_out.column_names), left_out)))


def key_texts(rows: pa.Table, key: Sequence[str]) -> list[str]:
    """Returns the key of each row for people, such as `id=5, kind=a`."""
    columns = [[f"{name}={_text(value)}" for value in rows.column(name).to_pylist()] for name in key]
    return [", ".join(parts) for parts in zip(*columns, strict=True)]


def plain(rows: pa.Table) -> pa.Table:
    """Returns the rows with plain values in place of dictionaries."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(index, field.name, rows.column(index).cast(field.type.value_type))
    return rows


def joined(rows: pa.Table, others: pa.Table) -> np.ndarray:
    """Returns, for each of `rows`, how often an equal row is among the `others`, which have the same columns."""
    both = key_codes(pa.concat_tables([rows, others.select(rows.column_names).cast(rows.schema)]))
    counts = np.bincount(both[rows.num_rows :], minlength=int(both.max(initial=-1)) + 1)
    found: np.ndarray = counts[both[: rows.num_rows]]
    return found


def has_null(rows: pa.Table) -> np.ndarray:
    """Returns, for each row, whether one of its values is NULL."""
    found = np.zeros(rows.num_rows, bool)
    for column in rows.columns:
        if column.null_count:
            found |= pc.is_null(column).to_numpy()
    return found


def _text(value: object) -> str:
    return (value.hex() if isinstance(value, bytes) else str(value))[:_TEXT]
