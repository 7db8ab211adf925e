"""A matrix of column types: what to write in SQL, what the server then selects, what the decoder makes of its binlog.

Each case is a table of its own with a nullable and a NOT NULL column of the type. Both sides are compared as text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from cdc_core.binlog.annotate import Annotator
from cdc_core.binlog.columns import decode
from cdc_core.binlog.columns.narrow import NARROW
from cdc_core.binlog.gather import gather
from cdc_core.binlog.rows import walk
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.source.block import BlockSlice
from orchestration.stack.mysql import MySqlServer
from tests.binlog_files import read_binlog

TEXT = "HEX(CONVERT({} USING utf8mb4))"
PLAIN = "CAST({} AS CHAR)"


@dataclass(frozen=True)
class Case:
    """A type as declared, values as SQL literals, how the server is asked for its text and how ours is made."""

    name: str
    declared: str
    values: list[str]
    shown: Callable[[Any], str] = str
    asked: str = PLAIN
    kind: pa.DataType | None = None


def decoded(server: MySqlServer, journal: str, database: str, **options: Any) -> dict[str, pa.Table]:
    """All inserted rows of a database's tables in one binlog file, by table."""
    block = read_binlog(Path(server.log).parent / "data" / journal)
    registry = SchemaRegistry()
    Annotator(registry, lambda schema: schema, lambda name, _: name == database).annotate(
        journal, block.data, block.index
    )
    tables: dict[str, list[pa.RecordBatch]] = {}
    for number in range(len(registry)):
        schema: TableSchema = registry.get(number)
        for chunk in gather([BlockSlice(block, 0, len(block.index))], [number]):
            images = walk(chunk, registry.layout(number))
            batch = decode(schema, chunk.data, images.starts, **options)
            batch.validate(full=True)
            tables.setdefault(schema.table, []).append(batch)
    return {name: pa.Table.from_batches(batches) for name, batches in tables.items()}


def written(server: MySqlServer, database: str, cases: list[Case]) -> str:
    """Writes all cases' tables; answers the binlog file that they are in."""
    with server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("SET SESSION time_zone = '+00:00'")
        for case in cases:
            cursor.execute(
                f"CREATE TABLE `{case.name}` (id INT PRIMARY KEY, a {case.declared} NULL, b {case.declared} NOT NULL)"
            )
            rows = [f"({i}, {value}, {value})" for i, value in enumerate(case.values)]
            rows.append(f"({len(rows)}, NULL, {case.values[0]})")
            for low in range(0, len(rows), 500):
                cursor.execute(f"INSERT INTO `{case.name}` VALUES {', '.join(rows[low : low + 500])}")
    return server.position()[0]


def selected(server: MySqlServer, database: str, case: Case) -> list[tuple[Any, ...]]:
    """What the server says that the table holds."""
    with server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        columns = ", ".join(case.asked.format(name) for name in "ab")
        cursor.execute(f"SELECT id, {columns} FROM `{case.name}` ORDER BY id")
        return list(cursor.fetchall())


def rows_of(table: pa.Table, case: Case) -> list[tuple[Any, ...]]:
    """What the decoder says, in the same words."""
    a, b = ([None if value is None else case.shown(value) for value in table[name].to_pylist()] for name in "ab")
    return list(zip(table["id"].to_pylist(), a, b, strict=True))


def hexadecimal(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def day(value: date) -> str:
    return value.isoformat()


def moment(digits: int) -> Callable[[datetime], str]:
    """A date and time with so many digits of a fraction."""

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
        values = [low, low + 1, -1, 0, 1, high - 1, high, *(rng.randint(low, high) for _ in range(200))]
        yield Case(name, name, [str(v) for v in values])
        values = [0, 1, high, high + 1, 2 * high, 2 * high + 1, *(rng.randint(0, 2 * high + 1) for _ in range(200))]
        yield Case(f"{name}_unsigned", f"{name} UNSIGNED", [str(v) for v in values])
    yield Case("zerofill", "INT(6) ZEROFILL", ["1", "42", "4294967295"], asked="{}+0")
    yield Case("year", "YEAR", ["0", "1901", "1970", "2000", "2155"], lambda v: f"{v:04d}")
    for bits in (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64):
        top = (1 << bits) - 1
        values = [0, 1, top, top >> 1, *(rng.randint(0, top) for _ in range(50))]
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


def floats(rng: random.Random) -> Iterator[Case]:
    edges = ["0", "-0e0", "1", "-1.5", "3.4028234e38", "-3.4028234e38", "1.17549435e-38", "1.4e-45", "0.1"]
    values = edges + [repr(rng.uniform(-1e6, 1e6)) for _ in range(200)]
    yield Case("float", "FLOAT", values, lambda v: repr(float(v)), "{}*1e0")
    yield Case("float_7_3", "FLOAT(7,3)", ["0", "1.5", "-9999.999", "0.001"], lambda v: repr(float(v)), "{}*1e0")
    edges += ["1.7976931348623157e308", "-1.7976931348623157e308", "2.2250738585072014e-308", "1e-300"]
    values = edges + [repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300)) for _ in range(200)]
    yield Case("double", "DOUBLE", values, lambda v: repr(float(v)), "{}*1e0")


def temporals(rng: random.Random) -> Iterator[Case]:
    days = ["0001-01-01", "1000-01-01", "1582-10-15", "1900-02-28", "1969-12-31", "1970-01-01", "2000-02-29"]
    days += ["9999-12-31", *(date.fromordinal(rng.randint(366, 3652059)).isoformat() for _ in range(200))]
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


def _times(fractions: list[str]) -> Iterator[str]:
    for sign in ("", "-"):
        yield f"{sign}838:59:59"
        for clock in ("00:00:00", "00:00:01", "01:02:03", "23:59:59", "99:00:00", "838:59:58"):
            yield from (f"{sign}{clock}{fraction}" for fraction in fractions)


def _clock(rng: random.Random) -> str:
    return f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"


def strings(rng: random.Random, charsets: dict[str, str]) -> Iterator[Case]:
    """`charsets`: a sample of characters by the name of each character set."""
    for name, sample in charsets.items():
        texts = [
            "",
            "a",
            "  lead",
            sample[:20],
            *("".join(rng.choices(sample, k=rng.randint(0, 60))) for _ in range(60)),
        ]
        values = [f"CONVERT(_utf8mb4 x'{text.encode().hex()}' USING {name})" for text in texts]
        for declared in ("CHAR(60)", "VARCHAR(60)", "VARCHAR(300)", "TINYTEXT", "TEXT", "LONGTEXT"):
            table = f"{declared.lower().replace('(', '_').replace(')', '')}_{name}"
            yield Case(table, f"{declared} CHARACTER SET {name}", values, hexadecimal, TEXT)
    for name in NARROW:
        values = [f"_{name} x'{byte:02x}'" for byte in range(256)]
        yield Case(f"every_{name}", f"VARCHAR(2) CHARACTER SET {name}", values, hexadecimal, TEXT)
    yield Case("char_255", "CHAR(255) CHARACTER SET utf8mb4", ["''", "'é'", "REPEAT('😀', 255)"], hexadecimal, TEXT)
    blobs = ["x''", "x'00'", "x'0000'", "x'61'", "x'6100'", "x'ff00ff'", "x'2020'"]
    for declared in (
        "BINARY(1)",
        "BINARY(8)",
        "BINARY(255)",
        "VARBINARY(8)",
        "VARBINARY(300)",
        "TINYBLOB",
        "BLOB",
        "MEDIUMBLOB",
    ):
        table = declared.lower().replace("(", "_").replace(")", "")
        usual = blobs[:2] if declared == "BINARY(1)" else blobs
        yield Case(table, declared, usual, hexadecimal, "HEX({})")
    yield Case("large", "LONGTEXT", ["REPEAT('é', 40000)", "REPEAT('x', 70000)"], hexadecimal, TEXT)


def enums(rng: random.Random) -> Iterator[Case]:
    values = ["'small'", "'medium'", "'größe'", "'a,b'", "'none'"]  # the last is no label: it becomes the empty string
    yield Case("enum", "ENUM('small','medium','größe','a,b')", values, hexadecimal, TEXT)
    many = ",".join(f"'e{i}'" for i in range(300))
    yield Case("enum_wide", f"ENUM({many})", ["'e0'", "'e254'", "'e255'", "'e299'"], hexadecimal, TEXT)
    yield Case("enum_latin1", "ENUM('é','ü') CHARACTER SET latin1", ["'é'", "'ü'"], hexadecimal, TEXT)
    yield Case("set", "SET('a','b','ç','d')", ["''", "'a'", "'a,ç'", "'d,a'", "'a,b,ç,d'"], hexadecimal, TEXT)
    for size in (8, 9, 17, 25, 64):
        labels = ",".join(f"'s{i}'" for i in range(size))
        chosen = [rng.sample(range(size), k=rng.randint(0, size)) for _ in range(20)] + [[size - 1], list(range(size))]
        values = ["'" + ",".join(f"s{i}" for i in some) + "'" for some in chosen]
        yield Case(f"set{size}", f"SET({labels})", values, hexadecimal, TEXT)
