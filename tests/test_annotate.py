"""The annotator over events written by hand: kinds, counts, and every way in which it stops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from cdc_core.binlog.annotate import Annotator
from cdc_core.errors import DecodeError
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.block import Block, Kind
from tests.binlog_files import Log, block, image, table_map_body

COLUMNS = [("id", 8, b""), ("v", 15, b"\x14\x00")]
BODY = table_map_body("t", COLUMNS, [0])
IMAGE = image(COLUMNS, (1, "one"))


def annotator(heard: list[tuple[EntryPosition, str, str]] | None = None) -> Annotator:
    """Takes all tables but those called `hidden`."""
    heard = [] if heard is None else heard
    return Annotator(
        SchemaRegistry(),
        lambda schema: schema,
        lambda _, table: table != "hidden",
        lambda position, database, sql: heard.append((position, database, sql)),
    )


def kinds(one: Block) -> list[Kind]:
    return [Kind(int(kind)) for kind in one.index["kind"]]


def annotated(log: Log, by: Annotator | None = None) -> Block:
    one = log.block()
    (by or annotator()).annotate(one.journal_name, one.data, one.index)
    return one


def change(log: Log, images: bytes = IMAGE, kind: int = 30, body: bytes = BODY) -> None:
    log.table_map(7, body)
    log.rows(kind, 7, 2, images)


def test_a_transaction_of_mysql() -> None:
    """GTID, BEGIN, rows, XID; an update's two images are one row."""
    log = Log()
    log.add(33, bytes(42))
    log.query("BEGIN")
    change(log, IMAGE * 3)
    change(log, IMAGE * 4, kind=31)
    log.add(16, bytes(8))

    one = annotated(log)

    assert kinds(one) == [Kind.OTHER, Kind.BEGIN, Kind.OTHER, Kind.ROWS, Kind.OTHER, Kind.ROWS, Kind.COMMIT]
    assert one.index["rows"].tolist() == [0, 0, 0, 3, 0, 2, 0]
    assert one.index["schema"].tolist() == [-1, -1, -1, 0, -1, 0, -1]


def test_a_transaction_of_mariadb() -> None:
    """Its GTID starts a transaction, unless a statement stands alone."""
    log = Log()
    log.add(162, bytes(12) + b"\0")
    change(log, kind=23)
    log.add(16, bytes(8))
    log.add(162, bytes(12) + b"\1")
    log.query("CREATE TABLE x (i INT)")

    assert kinds(annotated(log)) == [Kind.BEGIN, Kind.OTHER, Kind.ROWS, Kind.COMMIT, Kind.OTHER, Kind.COMMIT]


def test_what_spans_blocks_is_kept() -> None:
    """Table ids and the open transaction live from block to block, and end with `reset`."""
    log = Log()
    log.query("BEGIN")
    change(log)
    by = annotator()
    head, tail = block(log.events[:2]), block(log.events[2:])

    for one in (head, tail):
        by.annotate(one.journal_name, one.data, one.index)

    assert repr(by) == "<Annotator definitions=1 in_transaction=True>"
    assert kinds(tail) == [Kind.ROWS]
    by.reset()
    assert repr(by) == "<Annotator definitions=1 in_transaction=False>"
    with pytest.raises(DecodeError, match="names a table that no TABLE_MAP"):
        by.annotate(tail.journal_name, tail.data, tail.index)


def test_filtered_tables_are_marked_and_not_parsed() -> None:
    """Rows of a table that the filter leaves out need not be understood."""
    log = Log()
    log.query("BEGIN")
    change(log, body=b"\4shop\0\6hidden\0\2\xee\xee")
    log.add(16, bytes(8))

    one = annotated(log)

    assert kinds(one)[2] == Kind.FILTERED
    assert (one.index["schema"][2], one.index["rows"][2]) == (-1, 0)


def test_many_definitions_and_open_tables() -> None:
    """More tables than the first maps hold, within one statement."""
    log = Log()
    log.query("BEGIN")
    for number in range(600):
        log.table_map(number, table_map_body(f"t{number}", COLUMNS, [0]))
    for number in range(600):
        log.rows(30, number, 2, IMAGE, flags=int(number == 599))

    one = annotated(log)

    assert one.index["schema"][601:].tolist() == list(range(600))


def test_ddl_is_told_and_ends_its_transaction() -> None:
    """CREATE ... SELECT inside a transaction does not end it."""
    heard: list[tuple[EntryPosition, str, str]] = []
    log = Log()
    log.query("/* by hand */ ALTER TABLE t ADD is_commit INT")
    log.query("BEGIN")
    log.query("CREATE TABLE u (i INT) START TRANSACTION")
    change(log)
    log.query("COMMIT")

    one = annotated(log, annotator(heard))

    assert kinds(one) == [Kind.COMMIT, Kind.BEGIN, Kind.OTHER, Kind.OTHER, Kind.ROWS, Kind.COMMIT]
    assert [(position.position, database) for position, database, _ in heard] == [
        (int(one.index["end"][0]), "shop"),
        (int(one.index["end"][2]), "shop"),
    ]


def test_definitions_are_asked_for_again_after_ddl() -> None:
    """A name may have changed though the event's bytes have not."""
    asked: list[str] = []
    by = Annotator(SchemaRegistry(), lambda schema: asked.append(schema.name) or schema, lambda *_: True)  # type: ignore[func-returns-value]
    log = Log()
    for _ in range(2):
        change(log)
        change(log)
        log.query("ALTER TABLE t RENAME COLUMN v TO w")

    annotated(log, by)

    assert asked == ["shop.t", "shop.t"]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1, 'one')",
        "/* hello */ update t set v = 1",
        "-- why\nDELETE FROM t",
        "/*!50000 INSERT */ INTO t VALUES (1)",
        "REPLACE t SET v = 1",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "CREATE TABLE u AS SELECT * FROM t",
        "SELECT `shop`.`f`()",
        "UPDATE hidden, t SET t.v = 1",
        "UPDATE hidden h JOIN t SET t.v = 1",
        "LOAD DATA INFILE 'x' INTO TABLE t",
    ],
)
def test_statement_format_is_refused(text: str) -> None:
    """Changes that are written as statements would be lost."""
    log = Log()
    log.query("BEGIN")
    log.query(text)

    with pytest.raises(DecodeError, match="statement-format change") as caught:
        annotated(log)

    assert caught.value.place == f"mysql-bin.000001:{log.events[0][0]}"
    assert "binlog_format=ROW" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO hidden VALUES (1)",
        "DELETE FROM `shop`.`hidden` WHERE a = 'x, t'",
        "GRANT SELECT ON shop.* TO someone",
        "CREATE TABLE u (c VARCHAR(9) DEFAULT 'select')",
        "DROP TABLE IF EXISTS `insert`",
        "CREATE TABLE u (`select` INT)",
        "FLUSH TABLES",
    ],
)
def test_statements_that_lose_nothing_pass(text: str) -> None:
    """Neither DDL, nor a statement on a table that is left out, is a lost change."""
    log = Log()
    log.query(text)

    assert kinds(annotated(log)) == [Kind.COMMIT]


def unknown(log: Log) -> None:
    log.add(99, b"")


def payload(log: Log) -> None:
    log.add(40, b"")


def short(log: Log) -> None:
    change(log, IMAGE[:-1])


def trailing(log: Log) -> None:
    change(log, IMAGE + b"\0")


def unmapped(log: Log) -> None:
    log.rows(30, 8, 2, IMAGE)


def wider(log: Log) -> None:
    log.table_map(7, BODY)
    log.rows(30, 7, 3, IMAGE)


def rolled_back(log: Log) -> None:
    change(log)
    log.query("ROLLBACK")


def nested(log: Log) -> None:
    change(log)
    log.query("BEGIN")


def torn_map(log: Log) -> None:
    log.table_map(7, BODY[:9])


def torn_load(log: Log) -> None:
    log.add(18, bytes(25))


def prepared(log: Log) -> None:
    change(log)
    log.add(38, b"\0" + bytes(12))


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (unknown, "unknown event type 99"),
        (payload, "compressed transaction"),
        (short, "do not add up"),
        (trailing, "do not add up"),
        (unmapped, "no TABLE_MAP"),
        (wider, "do not add up"),
        (rolled_back, "takes back"),
        (nested, "starts a transaction inside"),
        (torn_map, "TABLE_MAP event is damaged"),
        (torn_load, "too short"),
        (prepared, "only prepared"),
    ],
)
def test_it_stops_at_what_it_does_not_understand(add: Callable[[Log], None], message: str) -> None:
    """With the place of the event and what mends it."""
    log = Log(start=5_000_000_000)
    log.query("BEGIN")
    add(log)

    with pytest.raises(DecodeError, match=message) as caught:
        annotated(log)

    starts = [5_000_000_000, *(end for end, _ in log.events)]
    assert caught.value.place in {f"mysql-bin.000001:{start}" for start in starts[1:]}
    assert caught.value.hint


def test_an_unknown_event_that_may_be_ignored_passes() -> None:
    """The flag is in its header."""
    log = Log()
    log.add(99, b"", flags=0x80)

    assert kinds(annotated(log)) == [Kind.OTHER]


def test_flipped_bits_never_crash() -> None:
    """Damaged bytes are an error or another count, never a walk beyond the event."""
    log = Log()
    log.query("BEGIN")
    change(log, IMAGE * 2)
    good = log.block()
    for at in range(len(good.data)):
        data = good.data.copy()
        data[at] ^= 0xFF
        with contextlib.suppress(DecodeError):
            annotator().annotate(good.journal_name, data, good.index.copy())
