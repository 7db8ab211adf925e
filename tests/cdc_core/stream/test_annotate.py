"""The annotator over events written by hand: kinds, counts, and every error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from cdc_core.binlog.block import Block, BlockSlice, Kind
from cdc_core.errors import DecodeError, RowsWithoutTable, SchemaError, TableStopped
from cdc_core.position import EntryPosition
from cdc_core.rows.net import plan_net
from cdc_core.schema.ddl import ChangeKind, Ddl, EffectKind
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.ddl_events import DdlReader
from tests.support.binlog_files import Log, block, image, table_map_body

COLUMNS = [("id", 8, b""), ("v", 15, b"\x14\x00")]
BODY = table_map_body("t", COLUMNS, [0])
OTHER = table_map_body("u", COLUMNS, [0])
IMAGE = image(COLUMNS, (1, "one"))


def annotator() -> Annotator:
    """Takes all tables but those called `hidden`."""
    return Annotator(SchemaRegistry(), lambda schema, _: schema, captured)


def captured(_: str, table: str) -> bool:
    return table != "hidden"


def kinds(one: Block) -> list[Kind]:
    return [Kind(int(kind)) for kind in one.index["kind"]]


def annotated(log: Log, by: Annotator | None = None) -> Block:
    one = log.block()
    (by or annotator()).annotate(one)
    return one


def change(log: Log, images: bytes = IMAGE, kind: int = 30, body: bytes = BODY) -> None:
    log.table_map(7, body)
    log.rows(kind, 7, 2, images)


def test_a_transaction_of_mysql() -> None:
    """GTID, BEGIN, rows, XID; the two images of an update are one row."""
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

    assert kinds(annotated(log)) == [Kind.BEGIN, Kind.OTHER, Kind.ROWS, Kind.COMMIT, Kind.OTHER, Kind.DDL]


def test_what_spans_blocks_is_kept() -> None:
    """Table ids and the open transaction live from block to block, and end with `reset`."""
    log = Log()
    log.query("BEGIN")
    change(log)
    by = annotator()
    head, tail = block(log.events[:2]), block(log.events[2:])

    for one in (head, tail):
        by.annotate(one)

    assert repr(by) == "<Annotator definitions=1 in_transaction=True>"
    assert kinds(tail) == [Kind.ROWS]
    by.reset()
    assert repr(by) == "<Annotator definitions=1 in_transaction=False>"
    with pytest.raises(DecodeError, match="names a table that no TABLE_MAP"):
        by.annotate(tail)


def test_events_before_a_bad_one_go_on() -> None:
    """A transaction that came in one block with an event that cannot be read is there for readers."""
    log = Log()
    log.query("BEGIN")
    change(log)
    log.add(16, bytes(8))
    sound = len(log.events)
    log.query("INSERT INTO t VALUES (1)")
    one = log.block()
    found = annotator().push(one)
    piece = next(found)
    assert (len(piece.index), piece.start, piece.end) == (sound, one.start, int(one.index["end"][sound - 1]))
    assert kinds(piece)[-1] == Kind.COMMIT
    with pytest.raises(DecodeError, match="statement-format change"):
        next(found)


def test_nothing_of_the_transaction_of_a_bad_event_goes_on() -> None:
    """Its beginning is no progress: each try would bring it again, and begin its errors and pauses anew."""
    log = Log()
    log.query("BEGIN")
    change(log)
    log.query("INSERT INTO t VALUES (1)")
    with pytest.raises(DecodeError, match="statement-format change"):
        next(iter(annotator().push(log.block())))


def test_a_start_between_the_tables_of_a_statement_brings_nothing() -> None:
    """The rows of a table that was named before the start are refused before anything is there of the transaction, so
    that its start can be looked for."""
    log = Log()
    log.table_map(8, OTHER)
    log.rows(30, 7, 2, IMAGE)
    with pytest.raises(RowsWithoutTable):
        next(iter(annotator().push(log.block())))


def test_filtered_tables_are_marked_and_not_parsed() -> None:
    """Rows of a filtered table need not be readable."""
    log = Log()
    log.query("BEGIN")
    change(log, body=b"\4shop\0\6hidden\0\2\xee\xee")
    log.add(16, bytes(8))

    one = annotated(log)

    assert kinds(one)[2] == Kind.FILTERED
    assert (one.index["schema"][2], one.index["rows"][2]) == (-1, 0)


def test_many_definitions_and_open_tables() -> None:
    """One statement uses more tables than the first maps hold."""
    log = Log()
    log.query("BEGIN")
    for number in range(600):
        log.table_map(number, table_map_body(f"t{number}", COLUMNS, [0]))
    for number in range(600):
        log.rows(30, number, 2, IMAGE, flags=int(number == 599))

    one = annotated(log)

    assert one.index["schema"][601:].tolist() == list(range(600))


def test_ddl_is_an_item_and_ends_its_transaction() -> None:
    """CREATE ... SELECT inside a transaction does not end it. Each item is read again from the block."""
    log = Log()
    log.query("/* by hand */ ALTER TABLE t ADD is_commit INT")
    log.query("BEGIN")
    log.query("CREATE TABLE u (i INT) START TRANSACTION")
    change(log)
    log.query("COMMIT")

    one = annotated(log)

    assert kinds(one) == [Kind.DDL, Kind.BEGIN, Kind.DDL_WITHIN, Kind.OTHER, Kind.ROWS, Kind.COMMIT]
    found = DdlReader(captured).statements([BlockSlice(one, 0, 6)])
    assert [(ddl.position, ddl.database) for ddl in found] == [(one.position(0), "shop"), (one.position(2), "shop")]
    assert [effect.name for ddl in found for effect in ddl.effects] == ["shop.t", "shop.u"]
    assert DdlReader(captured).statements([BlockSlice(one, 1, 6)]) == found[1:]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ALTER TABLE hidden ADD c INT", Kind.COMMIT),
        ("ALTER TABLE t ADD INDEX (v), ENGINE = InnoDB", Kind.DDL_UNSHOWN),
        ("CREATE INDEX i ON hidden (v)", Kind.COMMIT),
        ("CREATE DATABASE other", Kind.DDL_UNSHOWN),
        ("CREATE VIEW t2 AS SELECT 1", Kind.COMMIT),
        ("CREATE TEMPORARY TABLE u (c INT)", Kind.COMMIT),
        ("DROP TABLE hidden, t", Kind.DDL),
        ("DROP TABLE IF EXISTS `insert`", Kind.DDL),
        ("CREATE TABLE u (`select` INT)", Kind.DDL),
        ("RENAME TABLE hidden TO t", Kind.DDL),
        ("RENAME TABLE t TO hidden", Kind.DDL),
        ("SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE t", Kind.DDL),
        ("ALTER TABLE t FROBNICATE", Kind.DDL),
        ("ALTER TABLE _t_gho ADD c INT", Kind.COMMIT),
        ("DROP TABLE IF EXISTS _t_old", Kind.COMMIT),
    ],
)
def test_only_ddl_of_captured_tables_is_an_item(text: str, kind: Kind) -> None:
    """A statement that changes no change in the lake is no item; if Canal's clients are to get it, it is marked
    for them."""
    log = Log()
    log.query(text)

    assert kinds(annotated(log)) == [kind]


@pytest.mark.parametrize(
    ("text", "concerned"),
    [
        ("CREATE TABLE u (c INT)", "shop.u"),
        ("CREATE TABLE IF NOT EXISTS other.`u` LIKE t", "other.u"),
        ("CREATE TABLE u (c INT REFERENCES t (c))", "shop.u"),
        ("CREATE TABLE u (c INT) START TRANSACTION", None),
        ("DROP TABLE u", "shop.u"),
        ("DROP TABLE hidden, t", "shop.t"),
        ("DROP TABLE t, other.u, hidden", "shop.t other.u"),
        ("TRUNCATE other.u", "other.u"),
        ("ALTER TABLE t ADD c INT, DROP d, MODIFY e BIGINT, COMMENT 'it'", "shop.t"),
        ("ALTER TABLE t ADD c INT, FROBNICATE", None),
        ("ALTER TABLE t ADD c INT, RENAME TO u", "shop.t shop.u"),
        ("ALTER TABLE t DROP FOREIGN KEY k, DROP COLUMN d", None),
        ("ALTER TABLE t ADD c INT REFERENCES u (c)", None),
        ("ALTER TABLE t DROP c, DROP CONSTRAINT k", None),
        ("ALTER TABLE t DROP PARTITION p", "shop.t"),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "shop.t shop.u"),
        ("RENAME TABLE t TO u", "shop.t shop.u"),
        ("RENAME TABLE t TO x, u TO t, x TO u", "shop.t shop.x shop.u"),
        ("RENAME TABLE t TO `references`", None),
        ("RENAME TABLE t TO _t_old, _t_new TO t", "shop.t"),
        ("DROP DATABASE shop", None),
        ("FROBNICATE t", None),
    ],
)
def test_a_statement_has_the_number_of_the_tables_that_it_concerns(text: str, concerned: str | None) -> None:
    """And none where it may concern rows of other tables."""
    log, registry = Log(), SchemaRegistry()
    log.query(text)

    one = annotated(log, Annotator(registry, lambda schema, _: schema, captured))

    (number,) = one.index["schema"].tolist()
    assert (" ".join(registry.get(number).all_names) if number >= 0 else None) == concerned


def test_rows_of_a_helper_table_are_left_out() -> None:
    """gh-ost copies rows to it that the real table has, and they come as the real table's after the swap."""
    log = Log()
    for name in ("_t_gho", "_t_ghc", "__t_new", "_hidden_new", "t_new"):
        change(log, body=table_map_body(name, COLUMNS, [0]))

    found = kinds(annotated(log))[1::2]

    assert found == [Kind.FILTERED, Kind.FILTERED, Kind.FILTERED, Kind.ROWS, Kind.ROWS]


class Known:
    """A schema history of names alone: `t` is there until it is dropped."""

    def __init__(self) -> None:
        self.names = {"t", "_t_old"}

    def follow(self, ddl: Ddl) -> None:
        self.names -= {effect.table for effect in ddl.effects if effect.kind is EffectKind.DROP}

    def filled(self, ddl: Ddl) -> Ddl:
        return ddl

    def tables(self, database: str, _position: EntryPosition) -> set[str]:
        return self.names if database == "shop" else set()


def test_a_table_is_a_helper_while_its_table_is_there() -> None:
    """Afterwards it is a table of its own, though its TABLE_MAP is the same. The log says once what is left out."""
    log = Log()
    for _ in range(2):
        change(log, body=table_map_body("_t_old", COLUMNS, [0]))
        log.query("DROP TABLE t")

    by = Annotator(SchemaRegistry(), lambda schema, _: schema, captured, DdlReader(captured, definitions=Known()))

    with capture_logs() as logs:
        assert kinds(annotated(log, by))[1::3] == [Kind.FILTERED, Kind.ROWS]
    assert [(entry["event"], entry["table"]) for entry in logs] == [("table left out", "_t_old")]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ALTER FROBNICATION OF `t` TO x", ["shop.t"]),
        ("CREATE FROBNICATION tt", []),
        ("DROP FROBNICATION shop.t, _t_old", ["shop.t"]),
    ],
)
def test_a_statement_that_nobody_knows_may_do_anything_to_the_tables_that_it_names(text: str, named: list[str]) -> None:
    """The lake then asks for a copy; the stream goes on."""
    log = Log()
    log.query(text)
    ddl = DdlReader(captured, definitions=Known())

    one = annotated(log, Annotator(SchemaRegistry(), lambda schema, _: schema, captured, ddl))

    assert kinds(one) == [Kind.DDL if named else Kind.COMMIT]
    found = ddl.statements([BlockSlice(one, 0, 1)])
    assert [effect.name for each in found for effect in each.effects] == named
    assert all(effect.changes[0].kind is ChangeKind.UNKNOWN for each in found for effect in each.effects)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ALTER FROBNICATION OF `t` x", ["shop.ALTER", "shop.FROBNICATION", "shop.OF", "shop.t", "shop.x"]),
        ('DROP FROB other.`t`, shop . "a b"', ["shop.DROP", "shop.FROB", "shop.a b"]),
    ],
)
def test_without_a_schema_history_every_word_may_be_a_table(text: str, named: list[str]) -> None:
    """Of those the lake knows its own; a table that the statement changes unseen would be wrong without a word."""
    log = Log()
    log.query(text)
    ddl = DdlReader(lambda database, _: database == "shop")

    one = annotated(log, Annotator(SchemaRegistry(), lambda schema, _: schema, captured, ddl))

    assert kinds(one) == [Kind.DDL]
    (found,) = ddl.statements([BlockSlice(one, 0, 1)])
    assert [effect.name for effect in found.effects] == named
    assert all(effect.changes[0].kind is ChangeKind.UNKNOWN for effect in found.effects)


def test_definitions_are_asked_for_again_after_ddl() -> None:
    """A name may have changed although the bytes of the event have not."""
    asked: list[str] = []
    by = Annotator(SchemaRegistry(), lambda schema, _: asked.append(schema.name) or schema, lambda *_: True)  # type: ignore[func-returns-value]
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
        "DROP TEMPORARY TABLE IF EXISTS `other`",
        "CREATE TABLE other (i INT)",
        "CREATE DATABASE elsewhere",
        "ALTER USER me IDENTIFIED BY 'x'",
        "DROP VIEW v",
    ],
)
def test_ddl_of_another_table_costs_no_question(text: str) -> None:
    """Only the tables that the statement may name are asked for again."""
    assert _asked_after(text) == ["shop.orders"]


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE Orders ADD c INT",
        "RENAME TABLE x TO y, `shop`.`orders` TO z",
        "DROP DATABASE shop",
        "ALTER TABLE zażółć ADD c INT",
        "/*!50000 ALTER TABLE orders */ FORCE",
    ],
)
def test_ddl_that_may_name_a_table_makes_it_asked_for_again(text: str) -> None:
    """By its name, its database, or because the text cannot be compared."""
    assert _asked_after(text) == ["shop.orders", "shop.orders"]


def _asked_after(text: str) -> list[str]:
    """The tables asked for when `shop.orders` is changed before and after a statement."""
    asked: list[str] = []
    by = Annotator(SchemaRegistry(), lambda schema, _: asked.append(schema.name) or schema, lambda *_: True)  # type: ignore[func-returns-value]
    log = Log()
    body = table_map_body("orders", COLUMNS, [0])
    change(log, body=body)
    log.query(text)
    change(log, body=body)

    annotated(log, by)

    return asked


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
    """Changes written as statements would be lost."""
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
        "CREATE TABLE hidden (c VARCHAR(9) DEFAULT 'select')",
        "CREATE TEMPORARY TABLE u (`select` INT)",
        "FLUSH TABLES",
    ],
)
def test_statements_that_lose_nothing_pass(text: str) -> None:
    """Neither DDL nor a statement on a filtered table is a lost change."""
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
    log.table_map(7, BODY[:7])


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
        (unmapped, "no TABLE_MAP"),
        (rolled_back, "takes back"),
        (nested, "starts a transaction inside"),
        (torn_map, "TABLE_MAP event is damaged"),
        (torn_load, "too short"),
        (prepared, "only prepared"),
    ],
)
def test_it_stops_at_what_it_does_not_understand(add: Callable[[Log], None], message: str) -> None:
    """The error has the place of the event and the remedy."""
    log = Log(start=5_000_000_000)
    log.query("BEGIN")
    add(log)

    with pytest.raises(DecodeError, match=message) as caught:
        annotated(log)

    starts = [5_000_000_000, *(end for end, _ in log.events)]
    assert caught.value.place in {f"mysql-bin.000001:{start}" for start in starts[1:]}
    assert caught.value.hint


@pytest.mark.parametrize("add", [short, trailing, wider])
def test_rows_that_do_not_fit_their_definition_stop_their_table_alone(add: Callable[[Log], None]) -> None:
    """Whoever reads them gets the place and the bytes. Rows before and after, and other tables, are as they were."""
    log = Log(start=5_000_000_000)
    change(log)
    add(log)
    unfit = len(log.events) - 1
    log.table_map(8, OTHER)
    log.rows(30, 8, 2, IMAGE)
    change(log)
    registry = SchemaRegistry()
    block = log.block()
    Annotator(registry, lambda schema, _: schema, lambda *_: True).annotate(block)
    rows = [row for row in range(len(block.index)) if block.index["kind"][row] == Kind.ROWS]
    defects = [registry.get(int(block.index["schema"][row])).defect for row in rows]

    assert [defect is None for defect in defects] == [True, False, True, True]
    assert block.index["rows"][rows].tolist() == [1, 1, 1, 1]
    bad = [BlockSlice(block, unfit, unfit + 1)]
    with pytest.raises(TableStopped, match=r"do not fit the 2 columns of shop\.t: event WRITE_ROWS") as caught:
        plan_net(bad, registry, "shop.t")
    assert caught.value.place == block.place(unfit)
    assert block.data[block.index["offset"][unfit] :][:30].tobytes().hex() in caught.value.message
    assert plan_net([BlockSlice(block, unfit + 1, len(block.index))], registry, "shop.u").rows == 1


@pytest.mark.parametrize("body", ["torn", "unknown type", "refused by the catalogue"])
def test_a_definition_that_cannot_be_read_stops_its_table_alone(body: str) -> None:
    """The stream goes on, and whoever reads the table's rows gets the reason."""
    log = Log()
    bytes_of = {"torn": BODY[:11], "unknown type": BODY.replace(bytes([2, 8, 15]), bytes([2, 8, 99]))}
    log.table_map(7, bytes_of.get(body, BODY))
    log.rows(30, 7, 2, IMAGE)
    log.table_map(8, OTHER)
    log.rows(30, 8, 2, IMAGE)
    registry, block = SchemaRegistry(), log.block()

    def resolve(schema: TableSchema, _: EntryPosition) -> TableSchema:
        if body.startswith("refused") and schema.table == "t":
            raise SchemaError("the table has changed since", place=schema.name, hint="Start later.")
        return schema

    Annotator(registry, resolve, lambda *_: True).annotate(block)

    with pytest.raises(TableStopped) as caught:
        plan_net([BlockSlice(block, 0, len(block.index))], registry, "shop.t")
    assert caught.value.place == block.place(1)
    assert plan_net([BlockSlice(block, 0, len(block.index))], registry, "shop.u").rows == 1


def test_an_ignorable_unknown_event_passes() -> None:
    """Its header has the ignorable flag."""
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
            annotator().annotate(Block(good.journal_name, good.start, data, good.index.copy()))
