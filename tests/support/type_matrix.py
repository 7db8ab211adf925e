"""A matrix of column types: what to write in SQL, and what the server and the decoder must then agree on.

Each case is a nullable and a NOT NULL column of the type in a shared table. Both sides are compared as text.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

TEXT = "HEX(CONVERT({} USING utf8mb4))"
PLAIN = "CAST({} AS CHAR)"


@dataclass(frozen=True)
class Case:
    """A type as declared; values as SQL literals; the expression that selects its text; and how both answers become
    comparable. `alone`: needs a table of its own."""

    name: str
    declared: str
    values: list[str]
    shown: Callable[[Any], str] = str
    asked: str = PLAIN
    told: Callable[[Any], str] = str
    alone: bool = False


def hexadecimal(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def day(value: date) -> str:
    return value.isoformat()


def moment(digits: int) -> Callable[[datetime], str]:
    """A date and time with so many fractional digits."""

    def text(value: datetime) -> str:
        if value.tzinfo:
            value = value.astimezone(UTC)
        return value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0") + (
            f".{value.microsecond:06d}"[: digits + 1] if digits else ""
        )

    return text


def span(digits: int) -> Callable[[int], str]:
    """Microseconds as MySQL prints TIME."""

    def text(value: int) -> str:
        seconds, micros = divmod(abs(value), 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return ("-" if value < 0 else "") + clock + (f".{micros:06d}"[: digits + 1] if digits else "")

    return text


def integers(rng: random.Random) -> Iterator[Case]:
    for name, bits in {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}.items():
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        values = [low, low + 1, -1, 0, 1, high - 1, high, *(rng.randint(low, high) for _ in range(80))]
        yield Case(name, name, [str(v) for v in values])
        values = [0, 1, high, high + 1, 2 * high, 2 * high + 1, *(rng.randint(0, 2 * high + 1) for _ in range(80))]
        yield Case(f"{name}_unsigned", f"{name} UNSIGNED", [str(v) for v in values])
    yield Case("zerofill", "INT(6) ZEROFILL", ["1", "42", "4294967295"], asked="{}+0")
    yield Case("year", "YEAR", ["0", "1901", "1970", "2000", "2155"], lambda v: f"{v:04d}")
    for bits in range(1, 65):
        top = (1 << bits) - 1
        values = [0, 1, top, top >> 1, *(rng.randint(0, top) for _ in range(12))]
        yield Case(f"bit{bits}", f"BIT({bits})", [str(v) for v in values], lambda v: str(int(v)), "CAST({}+0 AS CHAR)")


def decimals(rng: random.Random) -> Iterator[Case]:
    shapes = [(1, 0), (1, 1), (5, 2), (9, 0), (9, 9), (10, 0), (12, 2), (18, 9), (19, 4), (20, 20), (27, 13), (30, 30)]
    shapes += [(36, 18), (37, 1), (38, 0), (38, 19), (38, 30), (39, 0), (39, 30), (50, 10), (65, 0), (65, 30)]
    for precision, scale in shapes:
        top = 10**precision - 1
        numbers = [0, 1, -1, top, -top, *(rng.randint(-top, top) for _ in range(60))]
        numbers += [rng.randint(-(10 ** rng.randint(1, precision)), 10 ** rng.randint(1, precision)) for _ in range(60)]
        values = [f"{'-' if n < 0 else ''}{_scaled(min(abs(n), top), scale)}" for n in numbers]
        yield Case(f"decimal_{precision}_{scale}", f"DECIMAL({precision},{scale})", values, _decimal)
    yield Case("decimal_unsigned", "DECIMAL(10,3) UNSIGNED", ["0", "0.001", "9999999.999"], _decimal)


def _scaled(number: int, scale: int) -> str:
    digits = str(number).rjust(scale + 1, "0")
    return f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits


def _decimal(value: Decimal | str) -> str:
    return value if isinstance(value, str) else f"{value:f}"


def _float(value: float) -> str:
    return repr(float(value))


def floats(rng: random.Random) -> Iterator[Case]:
    edges = ["0", "-0e0", "1", "-1.5", "3.4028234e38", "-3.4028234e38", "1.17549435e-38", "1.4e-45", "0.1"]
    values = edges + [repr(rng.uniform(-1e6, 1e6)) for _ in range(200)]
    yield Case("float", "FLOAT", values, _float, "{}*1e0", _float)
    yield Case("float_7_3", "FLOAT(7,3)", ["0", "1.5", "-9999.999", "0.001"], _float, "{}*1e0", _float)
    edges += ["1.7976931348623157e308", "-1.7976931348623157e308", "2.2250738585072014e-308", "1e-300"]
    values = edges + [repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300)) for _ in range(200)]
    yield Case("double", "DOUBLE", values, _float, "{}*1e0", _float)


def temporals(rng: random.Random) -> Iterator[Case]:
    days = ["0001-01-01", "1000-01-01", "1582-10-15", "1900-02-28", "1969-12-31", "1970-01-01", "2000-02-29"]
    days += ["9999-12-31", *(date.fromordinal(rng.randint(366, 3652059)).isoformat() for _ in range(80))]
    yield Case("date", "DATE", [f"'{d}'" for d in days], day)
    for digits in range(7):
        fractions = [f".{rng.randrange(10**6):06d}"[: digits + 1] for _ in range(8)] if digits else []
        fractions += ["", ".999999"[: digits + 1]] if digits else [""]
        yield Case(f"time{digits}", f"TIME({digits})", [f"'{t}'" for t in _times(fractions)], span(digits))
        moments = [f"{d} {_clock(rng)}{rng.choice(fractions)}" for d in days]
        moments += ["1000-01-01 00:00:00", "9999-12-31 23:59:59", "1970-01-01 00:00:00"]
        yield Case(f"datetime{digits}", f"DATETIME({digits})", [f"'{m}'" for m in moments], moment(digits))
        seconds = [1, 2, 86399, 86400, 2**31 - 1, *(rng.randint(1, 2**31 - 1) for _ in range(100))]
        stamps = [f"{datetime.fromtimestamp(s, UTC):%Y-%m-%d %H:%M:%S}{rng.choice(fractions)}" for s in seconds]
        yield Case(f"timestamp{digits}", f"TIMESTAMP({digits})", [f"'{s}'" for s in stamps], moment(digits))


def zero_dates(rng: random.Random) -> Iterator[Case]:
    """Zero and partial dates, shown as text."""
    days = ["0000-00-00", "2024-00-00", "2024-01-00", "0000-01-01", "2023-02-31", "2024-02-29", "9999-12-31"]
    yield Case("date", "DATE", [f"'{d}'" for d in days])
    for digits in range(7):
        clocks = ["00:00:00" + (".0" if digits else ""), _clock(rng) + f".{rng.randrange(10**6):06d}"[: digits + 1]]
        values = [f"'{d} {clock}'" for d in days[1:] for clock in clocks] + ["'0000-00-00 00:00:00'"]
        yield Case(f"datetime({digits})", f"DATETIME({digits})", values)
        stamps = ["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", f"'2024-02-29 {clocks[1]}'"]
        yield Case(f"timestamp({digits})", f"TIMESTAMP({digits})", stamps)


def _times(fractions: list[str]) -> Iterator[str]:
    for sign in ("", "-"):
        yield f"{sign}838:59:59"
        for clock in ("00:00:00", "00:00:01", "01:02:03", "23:59:59", "99:00:00", "838:59:58"):
            yield from (f"{sign}{clock}{fraction}" for fraction in fractions)


def _clock(rng: random.Random) -> str:
    return f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"


def blobs(rng: random.Random) -> Iterator[Case]:
    few = ["x''", "x'00'", "x'0000'", "x'61'", "x'6100'", "x'ff00ff'", "x'2020'"]
    for declared in ("BINARY(1)", "BINARY(8)", "BINARY(255)", "VARBINARY(8)", "VARBINARY(300)", "TINYBLOB", "BLOB"):
        yield Case(declared, declared, few[:2] if declared == "BINARY(1)" else few, hexadecimal, "HEX({})")
    many = [f"x'{rng.randbytes(rng.randint(0, 300)).hex()}'" for _ in range(50)]
    for declared in ("MEDIUMBLOB", "LONGBLOB"):
        yield Case(declared, declared, few + many, hexadecimal, "HEX({})")
    yield Case("char 255", "CHAR(255) CHARACTER SET utf8mb4", ["''", "'é'", "REPEAT('😀', 255)"], hexadecimal, TEXT)
    yield Case("large", "LONGTEXT", ["REPEAT('é', 40000)", "REPEAT('x', 70000)"], hexadecimal, TEXT, alone=True)


def enums(rng: random.Random) -> Iterator[Case]:
    values = ["'small'", "'medium'", "'größe'", "'a,b'", "'none'"]  # the last is no label: it becomes the empty string
    yield Case("enum", "ENUM('small','medium','größe','a,b')", values, hexadecimal, TEXT)
    many = ",".join(f"'e{i}'" for i in range(300))
    yield Case("enum_wide", f"ENUM({many})", ["'e0'", "'e254'", "'e255'", "'e299'"], hexadecimal, TEXT)
    yield Case("enum_latin1", "ENUM('é','ü') CHARACTER SET latin1", ["'é'", "'ü'"], hexadecimal, TEXT)
    yield Case("set", "SET('a','b','ç','d')", ["''", "'a'", "'a,ç'", "'d,a'", "'a,b,ç,d'"], hexadecimal, TEXT)
    yield Case("set empty", "SET('','b','c')", ["0", "1", "2", "3", "6", "7"], hexadecimal, TEXT)
    for size in (8, 9, 17, 25, 64):
        labels = ",".join(f"'s{i}'" for i in range(size))
        chosen = [rng.sample(range(size), k=rng.randint(0, size)) for _ in range(20)] + [[size - 1], list(range(size))]
        values = ["'" + ",".join(f"s{i}" for i in some) + "'" for some in chosen]
        yield Case(f"set{size}", f"SET({labels})", values, hexadecimal, TEXT)


_SHAPES = (
    "POINT(1 2)", "POINT(-90 45.5)", "LINESTRING(0 0,1 1,2 0)", "POLYGON((0 0,0 5,5 5,0 0),(1 2,1 3,2 3,1 2))",
    "MULTIPOINT(0 0,1 1)", "MULTILINESTRING((0 0,1 1),(2 2,3 3))", "MULTIPOLYGON(((0 0,0 1,1 1,0 0)))",
    "GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))",
)  # fmt: skip


def shapes(rng: random.Random) -> Iterator[Case]:
    """Every kind of geometry: without an SRID, with one, and with one whose text has latitude first."""
    values = [f"ST_GeomFromText('{shape}', {srid})" for shape in _SHAPES for srid in (0, 3857, 4326)]
    values += [f"ST_GeomFromText('POINT({rng.uniform(-80, 80)} {rng.uniform(-80, 80)})', 4326)" for _ in range(20)]
    yield Case("geometry", "GEOMETRY", values, _shape, "HEX({})")
    yield Case("point", "POINT", [value for value in values if "'POINT" in value], _shape, "HEX({})")
    yield Case("polygon", "POLYGON", [value for value in values if "'POLYGON" in value], _shape, "HEX({})")


def _shape(value: dict[str, Any]) -> str:
    return hexadecimal(struct.pack("<I", value["srid"]) + value["wkb"])


def vectors(rng: random.Random) -> Iterator[Case]:
    """VECTOR of MySQL 9."""
    for size in (1, 3, 2048):
        lists = [[0.0, -1.5, 3e38, 1e-30, *(rng.uniform(-9, 9) for _ in range(size))][:size] for _ in range(10)]
        values = [f"TO_VECTOR('{json.dumps(numbers)}')" for numbers in lists]
        yield Case(f"vector{size}", f"VECTOR({size})", values, _vector, "HEX({})")


def _vector(value: list[float]) -> str:
    return hexadecimal(struct.pack(f"<{len(value)}f", *value))


def documents(rng: random.Random) -> Iterator[Case]:
    """JSON. Most documents are in tests/cdc_core/rows/test_json_binary.py."""
    values = ["'null'", "'[]'", '\'{"b": 1.50, "a": [true, "é"], "c": {}}\'', f"'{json.dumps(rng.random())}'"]
    yield Case("json", "JSON", values)


def mariadb(rng: random.Random) -> Iterator[Case]:
    """UUID, INET4, INET6 and COMPRESSED columns of MariaDB."""
    digits = [f"{rng.getrandbits(128):032x}" for _ in range(100)]
    uuids = [f"'{d[:12]}{rng.randint(1, 7)}{d[13:16]}{rng.choice('89ab')}{d[17:]}'" for d in digits]
    yield Case("uuid", "UUID", [*uuids, f"'{'0' * 32}'", f"'{'f' * 32}'", "'123e4567-e89b-12d3-a456-426655440000'"])
    inet4 = ["0.0.0.0", "255.255.255.255", "10.0.0.1", *(".".join(map(str, rng.randbytes(4))) for _ in range(50))]
    yield Case("inet4", "INET4", [f"'{address}'" for address in inet4])
    groups = [[rng.choice((0, 0, 0, 1, 0xFFFF, rng.getrandbits(16))) for _ in range(8)] for _ in range(300)]
    inet6 = ["::", "::1", "::1.2.3.4", "::ffff:1.2.3.4", "::ffff", "::1:2:3", "1::", "1:0:2:3:4:5:6:7", "2001:db8::ff"]
    yield Case("inet6", "INET6", [f"'{a}'" for a in (*inet6, *(":".join(f"{g:x}" for g in some) for some in groups))])
    texts = [
        "''",
        "'a'",
        "REPEAT('é', 60)",
        "REPEAT('ab', 100)",
        *(f"HEX(x'{rng.randbytes(120).hex()}')" for _ in "ab"),
    ]
    for declared in ("VARCHAR(254)", "VARCHAR(255)", "VARCHAR(256)", "VARCHAR(1000)", "TINYTEXT", "TEXT", "LONGTEXT"):
        for charset in ("utf8mb4", "latin1", "utf16"):
            if (declared, charset) != ("TINYTEXT", "utf16"):
                kind = f"{declared} CHARACTER SET {charset} COMPRESSED"
                yield Case(kind, kind, texts, hexadecimal, TEXT)
    for declared in ("VARBINARY(255)", "BLOB", "MEDIUMBLOB"):
        yield Case(declared, f"{declared} COMPRESSED", ["x''", "x'00'", "REPEAT('x', 255)"], hexadecimal, "HEX({})")
    yield Case("long", "LONGTEXT COMPRESSED", ["REPEAT('long ', 40000)"], hexadecimal, TEXT, alone=True)


FAMILIES: dict[str, Callable[[random.Random], Iterable[Case]]] = {
    "integers": integers,
    "decimals": decimals,
    "floats": floats,
    "temporals": temporals,
    "blobs": blobs,
    "enums": enums,
    "shapes": shapes,
    "documents": documents,
}
OWN = {"mysql9": {"vectors": vectors}, "mariadb": {"mariadb": mariadb}}
