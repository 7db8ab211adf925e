"""Compressed transactions of MySQL give what the server would have sent without compression."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zstandard

from cdc_core.binlog.block import Block, BlockSlice, Kind
from cdc_core.binlog.inner import STEP
from cdc_core.binlog.payload import PIECE
from cdc_core.errors import DecodeError
from cdc_core.rows.net import plan_changes, plan_net, read
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.expand import expand
from cdc_core.stream.trim import trim
from tests.support.binlog_files import Log, block, capture, image, table_map_body

COLUMNS = [("id", 8, b""), ("v", 15, b"\xff\0")]
BODY = table_map_body("t", COLUMNS, [0])


def opened(one: Block, registry: SchemaRegistry | None = None) -> list[Block]:
    by = Annotator(SchemaRegistry() if registry is None else registry, lambda schema, _: schema, lambda *_: True)
    pieces = list(expand(one))
    for piece in pieces:
        by.annotate(piece)
    return pieces


def changes(pieces: list[Block], registry: SchemaRegistry, table: str) -> list[tuple[Any, ...]]:
    slices = [BlockSlice(piece, 0, len(piece.index)) for piece in pieces]
    return [tuple(row.values()) for batch in read(plan_changes(slices, registry, table)) for row in batch.to_pylist()]


def left(pieces: list[Block], registry: SchemaRegistry, table: str) -> list[tuple[Any, ...]]:
    slices = [BlockSlice(piece, 0, len(piece.index)) for piece in pieces]
    rows = (row for batch in read(plan_net(slices, registry, table)) for row in batch.to_pylist())
    return sorted(tuple(row.values()) for row in rows)


def workload(table: str) -> list[str]:
    """Small transactions, one of many statements, and one of 16 MB."""
    chance = random.Random(3)
    statements = [f"INSERT INTO {table} VALUES ({n}, '{'x' * chance.randint(0, 200)}', {n})" for n in range(300)]
    statements += ["BEGIN", f"UPDATE {table} SET w = w + 1 WHERE id % 3 = 0", f"DELETE FROM {table} WHERE id % 5 = 0"]
    statements += [f"UPDATE {table} SET id = id + 1000 WHERE id = 7", "COMMIT", "SET cte_max_recursion_depth = 100000"]
    statements += [
        f"INSERT INTO {table} WITH RECURSIVE s AS (SELECT 2000 n UNION ALL SELECT n + 1 FROM s WHERE n < 60000) "
        "SELECT n, REPEAT('xy', n % 90), n FROM s",
        f"UPDATE {table} SET v = REPEAT('long', 250000) WHERE id = 1",
        f"DELETE FROM {table} WHERE id > 4000",
    ]
    return statements


@pytest.mark.in_turn
@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql9"])
def test_compression_changes_nothing(name: str, request: pytest.FixtureRequest) -> None:
    """Changes, their order and the rows left are the same as without; a large transaction comes in pieces."""
    server = request.getfixturevalue(name)
    found = []
    for on in ("ON", "OFF"):
        with server.database() as database:
            table = f"{database}.t"
            registry = SchemaRegistry()
            create = f"CREATE TABLE {table} (id INT PRIMARY KEY, v LONGTEXT, w INT)"
            pieces = opened(
                capture(server, f"SET binlog_transaction_compression = {on}", create, *workload(table)), registry
            )
            rows = changes(pieces, registry, table)
            order = [row[-4:-1] for row in rows]
            assert order == sorted(order)
            assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
            found.append(([row[:4] for row in rows], left(pieces, registry, table)))
            if on == "ON":
                assert len(pieces) > 10
                assert max(piece.data.nbytes for piece in pieces) < PIECE + STEP + 1_000_100

    assert found[0] == found[1]


def inner(*rows: int, size: int = 100) -> list[bytes]:
    """The events of one transaction, a rows event with so many rows each."""
    log = Log()
    log.query("BEGIN")
    for number, count in enumerate(rows):
        log.table_map(7, BODY)
        log.rows(30, 7, 2, b"".join(image(COLUMNS, (number * 1000 + row, "v" * size)) for row in range(count)))
    log.add(16, bytes(8))
    return [plain[:9] + len(plain).to_bytes(4, "little") + plain[13:] for _, plain in log.events]


def number(value: int) -> bytes:
    """Length-encoded."""
    return bytes([value]) if value < 251 else b"\xfe" + value.to_bytes(8, "little")


def field(kind: int, value: int) -> bytes:
    return bytes([kind, len(number(value))]) + number(value)


def payload(events: list[bytes], size: int | None = None, kind: int = 0, more: bytes = b"") -> bytes:
    """The body of a TRANSACTION_PAYLOAD event."""
    whole = b"".join(events)
    packed = zstandard.ZstdCompressor(write_content_size=size is None).compress(whole) if kind == 0 else whole
    packed += more
    fields = field(2, kind) + field(3, len(whole) if size is None else size) + field(99, 1) + field(1, len(packed))
    return fields + b"\0" + packed


def sent(*bodies: bytes) -> Block:
    log = Log(start=1000)
    for body in bodies:
        log.add(33, bytes(42))
        log.add(40, body)
    return log.block()


@pytest.mark.parametrize("kind", [0, 255])
def test_small_transactions_share_a_block(kind: int) -> None:
    """Every event ends where its outer event ends; rows are numbered through within it."""
    one = sent(payload(inner(2, 3), kind=kind), payload(inner(1), kind=kind))

    (piece,) = opened(one)

    kinds = [Kind.OTHER, Kind.BEGIN, Kind.OTHER, Kind.ROWS, Kind.OTHER, Kind.ROWS, Kind.COMMIT]
    kinds += [Kind.OTHER, Kind.BEGIN, Kind.OTHER, Kind.ROWS, Kind.COMMIT]
    ends = one.index["end"].tolist()
    assert [Kind(int(each)) for each in piece.index["kind"]] == kinds
    assert piece.index["end"].tolist() == [ends[0], *[ends[1]] * 6, ends[2], *[ends[3]] * 4]
    rows = piece.index[piece.index["kind"] == Kind.ROWS]
    assert (rows["rows"].tolist(), rows["row_base"].tolist()) == ([2, 3, 1], [0, 2, 0])
    assert (piece.start, piece.end) == (one.start, one.end)


def test_a_large_transaction_has_places_inside() -> None:
    """Places rise and are the same each time; what was put can be trimmed at the end of any piece."""
    one = sent(payload(inner(*[100] * 400)))

    pieces, again = opened(one), opened(one)

    ends = np.concatenate([piece.index["end"] for piece in pieces])
    assert len(pieces) > 3
    assert (np.diff(ends) >= 0).all()
    assert len(np.unique(ends)) > len(pieces)
    assert int(one.index["end"][0]) < int(ends[1]) < one.end == int(ends[-1])
    assert sum(int(piece.index["rows"].sum()) for piece in pieces) == 40_000
    for done in pieces:
        rest = [piece for piece in (trim(each, done.end) for each in again if each.end > done.end) if piece]
        assert sum(len(piece.index) for piece in rest) == int((ends > done.end).sum())


def test_one_large_row_is_one_piece() -> None:
    """An event larger than a piece stands alone."""
    columns = [("id", 8, b""), ("v", 252, b"\4")]
    log = Log()
    log.query("BEGIN")
    log.table_map(7, table_map_body("t", columns, [0]))
    value = 5 * PIECE
    log.rows(30, 7, 2, b"\0" + (1).to_bytes(8, "little") + value.to_bytes(4, "little") + bytes(value))
    log.add(16, bytes(8))
    events = [plain[:9] + len(plain).to_bytes(4, "little") + plain[13:] for _, plain in log.events]

    pieces = opened(sent(payload(events)))

    assert sum(int(piece.index["rows"].sum()) for piece in pieces) == 1
    assert max(piece.data.nbytes for piece in pieces) < value + 2 * PIECE


def short(body: bytes) -> bytes:
    return body[:-3]


def flipped(body: bytes) -> bytes:
    return body[:-40] + bytes([body[-40] ^ 0xFF]) + body[-39:]


SMALL, LARGE = inner(5, 5), inner(*[100] * 60)


@pytest.mark.parametrize("events", [SMALL, LARGE])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda e: payload(e)[:9], "header does not add up"),
        (lambda e: short(payload(e)), "header does not add up"),
        (lambda e: payload(e, size=len(b"".join(e)) - 1), "is damaged"),
        (lambda e: payload(e, size=len(b"".join(e)) + 1), "is damaged"),
        (lambda e: payload(e, size=1 << 60), "more bytes than its length can hold"),
        (lambda e: payload(e, more=b"more"), "is damaged"),
        (lambda e: payload(e, kind=7), "not known: 7"),
        (lambda e: flipped(payload(e)), "is damaged"),
        (lambda e: payload([*e, b"\0" * 30]), "is damaged"),
        (lambda e: payload([*e, e[0][:4] + b"\x28" + e[0][5:]]), "is damaged"),
        (lambda e: payload([*e, e[0][:-1]]), "is damaged"),
    ],
)
def test_damage_is_an_error_with_its_place(
    make: Callable[[list[bytes]], bytes], message: str, events: list[bytes]
) -> None:
    """Headers, sizes, zstd's own data, and the events inside."""
    good = payload(SMALL)
    one = sent(good, make(events))

    with pytest.raises(DecodeError, match=message) as caught:
        opened(one)

    assert caught.value.place == f"mysql-bin.000001:{one.index['end'][2]}"
    assert caught.value.hint


def test_flipped_bits_never_crash() -> None:
    """Damaged bytes are an error or other rows."""
    good = sent(payload(inner(3, 2, size=9)))
    wrong = 0
    for at in range(int(good.index["offset"][1]), len(good.data)):
        data = good.data.copy()
        data[at] ^= 0xFF
        try:
            opened(Block(good.journal_name, good.start, data, good.index.copy()))
        except DecodeError:
            wrong += 1
    assert wrong > len(good.data) // 4


def test_what_is_not_compressed_comes_as_it_is() -> None:
    """A block without compressed events is returned as the same object."""
    one = block([(100, Log().block().data.tobytes() + inner(1)[0])])

    assert list(expand(one)) == [one]
