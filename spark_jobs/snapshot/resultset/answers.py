"""The server's description of the columns that it sends, checked against the table's definition."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cdc_core.charsets.charsets import charset, charset_name
from cdc_core.compiled.kernel import Ints
from cdc_core.errors import SchemaError
from cdc_core.schema.column_type import ColumnType as Type
from cdc_core.schema.table import Column, TableSchema

_FIXED = struct.Struct("<HIBHB2x")  # the end of a column definition: charset, length, type, flags, decimals
_UNSIGNED = 32  # a flag
_WIDTHS: dict[int, int] = {
    Type.TINY: 1, Type.SHORT: 2, Type.YEAR: 2, Type.INT24: 4, Type.LONG: 4, Type.LONGLONG: 8, Type.FLOAT: 4,
    Type.DOUBLE: 8,
}  # fmt: skip
_TEXTS = (
    Type.VARCHAR, Type.VAR_STRING, Type.STRING, Type.TINY_BLOB, Type.BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB,
)  # fmt: skip
_SAME: dict[int, int] = {
    Type.NEWDATE: Type.DATE, Type.TIMESTAMP2: Type.TIMESTAMP, Type.DATETIME2: Type.DATETIME, Type.TIME2: Type.TIME,
    Type.MARIA_BLOB_COMPRESSED: Type.BLOB, Type.MARIA_VARCHAR_COMPRESSED: Type.BLOB, Type.VARCHAR: Type.BLOB,
    Type.VAR_STRING: Type.BLOB, Type.STRING: Type.BLOB, Type.TINY_BLOB: Type.BLOB, Type.MEDIUM_BLOB: Type.BLOB,
    Type.LONG_BLOB: Type.BLOB,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """One column of a result. `charset` is a collation id."""

    type_code: int
    charset: int
    unsigned: bool
    decimals: int

    @classmethod
    def parse(cls, definition: bytes) -> Answer:
        charset, _, code, flags, decimals = _FIXED.unpack(definition[-_FIXED.size :])
        return cls(code, charset, bool(flags & _UNSIGNED), decimals)

    @property
    def width(self) -> int:
        """Bytes of a value; 0 where its length stands before it."""
        return _WIDTHS.get(self.type_code, 0)


def widths(schema: TableSchema, answers: Sequence[Answer]) -> Ints:
    """Returns the width of each column's cells. Raises SchemaError if the answers do not fit the definition."""
    for column, answer in zip(schema.selected, answers, strict=True):
        if not _fits(column, answer):
            raise SchemaError(
                f"the server sends column {column.name} as another type ({answer.type_code}) than its definition has",
                place=schema.name,
                hint="The table was altered meanwhile: take its snapshot again.",
            )
    return np.array([answer.width for answer in answers], np.int32)


def _fits(column: Column, answer: Answer) -> bool:
    code, sent = column.type_code, answer.type_code
    if code in (Type.ENUM, Type.SET):
        return sent in (Type.LONG, Type.LONGLONG)
    if _same(sent) != _same(code):
        return False
    if code in (Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG):
        return answer.unsigned == column.unsigned
    if code == Type.NEWDECIMAL:
        return answer.decimals == column.meta & 0xFF
    if sent in _TEXTS and not column.is_address:
        return charset_name(answer.charset) in ("", charset(column).name)
    return True


def _same(code: int) -> int:
    """One code for the types whose values are alike."""
    return _SAME.get(code, code)
