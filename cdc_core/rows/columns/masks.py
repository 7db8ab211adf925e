"""What a rule makes of a column's Arrow values: another type, then a mask. NULL stays NULL.

SHA-256 is of the salt's bytes and the value's text: bytes and texts as they are (UTF-8), integers and decimals in
digits, all of a decimal's scale, floating numbers as the shortest text that is read as the same number, BIT(1) as 0 or
1, `2026-01-31` and `2026-01-31 08:30:00` with as many digits of a second as the column has.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from cdc_core.errors import ConfigError, SchemaError
from cdc_core.rows.columns.arrays import variable
from cdc_core.rows.columns.casts import cast, cast_type
from cdc_core.rows.columns.cells import Cells
from cdc_core.rules.functions import plain_decimals
from cdc_core.schema.column_rule import Mask, MaskKind
from cdc_core.schema.table import Column, unsupported

_BYTES = pa.large_binary()
_PLAIN_SCALE = 6  # Arrow prints no decimal of so few places with an exponent
_SECOND = len("2026-01-31 08:30:00")
_REMEDY = "Give the column another mask (`rules` in defs.yaml), or exclude it."


def masked_type(column: Column, kind: pa.DataType) -> pa.DataType:
    """The type of the column's masked values, whose type is `kind`. Raises SchemaError for values that the mask is not
    for."""
    mask = column.mask
    if mask is None or mask.kind is MaskKind.NULL:
        return kind
    if mask.kind is MaskKind.SHA256:
        if pt.is_nested(kind):
            raise unsupported(column, "a vector or a geometry has no text of which the mask sha256 could be", _REMEDY)
        return pa.string()
    if mask.kind is MaskKind.CONSTANT:
        _constant(column, mask, kind)
    elif not (pt.is_string(kind) or pt.is_binary(kind)):
        raise unsupported(column, f"the mask {mask.kind} is for texts and bytes", _REMEDY)
    return kind


def seen_type(column: Column, kind: pa.DataType) -> pa.DataType:
    """The type of what the column's rule makes of its values, whose type is `kind`. Raises SchemaError for values that
    the rule is not for."""
    return masked_type(column, cast_type(column, kind)) if column.rule else kind


def seen(cells: Cells, values: pa.Array) -> pa.Array:
    """What the column's rule makes of the values. Raises DecodeError for a value that its type does not hold,
    ConfigError where a salt is missing."""
    return masked(cells.column, cast(cells, values)) if cells.column.rule else values


def masked(column: Column, values: pa.Array) -> pa.Array:
    """The values behind the column's mask; the same without one. Raises ConfigError where the salt is missing."""
    mask = column.mask
    if mask is None:
        return values
    match mask.kind:
        case MaskKind.NULL:
            return pa.nulls(len(values), values.type)
        case MaskKind.CONSTANT:
            constant = _constant(column, mask, values.type)
            return pc.if_else(values.is_valid(), constant, pa.scalar(None, values.type))
        case MaskKind.TRUNCATE:
            return _sliced(values, 0, mask.length)
        case MaskKind.KEEP_LAST:
            return _sliced(values, -mask.length, None)
        case MaskKind.SHA256:
            return _hashed(column, values, _secret(mask))


def _sliced(values: pa.Array, start: int, stop: int | None) -> pa.Array:
    """Characters of texts, bytes of bytes."""
    if pt.is_string(values.type):
        return pc.utf8_slice_codeunits(values, start, stop)
    return pc.binary_slice(values, start, stop)


def _constant(column: Column, mask: Mask, kind: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(mask.constant).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise unsupported(column, f"the constant {mask.constant!r} is not of its type, {kind}", _REMEDY) from error


def _secret(mask: Mask) -> bytes:
    if mask.salt is None or not mask.salt.secret:
        name = mask.salt.variable if mask.salt else "the salt"
        hint = f"Set the environment variable {name}, and start again."
        raise ConfigError("a salt is missing", place=name, hint=hint)
    return mask.salt.secret


def _hashed(column: Column, values: pa.Array, salt: bytes) -> pa.Array:
    from cdc_core.rows.columns.sha256 import WIDTH, hashes  # compiled, which only this mask pays for

    texts = _text(column, values)
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1] if offsets else _NOTHING
    present = np.ones(len(texts), np.uint8)
    if texts.null_count:
        present = texts.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False)
    digits = hashes(salt, np.frombuffer(data, np.uint8) if data is not None and data.size else _NO_BYTES, starts)
    ends = np.arange(0, WIDTH * (len(texts) + 1), WIDTH, dtype=np.int32)
    return variable(pa.string(), ends, digits, present)


_NOTHING, _NO_BYTES = np.zeros(1, np.int64), np.zeros(1, np.uint8)


def _text(column: Column, values: pa.Array) -> pa.Array:
    """The text of each value, as large_binary."""
    kind = values.type
    if pt.is_string(kind) or pt.is_binary(kind):
        return values.cast(_BYTES)
    if pt.is_decimal(kind) and kind.scale > _PLAIN_SCALE:
        return plain_decimals(values).cast(_BYTES)
    if pt.is_floating(kind):
        values = pc.add(values, pa.scalar(0.0, kind))  # -0.0 is 0.0, as in a key
    if pt.is_timestamp(kind):
        moments = values.cast(pa.timestamp("us", kind.tz)).view(pa.timestamp("us")).cast(pa.string())
        return pc.utf8_slice_codeunits(moments, 0, _SECOND + (column.meta + 1 if column.meta else 0)).cast(_BYTES)
    if pt.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pt.is_nested(kind):
        raise SchemaError(f"values of type {kind} have no text", hint=_REMEDY)
    return values.cast(pa.string()).cast(_BYTES)
