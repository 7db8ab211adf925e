"""The compressed events of MariaDB give what the server would have sent without compression."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from cdc_core.binlog.block import Block, BlockSlice, Kind
from cdc_core.errors import DecodeError
from cdc_core.rows.net import plan_changes, read
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.expand import expand
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import Log, capture, image, table_map_body

COLUMNS = [("id", 8, b""), ("v", 15, b"\xff\0")]
BODY = table_map_body("t", COLUMNS, [0])


def changes(one: Block, table: str) -> list[tuple[Any, ...]]:
    registry = SchemaRegistry()
    by = Annotator(registry, lambda schema, _: schema, lambda *_: True)
    pieces = list(expand(one))
    for piece in pieces:
        by.annotate(piece)
    slices = [BlockSlice(piece, 0, len(piece.index)) for piece in pieces]
    assert pieces[-1].end == one.end
    return [tuple(row.values()) for batch in read(plan_changes(slices, registry, table)) for row in batch.to_pylist()]


def workload(database: str) -> list[str]:
    """Rows events of all kinds, whose first row decides whether they are compressed; a large one, a long query."""
    table = f"{database}.t"
    return [
        f"USE {database}",
        f"CREATE TABLE {table} (id INT PRIMARY KEY, v LONGTEXT COMMENT '{'why ' * 100}', w INT)",
        f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2)",
        f"INSERT INTO {table} SELECT seq, REPEAT('xy', seq % 90), seq FROM seq_10_to_20000",
        f"INSERT INTO {table} VALUES (5, REPEAT('long', 1000000), 5)",
        "BEGIN",
        f"DELETE FROM {table} WHERE id % 2",
        f"UPDATE {table} SET w = w + 1, v = LEFT(v, 50)",
        "COMMIT",
        f"UPDATE {table} SET v = REPEAT('wide', 100) WHERE id BETWEEN 60 AND 80",
    ]


@pytest.mark.integration
def test_compression_changes_nothing(mariadb: MySqlServer) -> None:
    """Changes and their order are the same as without compression."""
    found = []
    for on in ("ON", "OFF"):
        mariadb.execute(f"SET GLOBAL log_bin_compress = {on}")
        try:
            with mariadb.database() as database:
                one = capture(mariadb, *workload(database))
        finally:
            mariadb.execute("SET GLOBAL log_bin_compress = OFF")
        assert {165, 166, 167, 168} & set(one.index["type"].tolist()) == ({165, 166, 167, 168} if on == "ON" else set())
        found.append([row[:4] for row in changes(one, f"{database}.t")])

    assert found[0] == found[1]


def packed(body: bytes, size: int | None = None, first: int = 0x82) -> bytes:
    length = len(body) if size is None else size
    return bytes([first]) + length.to_bytes(first & 7, "big") + zlib.compress(body)


def sent(*events: tuple[int, bytes]) -> Block:
    log = Log(start=1000)
    for kind, body in events:
        log.add(kind, body)
    return log.block()


def rows(kind: int, packed_images: bytes) -> tuple[int, bytes]:
    head = (7).to_bytes(6, "little") + b"\1\0" + (b"\2\0" if kind >= 169 else b"") + b"\2"
    return kind, head + (b"\3\3" if kind in (167, 170) else b"\3") + packed_images


def query(packed_text: bytes) -> tuple[int, bytes]:
    return 165, bytes(8) + b"\4" + bytes(4) + b"shop\0" + packed_text


TABLE_MAP = 19, (7).to_bytes(6, "little") + b"\1\0" + BODY
IMAGES = image(COLUMNS, (1, "one" * 50)) + image(COLUMNS, (2, None))


@pytest.mark.parametrize("kind", [166, 167, 168, 169, 170, 171])
def test_rows_of_each_kind_and_version(kind: int) -> None:
    """Compressed rows events of each kind stand next to uncompressed ones."""
    one = sent(query(packed(b"BEGIN")), TABLE_MAP, rows(kind, packed(IMAGES)), (16, bytes(8)))

    (piece,) = expand(one)
    Annotator(SchemaRegistry(), lambda schema, _: schema, lambda *_: True).annotate(piece)

    assert piece.index["kind"].tolist() == [Kind.BEGIN, Kind.OTHER, Kind.ROWS, Kind.COMMIT]
    assert piece.index["rows"][2] == (1 if kind in (167, 170) else 2)
    assert piece.index["end"].tolist() == one.index["end"].tolist()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        packed(IMAGES)[:-1],
        packed(IMAGES) + b"more",
        packed(IMAGES, size=len(IMAGES) - 1),
        packed(IMAGES, size=len(IMAGES) + 1),
        packed(IMAGES, size=1 << 31, first=0x84),
        packed(IMAGES, first=0x92),
        packed(IMAGES, first=0x85),
        packed(IMAGES)[:8] + b"\xff" + packed(IMAGES)[9:],
    ],
)
@pytest.mark.parametrize("make", [lambda body: rows(166, body), query])
def test_damage_is_an_error_with_its_place(make: Callable[[bytes], tuple[int, bytes]], body: bytes) -> None:
    """Headers, sizes and zlib's own data."""
    one = sent(query(packed(b"BEGIN")), TABLE_MAP, make(body))

    with pytest.raises(DecodeError, match="compressed event is damaged") as caught:
        list(expand(one))

    assert caught.value.place == f"mysql-bin.000001:{one.index['end'][1]}"
