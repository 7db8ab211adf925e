"""Binary JSON against `CAST(j AS CHAR)` of the server, and against damage."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.errors import DecodeError
from cdc_core.rows.columns.batch import decode
from cdc_core.schema.table import Column, TableSchema
from orchestration.stack.mysql.server import MySqlServer
from tests.support.json_fuzz import encoded
from tests.support.matrix_runs import decoded

_SCHEMA = TableSchema("shop", "docs", (Column("j", 245, 4),))
_TEXT = 'abc "\\/\b\f\n\r\t\u0001\u001f\u007fé漢😀\u2028'
_BITS = (7, 8, 15, 16, 31, 32, 63)
_EDGES = [0, 1, -1, 2**64 - 1, *(2**n for n in _BITS), *(2**n - 1 for n in _BITS), *(-(2**n) for n in _BITS)]
_EDGES += [-(2**n) - 1 for n in _BITS[:-1]]
_EDGES += [0.0, -0.0, 1.0, 1e14, 1e15, 1e16, 1e-14, 1e-15, 1e-16, 5e-324, 1.7976931348623157e308]
_OPAQUE = (
    "CAST('1.50' AS DECIMAL(10,2))",
    "CAST('-0.5' AS DECIMAL(65,30))",
    "CAST(0 AS DECIMAL(4,0))",
    "CAST('-12345678901234567890.123' AS DECIMAL(30,3))",
    "DATE'2020-02-29'",
    "TIME'-10:11:12.5'",
    "TIME'00:00:00'",
    "TIMESTAMP'2020-01-02 03:04:05.678'",
    "CAST('9999-12-31 23:59:59' AS DATETIME)",
    "CAST('' AS BINARY)",
    "x'00ff'",
    "CAST(REPEAT('x', 57) AS BINARY)",
    "CAST(REPEAT('x', 58) AS BINARY)",
    "CAST(REPEAT('xyz', 300) AS BINARY)",
    "b'1010'",
    "TRUE",
    "NULL",
    "CAST('{}' AS JSON)",
    "CAST('[]' AS JSON)",
)


def _documents(texts: list[bytes], prefix: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Values with their length before them, and where each starts."""
    data = b"".join(len(text).to_bytes(prefix, "little") + text for text in texts)
    starts = np.cumsum([0, *(len(text) + prefix for text in texts)])[:-1]
    return np.frombuffer(data, np.uint8), starts[None, :].astype(np.int64)


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(9 if depth else 7)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice(_EDGES)
    if kind == 2:
        return rng.randint(-(1 << rng.randint(1, 63)), 1 << rng.randint(1, 63))
    if kind == 3:
        return struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64) & ~(1 << 62)))[0]
    if kind == 4:
        return round(rng.uniform(-1e6, 1e6), rng.randint(0, 6))
    if kind <= 6:
        return "".join(rng.choices(_TEXT, k=rng.choice([0, 1, 5, 30, 127, 128, 200])))
    if kind == 7:
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 6))]
    return {"".join(rng.choices(_TEXT, k=rng.randint(0, 8))): _value(rng, depth - 1) for _ in range(rng.randint(0, 6))}


def _texts(rng: random.Random) -> list[str]:
    documents = [_value(rng, 4) for _ in range(2000)]
    deep: Any = 1
    for level in range(99):
        deep = [deep] if level % 2 else {"k": deep}
    documents += [deep, {}, [], "", *_EDGES]
    documents += [{f"k{i}": _value(rng, 1) for i in range(3000)}, ["x" * 300] * 300, list(range(30000)), "é" * 70000]
    documents += [[2**31, -(2**31), 2**40, "x" * 66000, None, True, 7, 1.5]]  # large: four bytes stand in the entry
    return [json.dumps(document) for document in documents]


@pytest.mark.integration
def test_documents_print_as_the_server_casts_them(mysql8: MySqlServer) -> None:
    """Random documents have numbers of all widths, escapes, nesting up to the limit, and both formats."""
    with mysql8.database() as database, mysql8.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("CREATE TABLE docs (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)")
        for text in _texts(random.Random(7)):
            cursor.execute("INSERT INTO docs (j) VALUES (%s)", (text,))
        for value in _OPAQUE:
            cursor.execute(f"INSERT INTO docs (j) VALUES (JSON_ARRAY({value})), (JSON_OBJECT('k', {value}))")
        cursor.execute("INSERT INTO docs (j) SELECT j->'$.k' FROM docs WHERE j->'$.k' IS NOT NULL")
        cursor.execute("INSERT INTO docs (j) VALUES (NULL)")
        cursor.execute("SELECT id, CAST(j AS CHAR) FROM docs ORDER BY id")
        expected = dict(cursor.fetchall())
        table = decoded(mysql8, mysql8.position()[0], database)["docs"]["insert"]
        actual = dict(zip(table["id"].to_pylist(), table["j"].to_pylist(), strict=True))

        assert expected.keys() == actual.keys()
        assert not [(id, text, actual[id]) for id, text in expected.items() if text != actual[id]][:3]


@pytest.mark.integration
def test_an_empty_document_is_null_as_on_the_server(mysql8: MySqlServer) -> None:
    """A JSON column added as NOT NULL holds no bytes in the old rows."""
    with mysql8.database() as database, mysql8.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE docs (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO docs VALUES (1)")
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("ALTER TABLE docs ADD COLUMN j JSON NOT NULL")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("UPDATE docs SET id = 2")
        cursor.execute("SELECT CAST(j AS CHAR) FROM docs")
        expected = cursor.fetchone()
        images = decoded(mysql8, mysql8.position()[0], database)["docs"]

        assert [images[name]["j"].to_pylist() for name in ("update_before", "update_after")] == [[expected[0]]] * 2


def test_doubles_print_the_shortest_digits() -> None:
    """Every printed double reads back as the same bits, and no shorter text does."""
    rng = random.Random(3)
    numbers = [struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0] for _ in range(20000)]
    numbers = [n for n in numbers if n == n and abs(n) != float("inf")] + [2.0**k for k in range(-1074, 1024)]
    data, starts = _documents([b"\x0b" + struct.pack("<d", n) for n in numbers])

    for number, text in zip(numbers, decode(_SCHEMA, data, starts)["j"].to_pylist(), strict=True):
        assert float(text) == number
        assert _digits(text) == _digits(repr(number))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=20), inner, max_size=5),
    max_leaves=30,
)


def _digits(text: str) -> str:
    return text.partition("e")[0].replace(".", "").replace("-", "").strip("0")


@given(json_values)
def test_what_is_encoded_is_printed(value: Any) -> None:
    """Any document of the small format is printed as JSON of the same value."""
    data, starts = _documents([encoded(value)])

    assert json.loads(decode(_SCHEMA, data, starts)["j"][0].as_py()) == value


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"", "null"),
        (b"\x04\x01", "true"),
        (b"\x05\xff\xff", "-1"),
        (b"\x0a" + b"\xff" * 8, "18446744073709551615"),
        (b'\x0c\x03a"\x01', '"a\\"\\u0001"'),
        (b"\x0f\xf6\x04\x03\x01\x8c\x05", "12.5"),
        (b"\x0f\x0f\x01\xff", '"base64:type15:/w=="'),
        (b"\x0f\x0b\x08" + struct.pack("<q", -((100 << 12) << 24 | 7)), '"-100:00:00.000007"'),
        (b"\x0f\x0a\x08" + struct.pack("<q", ((2020 * 13 + 2) << 22 | 29 << 17) << 24), '"2020-02-29"'),
    ],
)
def test_documents_written_by_hand(document: bytes, text: str) -> None:
    """Literals, numbers, escapes, and types that JSON does not have."""
    data, starts = _documents([document])

    assert decode(_SCHEMA, data, starts)["j"].to_pylist() == [text]


def test_the_buffer_grows_with_the_text() -> None:
    """A control character takes six bytes of text."""
    texts = [b"\x0c\xac\x02" + b"\x01" * 300] * 500
    data, starts = _documents(texts)

    assert decode(_SCHEMA, data, starts)["j"].to_pylist() == ['"' + "\\u0001" * 300 + '"'] * 500


@pytest.mark.parametrize(
    "document",
    [
        b"\x0d",  # no such type
        b"\x04\x03",  # no such literal
        b"\x0b\0\0\0\0\0\0\xf0\x7f",  # infinity
        b"\x0c\x05abc",  # a string longer than the document
        b"\x0c\xff\xff\xff\xff\xff",  # a length without an end
        b"\x0c\x01\xff",  # not UTF-8
        b"\x02\x01\x00\x07\x00\x02\x00\x00",  # an array within itself
        b"\x00\xff\xff\x10\x00" + b"\0" * 11,  # more entries than room
    ],
)
def test_damage_is_an_error_that_names_the_value(document: bytes) -> None:
    """The error has table, column, image and place."""
    data, starts = _documents([b"\x04\x00", document])

    with pytest.raises(DecodeError, match=r"shop\.docs\.j, row image 1: .* at mysql-bin\.000001:1"):
        decode(_SCHEMA, data, starts, place=lambda image: f"mysql-bin.000001:{image}")


def test_no_damage_leads_out_of_bounds() -> None:
    """The kernels run uncompiled over buffers that refuse any index out of bounds: see `json_fuzz`."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.json_fuzz"],
        env=environment,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stderr[-2000:]
    assert int(run.stdout) >= 1000
