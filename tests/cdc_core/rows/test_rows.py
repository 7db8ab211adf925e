"""Row images of real servers: the rows that the binlog leaves are those of SELECT."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from cdc_core.binlog.block import BlockSlice, Kind
from cdc_core.errors import DecodeError, SchemaError, TableStopped
from cdc_core.rows.chunks import gather
from cdc_core.rows.images import walk
from cdc_core.rows.net import plan_changes, plan_net, read
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.row_layout import decimal_width, row_layout
from cdc_core.schema.table import Column, TableSchema
from cdc_core.stream.annotate import Annotator
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated
from tests.support.binlog_files import Log, capture, image, table_map_body

TABLE = """
    CREATE TABLE {table} (
      a INT NOT NULL, b VARCHAR(300) NOT NULL, i BIGINT UNSIGNED, d DECIMAL(20,4), s CHAR(90), t TEXT, x VARBINARY(20),
      e ENUM('red','green'), f DOUBLE, dt DATETIME(3) {key}
    ) CHARACTER SET utf8mb4"""


def net_rows(slices: list[BlockSlice], registry: SchemaRegistry, table: str) -> list[tuple[Any, ...]]:
    plan = plan_net(slices, registry, table, None, 2)
    return [
        tuple(row.values())
        for split in range(len(plan.splits))
        for batch in read(plan, split)
        for row in batch.to_pylist()
    ]


def selected(server: MySqlServer, table: str) -> list[tuple[Any, ...]]:
    connection = server.root()
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return [tuple(row) for row in cursor.fetchall()]


def workload(table: str, seed: int = 5) -> list[str]:
    """Inserts, updates of values and of keys, and deletes, many rows at a time and one by one."""
    chance = random.Random(seed)
    statements = []
    for number in range(60):
        rows = []
        for _ in range(chance.randint(1, 4)):
            text = "é" * chance.randint(0, 80)
            moment = chance.choice(["NULL", "'2020-02-29 10:11:12.345'"])
            value = chance.choice(["NULL", f"'{text}'", "'z'"])
            rows.append(
                f"({number}, '{chance.randint(0, 10**6)}', {chance.choice(['NULL', 2**63 + number])}, "
                f"{chance.choice(['NULL', '-12.5', '9999999999.0001'])}, {value}, {value}, "
                f"{chance.choice(['NULL', 'x' + chr(39) + '00ff' + chr(39)])}, {chance.choice(['NULL', '1', '2'])}, "
                f"{chance.choice(['NULL', '0.1', '-3e200'])}, {moment})"
            )
        statements.append(f"INSERT INTO {table} VALUES {', '.join(rows)}")
        if number % 3 == 0:
            statements.append(f"UPDATE {table} SET i = {number}, t = NULL WHERE a % 4 = {number % 4}")
        if number % 5 == 0:
            statements.append(f"UPDATE {table} SET b = CONCAT(b, 'x'), a = a + 1000 WHERE a = {number - 2}")
        if number % 7 == 0:
            statements.append(f"DELETE FROM {table} WHERE a % 6 = {number % 6}")
    return statements


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_what_is_left_is_what_the_server_has(name: str, request: pytest.FixtureRequest) -> None:
    """With a key of two columns, and without a key."""
    server = request.getfixturevalue(name)
    with server.database() as database:
        keyed, keyless = f"{database}.keyed", f"{database}.keyless"
        block = capture(
            server,
            TABLE.format(table=keyed, key=", PRIMARY KEY (b, a)"),
            TABLE.format(table=keyless, key=""),
            *workload(keyed),
            *workload(keyless),
        )
        slices, registry = annotated(server, block)

        left = [row[:-1] for row in net_rows(slices, registry, keyed) if row[-1] == 1]
        copies = {row[:-1]: row[-1] for row in net_rows(slices, registry, keyless)}

        assert sorted(left, key=repr) == sorted(selected(server, keyed), key=repr)
        assert copies == Counter(selected(server, keyless))
        changes = plan_changes(slices, registry, keyed)
        images = sum(batch.num_rows for batch in read(changes))
        assert images == changes.raw_inserts + 2 * changes.raw_updates + changes.raw_deletes
        assert int(block.index["rows"].sum()) == sum(
            sum(
                plan_changes(slices, registry, table).to_dict()[f"raw_{kind}"]
                for kind in ("inserts", "updates", "deletes")
            )
            for table in (keyed, keyless)
        )


@pytest.mark.integration
def test_minimal_metadata_is_completed_from_the_catalogue(mysql8: MySqlServer) -> None:
    """Names, key and labels come from the catalogue; the rows of a dropped table are refused."""
    with mysql8.database() as database:
        table = f"{database}.t"
        minimal, full = (f"SET GLOBAL binlog_row_metadata = {value}" for value in ("MINIMAL", "FULL"))
        block = capture(
            mysql8, TABLE.format(table=table, key=", PRIMARY KEY (b, a)"), minimal, *workload(table)[:12], full
        )
        slices, registry = annotated(mysql8, block)

        left = [row[:-1] for row in net_rows(slices, registry, table) if row[-1] == 1]

        assert registry.get(1).primary_key == ("b", "a")  # 0 is the name that CREATE made
        assert sorted(left, key=repr) == sorted(selected(mysql8, table), key=repr)
        mysql8.execute(f"DROP TABLE {table}")
        with pytest.raises(TableStopped, match="no longer exists"):
            net_rows(*annotated(mysql8, block), table)


def test_a_chunk_holds_one_table_of_many_small_blocks() -> None:
    """Events of other tables are left out; order, ordinals and places stay."""
    columns = [("id", 8, b""), ("v", 15, b"\x14\x00")]
    registry, slices = SchemaRegistry(), []
    annotator = Annotator(registry, lambda schema, _: schema, lambda *_: True)
    for number in range(50):
        log = Log(start=4 + 1000 * number)
        for table in ("t", "u"):
            log.table_map(1, table_map_body(table, columns, [0]))
            log.rows(31, 1, 2, image(columns, (number, "old")) + image(columns, (number, None)))
        block = log.block()
        annotator.annotate(block)
        slices.append(BlockSlice(block, 0, len(block.index)))

    (chunk,) = gather(slices, [1])
    images = walk(chunk, registry.row_layout(1))

    assert [int(chunk.data[start]) for start in images.starts[0, ::2]] == list(range(50))
    assert images.op.tolist() == [2, 3] * 50
    assert (images.starts[1, 1::2] == -1).all()
    assert images.row.tolist() == [0] * 100
    assert chunk.ordinals.tolist() == list(range(0, 100, 2))
    assert chunk.place(3) == f"mysql-bin.000001:{slices[3].block.index['end'][-2]}"


def test_chunks_are_bounded_but_for_one_large_event() -> None:
    """An event larger than a chunk comes alone."""
    columns = [("v", 15, b"\xff\x00")]
    log = Log()
    for size in (1, 1, 90, 1):
        log.table_map(1, table_map_body("t", columns, []))
        log.rows(30, 1, 1, image(columns, ("x" * 200,)) * size)
    block, registry = log.block(), SchemaRegistry()
    Annotator(registry, lambda schema, _: schema, lambda *_: True).annotate(block)

    chunks = list(gather([BlockSlice(block, 0, len(block.index))], [0], max_bytes=600))

    assert [len(chunk.index) for chunk in chunks] == [2, 1, 1]
    assert [len(walk(chunk, registry.row_layout(0))) for chunk in chunks] == [2, 90, 1]


def test_a_damaged_chunk_names_its_place() -> None:
    """Bytes that changed after annotation are noticed."""
    columns = [("v", 15, b"\xff\x00")]
    log = Log()
    log.table_map(1, table_map_body("t", columns, []))
    log.rows(30, 1, 1, image(columns, ("abc",)))
    block, registry = log.block(), SchemaRegistry()
    Annotator(registry, lambda schema, _: schema, lambda *_: True).annotate(block)
    (chunk,) = gather([BlockSlice(block, 0, len(block.index))], [0])
    chunk.data[len(chunk.data) - 4] += 1

    with pytest.raises(DecodeError, match="do not add up") as caught:
        walk(chunk, registry.row_layout(0))

    assert caught.value.place == f"mysql-bin.000001:{block.index['end'][0]}"
    assert block.index["kind"].tolist() == [Kind.OTHER, Kind.ROWS]


def test_widths() -> None:
    """Widths are those of the DECIMAL storage table in the manual; a type without a length is refused."""
    assert [decimal_width(*p) for p in ((10, 0), (12, 2), (65, 30), (18, 9), (1, 1))] == [5, 6, 30, 8, 1]
    types = [(16, 8 << 8), (16, 1), (19, 1), (18, 6), (15, 255), (15, 256), (252, 3), (248, 8)]
    schema = TableSchema("d", "t", tuple(Column("c", code, meta) for code, meta in types))

    assert row_layout(schema).tolist() == [8, 1, 4, 8, -1, -2, -3, 8]


@pytest.mark.parametrize(
    ("code", "meta"),
    [(200, 0), (19, 7), (18, 255), (247, 3), (248, 9), (16, 0), (16, 8 << 8 | 1), (246, 5 << 8 | 6), (246, 66 << 8)],
)
def test_columns_that_no_server_declares(code: int, meta: int) -> None:
    """Their rows are not walked."""
    with pytest.raises(SchemaError, match=f"type code {code} with metadata {meta}"):
        row_layout(TableSchema("d", "t", (Column("c", code, meta),)))
