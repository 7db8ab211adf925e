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
    """Returns, for each of the keys, whether it is among the `others`, which have columns of the same names: of other
    types too, if a statement changed these in between."""
    if not others.num_rows or not keys.num_rows:
        return np.zeros(keys.num_rows, bool)
    both = pa.concat_tables(alike(keys, others.select(keys.column_names)))
    codes = key_codes(both)
    found: np.ndarray = np.isin(codes[: keys.num_rows], codes[keys.num_rows :])
    return found


def alike(rows: pa.Table, others: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Returns both tables, which have columns of the same names, with columns of types that have the values of both."""
    if rows.schema.equals(others.schema):
        return rows, others
    kinds = pa.schema([(one.name, _common(one.type, others.schema.field(one.name).type)) for one in rows.schema])
    try:
        return rows.cast(kinds), others.cast(kinds)
    except pa.ArrowInvalid:  # a value of one that the other's type has not: as text it equals none of these
        texts = pa.schema([(one.name, pa.large_string()) for one in rows.schema])
        return rows.cast(texts), others.cast(texts)


def _common(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    if kind == other:
        return kind
    exact = [one for one in (kind, other) if pa.types.is_decimal(one)]
    if len(exact) == 1 and any(map(pa.types.is_integer, (kind, other))):
        return pa.decimal256(76, exact[0].scale)
    fields = [pa.schema([("one", one)]) for one in (kind, other)]
    try:
        return pa.unify_schemas(fields, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        binary = (pa.types.is_binary, pa.types.is_large_binary)
        return pa.large_binary() if any(test(one) for test in binary for one in (kind, other)) else pa.large_string()


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
    both = key_codes(pa.concat_tables(alike(rows, others.select(rows.column_names))))
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
