"""Random definitions of columns and values for them. All chance comes from the `Random` that is given."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

NAMES = ("id", "v", "w", "x y", "n", "s", "t", "key", "Ä")
_KINDS = (
    "INT", "INT UNSIGNED", "BIGINT", "SMALLINT", "MEDIUMINT", "TINYINT", "BIGINT UNSIGNED", "DECIMAL(8,2)",
    "DECIMAL(10,3)", "DECIMAL(5,0)", "FLOAT", "DOUBLE", "DOUBLE(9,2)", "VARCHAR(20)", "VARCHAR(3)", "VARCHAR(300)",
    "CHAR(5)", "CHAR(20)", "TEXT", "TINYTEXT", "LONGTEXT", "VARBINARY(9)", "VARBINARY(2)", "BINARY(4)", "BINARY(2)",
    "BLOB", "DATE", "DATETIME", "DATETIME(3)", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(6) NULL", "TIME", "TIME(2)",
    "YEAR", "ENUM('x','y')", "ENUM('x','y','z')", "ENUM('y','x')", "SET('p','q','r')", "SET('p','q','r','o')",
    "SET('q','p','r','o')", "BIT(7)", "BIT(12)", "JSON", "POINT", "VARCHAR(20) CHARACTER SET latin1",
    "CHAR(8) CHARACTER SET utf8mb4", "TEXT CHARACTER SET latin1", "VARCHAR(20) COLLATE utf8mb4_bin",
)  # fmt: skip
_LITERALS = {
    "int": ("0", "1", "-7", "42", "127", "300", "2000000000", "NULL", "DEFAULT"),
    "decimal": ("0", "1.5", "-12.345", "9999.99", "NULL", "DEFAULT"),
    "float": ("0", "-0.0", "1.5", "3.14159265358979", "1e10", "NULL", "DEFAULT"),
    "text": ("''", "'a'", "'a '", "'abcdef'", "'Ä'", "'12'", "'it''s'", "NULL", "DEFAULT"),
    "binary": ("''", "'a'", "0x00FF", "0x00", "NULL", "DEFAULT"),
    "date": ("'2024-02-29'", "'1999-12-31'", "NULL", "DEFAULT"),
    "datetime": ("'2024-02-29 12:34:56.789'", "'1999-12-31 23:59:59.999'", "NULL", "DEFAULT"),
    "time": ("'12:34:56.78'", "'-1:02:03'", "NULL", "DEFAULT"),
    "year": ("2024", "1970", "NULL", "DEFAULT"),
    "enum": ("'x'", "'y'", "NULL", "DEFAULT"),
    "set": ("''", "'p'", "'p,r'", "NULL", "DEFAULT"),
    "bit": ("0", "b'101'", "NULL", "DEFAULT"),
    "json": ("'[1, 2]'", "'{\"k\": 1.5}'", "NULL", "DEFAULT"),
    "point": ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-0.5 7)')", "NULL", "DEFAULT"),
}
_SORTS = {
    **dict.fromkeys(("int", "bigint", "smallint", "mediumint", "tinyint"), "int"),
    **dict.fromkeys(("float", "double"), "float"),
    **dict.fromkeys(("varchar", "char", "text", "tinytext", "longtext"), "text"),
    **dict.fromkeys(("varbinary", "binary", "blob"), "binary"),
    **dict.fromkeys(("datetime", "timestamp"), "datetime"),
}
_NO_DEFAULT = ("TEXT", "TINYTEXT", "LONGTEXT", "BLOB", "JSON", "POINT")
_COMPUTED = ("`id` * 2", "`id` + 1", "concat(`id`, 'x')", "`id` % 2 = 0")


@dataclass(frozen=True)
class Column:
    """`kind` is DATA_TYPE of information_schema; `filled`: the server gives the value."""

    name: str
    kind: str
    filled: bool = False


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def definition(rng: Random, like: Column | None = None) -> str:
    """A type and its options; mostly of the same sort as `like`."""
    kinds = [kind for kind in _KINDS if like is not None and _sort(kind) == _SORTS.get(like.kind, like.kind)]
    kind = rng.choice(kinds if kinds and rng.random() < 0.75 else _KINDS)
    if rng.random() < 0.1:
        place = rng.choice(("STORED", "VIRTUAL"))
        return f"{rng.choice(('INT', 'BIGINT', 'VARCHAR(20)'))} AS ({rng.choice(_COMPUTED)}) {place}"
    options = [" NOT NULL" if rng.random() < 0.3 and "NULL" not in kind else ""]
    if rng.random() < 0.4 and not kind.startswith(_NO_DEFAULT):
        options.append(f" DEFAULT {_default(rng, kind)}")
    options.append(" COMMENT 'a ''comment'''" if rng.random() < 0.1 else "")
    return kind + "".join(options)


def literal(rng: Random, column: Column) -> str:
    """A value, which the column may refuse."""
    text = rng.choice(_LITERALS[_SORTS.get(column.kind, column.kind)]) if _known(column.kind) else "NULL"
    if text == "DEFAULT":
        return f"DEFAULT({quote(column.name)})"
    return str(rng.randint(1, 30)) if column.name in ("id", "parent") else text


def _default(rng: Random, kind: str) -> str:
    if _sort(kind) == "datetime" and rng.random() < 0.5:
        digits = kind.partition(" ")[0].partition("(")[2].rstrip(")")
        now = f"CURRENT_TIMESTAMP({digits})" if digits else "CURRENT_TIMESTAMP"
        return now + rng.choice(("", f" ON UPDATE {now}"))
    if _sort(kind) == "int" and rng.random() < 0.15:
        return "(7 + 1)"
    return rng.choice(_LITERALS[_sort(kind)][:-2])


def _known(kind: str) -> bool:
    return kind in _SORTS or kind in _LITERALS


def _sort(kind: str) -> str:
    word = kind.split("(")[0].split()[0].lower()
    return _SORTS.get(word, word)
