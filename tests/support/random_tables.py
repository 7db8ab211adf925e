"""Random tables and random changes of their rows, as SQL. All chance comes from the `Random` that is given."""

# ruff: noqa: RUF001
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from random import Random

Literal = Callable[[], str]
_LETTERS = {
    "utf8mb4": "aé漢😀 '",
    "latin1": "aäß€ ~",
    "ascii": "abc ~",
    "cp1251": "aЖя№",
    "koi8r": "aЖя░",
    "latin2": "aąłő",
    "cp1250": "ačřž€",
    "cp866": "aЖя░",
    "hebrew": "aאבת",
    "latin7": "aāčž",
    "tis620": "aกขค",
    "cp932": "a漢字カｶ",
    "ujis": "a漢字カ",
    "gbk": "a汉字",
    "big5": "a漢字",
    "euckr": "a한글",
    "greek": "aαβΩ",
}


@dataclass(frozen=True)
class Table:
    """A definition, and statements that change the rows."""

    name: str
    create: str
    changes: list[str]


def table(rng: Random, name: str, *, json_type: bool) -> Table:
    """A table of `id`, which may be the key, and up to nine other columns."""
    sorts = [s for s in SORTS if json_type or s is not _json]
    columns = [_nullable(rng, *rng.choice(sorts)(rng)) for _ in range(rng.randint(1, 9))]
    declared = "".join(f", c{i} {kind}" for i, (kind, _) in enumerate(columns))
    key = ", PRIMARY KEY (id)" if rng.random() < 0.7 else ""
    literals = [literal for _, literal in columns]
    return Table(name, f"CREATE TABLE {name} (id INT NOT NULL{declared}{key})", list(_changes(rng, name, literals)))


def _nullable(rng: Random, kind: str, literal: Literal) -> tuple[str, Literal]:
    if rng.random() < 0.3:
        return f"{kind} NOT NULL", literal
    return f"{kind} NULL", lambda: "NULL" if rng.random() < 0.2 else literal()


def _changes(rng: Random, name: str, literals: list[Literal]) -> Iterator[str]:
    at = 0
    for _ in range(3):
        rows = [f"({at + i}, {', '.join(literal() for literal in literals)})" for i in range(rng.randint(1, 12))]
        at += len(rows)
        yield f"INSERT INTO {name} VALUES {', '.join(rows)}"
        column = rng.randrange(len(literals))
        yield f"UPDATE {name} SET c{column} = {literals[column]()} WHERE id % 3 = {rng.randrange(3)}"
        yield f"UPDATE {name} SET id = id + 1000 WHERE id = {rng.randrange(at)}"
        yield f"DELETE FROM {name} WHERE id % 5 = {rng.randrange(5)}"


def _integer(rng: Random) -> tuple[str, Literal]:
    kind, bits = rng.choice([("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)])
    if rng.random() < 0.5:
        return f"{kind} UNSIGNED", lambda: str(rng.getrandbits(rng.randint(0, bits)))
    return kind, lambda: str(rng.getrandbits(rng.randint(0, bits - 1)) - rng.choice([0, 1 << bits - 1]))


def _decimal(rng: Random) -> tuple[str, Literal]:
    precision = rng.randint(1, 65)
    scale = rng.randint(0, min(precision, 30))

    def literal() -> str:
        number = rng.randrange(10 ** rng.randint(0, precision))
        digits = str(number).rjust(scale + 1, "0")
        return rng.choice(["", "-"]) + digits[: len(digits) - scale] + "." + digits[len(digits) - scale :]

    return f"DECIMAL({precision},{scale})", literal


def _double(rng: Random) -> tuple[str, Literal]:
    return rng.choice(["FLOAT", "DOUBLE"]), lambda: repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30))


def _bit(rng: Random) -> tuple[str, Literal]:
    bits = rng.randint(1, 64)
    return f"BIT({bits})", lambda: str(rng.getrandbits(bits))


def _year(rng: Random) -> tuple[str, Literal]:
    return "YEAR", lambda: str(rng.choice([0, rng.randint(1901, 2155)]))


def _date(rng: Random) -> tuple[str, Literal]:
    return "DATE", lambda: f"'{date.fromordinal(rng.randint(1, 3652059)).isoformat()}'"


def _moment(rng: Random) -> tuple[str, Literal]:
    kind, digits = rng.choice(["DATETIME", "TIMESTAMP"]), rng.randint(0, 6)
    low, high = (1, 2**31 - 2) if kind == "TIMESTAMP" else (-60_000_000_000, 250_000_000_000)

    def literal() -> str:
        moment = datetime.fromtimestamp(rng.randint(low, high), UTC).replace(microsecond=rng.randrange(10**6))
        return f"'{moment.year:04d}-{moment:%m-%d %H:%M:%S}.{moment.microsecond:06d}'"[: 21 + digits].rstrip("'.") + "'"

    return f"{kind}({digits})", literal


def _time(rng: Random) -> tuple[str, Literal]:
    digits = rng.randint(0, 6)

    def literal() -> str:
        clock = f"{rng.choice(['', '-'])}{rng.randint(0, 837)}:{rng.randint(0, 59)}:{rng.randint(0, 59)}"
        return f"'{clock}" + (f".{rng.randrange(10**digits):0{digits}d}'" if digits else "'")

    return f"TIME({digits})", literal


def _text(rng: Random) -> tuple[str, Literal]:
    charset = rng.choice(list(_LETTERS))
    kind = rng.choice(["CHAR(30)", "VARCHAR(40)", "VARCHAR(400)", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"])

    def literal() -> str:
        text = "".join(rng.choices(_LETTERS[charset], k=rng.randint(0, 30)))
        return f"CONVERT(_utf8mb4 x'{text.encode().hex()}' USING {charset})"

    return f"{kind} CHARACTER SET {charset}", literal


def _binary(rng: Random) -> tuple[str, Literal]:
    kind = rng.choice(["BINARY(20)", "VARBINARY(20)", "VARBINARY(300)", "TINYBLOB", "BLOB", "LONGBLOB"])
    return kind, lambda: f"x'{(rng.randbytes(rng.randint(0, 18)) + bytes(rng.choice([0, 0, 2]))).hex()}'"


def _enum(rng: Random) -> tuple[str, Literal]:
    labels = [f"e{i}ü" for i in range(rng.choice([2, 9, 300]))]
    return f"ENUM({', '.join(map(repr, labels))}) CHARACTER SET utf8mb4", lambda: repr(rng.choice(labels))


def _set(rng: Random) -> tuple[str, Literal]:
    labels = [f"s{i}" for i in range(rng.randint(1, 64))]
    return (
        f"SET({', '.join(map(repr, labels))}) CHARACTER SET utf8mb4",
        lambda: repr(",".join(rng.sample(labels, rng.randint(0, len(labels))))),
    )


def _json(rng: Random) -> tuple[str, Literal]:
    def value(depth: int) -> object:
        match rng.randrange(8 if depth else 6):
            case 0:
                return rng.choice([None, True, False])
            case 1 | 2:
                return rng.getrandbits(rng.randint(1, 63)) - rng.choice([0, 1 << 40])
            case 3:
                return rng.uniform(-1e9, 1e9)
            case 4 | 5:
                return "".join(rng.choices('aé漢"\\\n', k=rng.randint(0, 200)))
            case 6:
                return [value(depth - 1) for _ in range(rng.randint(0, 6))]
        return {f"k{rng.randrange(50)}": value(depth - 1) for _ in range(rng.randint(0, 6))}

    return "JSON", lambda: f"CONVERT(_utf8mb4 x'{json.dumps(value(3)).encode().hex()}' USING utf8mb4)"


SORTS = [_integer, _decimal, _double, _bit, _year, _date, _moment, _time, _text, _binary, _enum, _set, _json]
