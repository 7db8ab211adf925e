"""Which change of a column's type leaves every value as it is, in MySQL and in PostgreSQL.

All others are MySQL's own business: it cuts, rounds, pads or renumbers values, as its SQL mode says. Source: MySQL
manual, "ALTER TABLE Statement", "Integer Types", "The CHAR and VARCHAR Types", "The ENUM Type", "Generated Columns".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cdc_core.canal.mirror.postgresql.types import BLOBS, TEXTS, charset_of, is_bytes
from cdc_core.schema.column_text import ColumnParts

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}  # of the longest value
_CAPACITY = {"tinytext": 255, "tinyblob": 255, "text": 65_535, "blob": 65_535, "mediumtext": 1 << 24,
             "mediumblob": 1 << 24, "longtext": 1 << 32, "longblob": 1 << 32}  # fmt: skip
_ROW = 65_535  # bytes: what all columns of a row have at most, but for TEXT and BLOB
_CHARACTER = 4  # bytes of the longest
_SIZED = ("datetime", "timestamp", "time", "bit")
_GENERATED = re.compile(r"\bAS\s*\(", re.IGNORECASE)


def is_generated(definition: str) -> bool:
    return bool(_GENERATED.search(definition))


def reads(definitions: Iterable[str], column: str) -> bool:
    """Whether a generated column may be made of this one."""
    word = re.compile(rf"(?<!\w){re.escape(column)}(?!\w)", re.IGNORECASE)
    return any(is_generated(one) and word.search(one) for one in definitions)


def keeps(old: ColumnParts, new: ColumnParts) -> bool:
    """Whether every value of `old` is a value of `new`, and the same."""
    pair = old.kind, new.kind
    if new.kind == "decimal" and old.kind in (*_BITS, "decimal"):
        return _decimal_keeps(old, new)
    if old.kind in _BITS and new.kind in _BITS:
        return _integer_keeps(old, new)
    if old.kind in ("varbinary", *BLOBS) and new.kind in ("varbinary", *BLOBS):
        return _room(old, new, 1)
    if is_bytes(old) or is_bytes(new):
        return _declared(old) == _declared(new)
    if pair == ("float", "double"):
        return old.sizes == () and new.sizes == () and old.unsigned >= new.unsigned
    if pair == ("date", "datetime"):
        return True
    if old.kind == new.kind and old.kind in _SIZED:
        return _size(old) <= _size(new)
    return _text_keeps(old, new) if _charset_keeps(old, new) else False


def _text_keeps(old: ColumnParts, new: ColumnParts) -> bool:
    if old.kind == new.kind and old.labels and (old.labels, old.collation) == (new.labels, new.collation):
        return True
    if old.kind == new.kind == "enum":
        return set(old.labels) <= set(new.labels) and _differ(new.labels)
    if old.kind == new.kind == "set":
        return [label for label in new.labels if label in old.labels] == list(old.labels) and _differ(new.labels)
    if old.kind in ("char", "varchar", *TEXTS) and new.kind in ("varchar", *TEXTS):
        return _room(old, new, _CHARACTER)
    if old.kind == new.kind == "char":  # of VARCHAR it would lose the spaces at the end
        return _size(old, 1) <= _size(new, 1)
    return _declared(old) == _declared(new)


def _declared(parts: ColumnParts) -> tuple[object, ...]:
    return parts.kind, parts.sizes, parts.labels, parts.unsigned


def _differ(labels: tuple[str, ...]) -> bool:
    """Whether no collation takes two of them for the same."""
    return all(map(str.isascii, labels)) and len(set(map(str.lower, labels))) == len(labels)


def _size(parts: ColumnParts, default: int = 0) -> int:
    return parts.sizes[0] if parts.sizes else default


def _room(old: ColumnParts, new: ColumnParts, unit: int) -> bool:
    """`unit`: bytes of one unit of a declared size."""
    before, after = _CAPACITY.get(old.kind), _CAPACITY.get(new.kind)
    if (before and old.sizes) or (after and new.sizes):  # TEXT(50) is a TINYTEXT or a TEXT
        return _declared(old) == _declared(new)
    if before is None:
        return min(_size(old, 1) * unit, _ROW) <= after if after else _size(old, 1) <= _size(new, 1)
    return after is not None and before <= after


def _charset_keeps(old: ColumnParts, new: ColumnParts) -> bool:
    before, after = charset_of(old), charset_of(new)
    return before == after or (after == "utf8mb4" and new.kind not in TEXTS)


def _integer_keeps(old: ColumnParts, new: ColumnParts) -> bool:
    if old.unsigned == new.unsigned:
        return _BITS[old.kind] <= _BITS[new.kind]
    return old.unsigned and _BITS[old.kind] < _BITS[new.kind]


def _decimal_keeps(old: ColumnParts, new: ColumnParts) -> bool:
    if old.unsigned < new.unsigned:
        return False
    digits, scale = (_DIGITS[old.kind], 0) if old.kind in _DIGITS else _decimal(old)
    room, fraction = _decimal(new)
    return scale <= fraction and digits - scale <= room - fraction


def _decimal(parts: ColumnParts) -> tuple[int, int]:
    return _size(parts, 10), parts.sizes[1] if len(parts.sizes) > 1 else 0
