"""Values that the kernel prints itself, against what the server shows, and rows of every length."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from numba import njit

from cdc_core.canal.entries import text_kernels, values
from cdc_core.canal.entries.encode import Encoder
from cdc_core.canal.entries.options import Options
from cdc_core.compiled.words import SLACK
from cdc_core.errors import TableStopped
from cdc_core.stream.ddl_events import DdlReader
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated, slices_of
from tests.support.binlog_files import Log, capture, image, table_map_body
from tests.support.entries import entries_of, store_of
from tests.support.entries import values as texts_of

DECIMALS = ((5, 0), (9, 9), (10, 9), (12, 2), (18, 9), (20, 10), (38, 18), (65, 30), (65, 0))
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
FRACTIONS = range(7)
SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, *range(60, 75), *range(100, 135), *range(16_300, 16_390, 7), 70_000)


def _number(draw: random.Random, precision: int, scale: int) -> str:
    digits = draw.randrange(10 ** draw.randint(0, precision))
    if draw.random() < 0.3:
        digits -= digits % 10 ** draw.randint(0, scale)
    whole, rest = divmod(digits, 10**scale)
    return f"{draw.choice(('', '-'))}{whole}" + (f".{rest:0{scale}d}" if scale else "")


def _printed(text: str, scale: int) -> str:
    """As Canal's reader has a DECIMAL: without the last group of the fraction where that is 0."""
    rest = scale % 9
    if rest and text.endswith("0" * rest):
        return text[:-rest] + ("0" if rest == scale else "")
    return text


@pytest.mark.integration
def test_numbers_dates_and_texts_are_the_servers(mysql8: MySqlServer) -> None:
    """Random values of each shape, and the ends of each range, inserted and then updated."""
    draw = random.Random(7)
    columns = {f"d{at}": f"DECIMAL({p},{s})" for at, (p, s) in enumerate(DECIMALS)}
    columns |= {f"i{bits}": name for name, bits in INTEGERS.items()}
    columns |= {f"u{bits}": f"{name} UNSIGNED" for name, bits in INTEGERS.items()}
    columns |= {f"t{digits}": f"DATETIME({digits})" for digits in FRACTIONS} | {"day": "DATE", "text": "VARCHAR(300)"}
    rows = []
    for number in range(200):
        row = [_number(draw, p, s) for p, s in DECIMALS]
        for low, high in [(-(1 << b - 1), (1 << b - 1) - 1) for b in INTEGERS.values()]:
            row.append(str(draw.choice((low, high, 0, draw.randint(low, high), draw.randint(-200, 200) % (high + 1)))))
        for bits in INTEGERS.values():
            row.append(str(draw.choice((0, (1 << bits) - 1, 1 << bits - 1, draw.randrange(1 << bits)))))
        day = f"{draw.randint(0, 9999):04d}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
        clock = (
            f"{draw.randrange(24):02d}:{draw.randrange(60):02d}:{draw.randrange(60):02d}.{draw.randrange(10**6):06d}"
        )
        row += [f"'{'0000-00-00' if number == 0 else day} {clock}'" for _ in FRACTIONS] + [f"'{day}'"]
        row.append("'" + "".join(draw.choice("azé漢🙂") for _ in range(draw.randrange(40))) + "'")
        rows.append(f"({number}, {', '.join(row)})")
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    statements = [
        "SET SESSION sql_mode = ''",
        "DROP DATABASE IF EXISTS printed",
        "CREATE DATABASE printed",
        f"CREATE TABLE printed.t (id INT PRIMARY KEY, {declared}) CHARACTER SET utf8mb4",
        f"INSERT INTO printed.t VALUES {', '.join(rows)}",
        "UPDATE printed.t SET i32 = -(id + 1), text = REVERSE(text)",
    ]
    slices, registry = annotated(mysql8, capture(mysql8, *statements))
    entries = entries_of(Encoder(registry, DdlReader(lambda *_: True), Options()).pieces(slices))
    stores = [store_of(one) for one in entries if one.header.tableName == "t"]
    found = [row for store in stores if not store.isDdl for row in store.rowDatas]
    inserted, updated = found[:200], found[200:]
    with mysql8.root() as connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id, {', '.join(f'CAST({name} AS CHAR)' for name in columns)} FROM printed.t ORDER BY id"
        )
        shown = cursor.fetchall()
    scales = {f"d{at}": s for at, (_, s) in enumerate(DECIMALS)}
    for row, update, (key, *texts) in zip(inserted, updated, shown, strict=True):
        expected = dict(zip(columns, texts, strict=True))
        expected |= {name: _printed(expected[name], scale) for name, scale in scales.items()}
        assert texts_of(update.afterColumns) == {"id": str(key)} | expected
        before = texts_of(row.afterColumns)
        assert texts_of(update.beforeColumns) == before
        assert {one.name for one in update.afterColumns if one.updated} == {
            name for name, text in expected.items() if before[name] != text
        }


@pytest.mark.integration
def test_rows_of_every_length(mysql8: MySqlServer) -> None:
    """Lengths around those where the length in front takes a byte more, in one event and in turn."""
    draw = random.Random(3)
    sizes = [draw.choice(SIZES) for _ in range(300)] + [*SIZES, 2_097_100, 2_097_200, 5]
    values_of = ", ".join(f"({at}, REPEAT('x', {size}))" for at, size in enumerate(sizes))
    statements = [
        "DROP DATABASE IF EXISTS lengths",
        "CREATE DATABASE lengths",
        "CREATE TABLE lengths.t (id INT PRIMARY KEY, v MEDIUMTEXT) CHARACTER SET utf8mb4",
        f"INSERT INTO lengths.t VALUES {values_of}",
        "UPDATE lengths.t SET v = CONCAT(v, 'y')",
        "DELETE FROM lengths.t",
    ]
    slices, registry = annotated(mysql8, capture(mysql8, *statements))
    entries = entries_of(Encoder(registry, DdlReader(lambda *_: True), Options()).pieces(slices))
    stores = [store_of(one) for one in entries if one.header.tableName == "t"]
    found = [row for store in stores if not store.isDdl for row in store.rowDatas]
    lengths = [[len(column.value) for column in (*row.beforeColumns, *row.afterColumns)[1::2]] for row in found]
    grown = [size + 1 for size in sizes]
    assert lengths == [[s] for s in sizes] + [list(one) for one in zip(sizes, grown, strict=True)] + [
        [s] for s in grown
    ]


def test_text_that_is_no_utf8_is_an_error() -> None:
    """It names the column and shows the bytes, as for other readers."""
    columns = [("id", 8, b""), ("name", 15, b"\xff\x00")]
    log = Log()
    log.query("BEGIN")
    log.table_map(9, table_map_body("orders", columns, [0]))
    log.rows(30, 9, 2, image(columns, (1, "fine")) + image(columns, (2, b"\x03a\xc3(")))
    log.add(16, (7).to_bytes(8, "little"))
    slices, registry = slices_of(log)
    encoder = Encoder(registry, DdlReader(lambda *_: True), Options())
    with pytest.raises(TableStopped, match="not UTF-8"):
        list(encoder.pieces(slices))


@njit
def _is_utf8(data: Any, at: int, size: int) -> bool:
    return values.is_utf8(data, at, size)


def test_what_is_utf8() -> None:
    """As Python has it: all sequences of three bytes at the edges of the ranges, at every place of a word."""
    edges = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4)
    edges += (0xF5, 0xFF)
    for at, three in enumerate(itertools.product(edges, repeat=3)):
        for more in (b"", b"\x80", b"z"):
            text = b"a" * (at % 9) + bytes(three) + more
            data = np.frombuffer(b"\xc3" * 5 + text + b"\x80" * SLACK, np.uint8)
            try:
                text.decode()
                right = True
            except UnicodeDecodeError:
                right = False
            assert _is_utf8(data, 5, len(text)) == right, text


@pytest.mark.parametrize(
    ("texts", "single"),
    [
        ("1.4E-45 2.8E-45 9.8E-45 4.1E-44 9.9E-44 1.1754944E-38 0.1 2065875.2 146349.12 3.4028235E38 1.0E10", True),
        ("4.9E-324 9.9E-324 2.0E-323 9.9E-323 4.94E-322 2.2250738585072014E-308 0.1 2.0E23 1.0E23", False),
    ],
    ids=["FLOAT", "DOUBLE"],
)
def test_floating_point_is_javas(texts: str, single: bool) -> None:
    """Two digits of a denormal number, and the even one of two texts that are equally near."""
    expected = texts.split()
    values = np.array(expected, np.float32 if single else np.float64).astype(np.float64).view(np.uint64)
    present = np.ones(len(values), np.uint8)
    values.flags.writeable = present.flags.writeable = False
    out, ends = np.empty(30 * len(values), np.uint8), np.empty(len(values) + 1, np.int64)
    text_kernels.print_doubles(values, present, single, out, ends)
    assert [out[a:b].tobytes().decode() for a, b in itertools.pairwise(ends.tolist())] == expected
