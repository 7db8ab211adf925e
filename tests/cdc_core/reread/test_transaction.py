"""Transactions put together from events written by hand, in one block and in many."""

from __future__ import annotations

import pytest

from cdc_core.binlog.events import EventType
from cdc_core.position import EntryPosition
from cdc_core.reread.transaction import MOST_STATEMENTS, RowCounts, Transaction, Transactions
from cdc_core.rows.net import plan_changes, read
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.stream.annotate import Annotator
from tests.support.binlog_files import Log, block, image, table_map_body

COLUMNS = [("id", 8, b"")]
SERVER = "01010101-0101-0101-0101-010101010101"


def gtid(log: Log, number: int) -> None:
    log.add(EventType.GTID, b"\0" + b"\1" * 16 + number.to_bytes(8, "little") + b"\0" * 17)


def quoted(log: Log, text: str) -> None:
    log.add(EventType.ROWS_QUERY, bytes([len(text) & 255]) + text.encode(), flags=0x80)


def rows(log: Log, kind: int, *ids: int, table: str = "t", ends: bool = True) -> None:
    """A rows event, the last of a statement if that `ends`; of an update, pairs."""
    number = ord(table[0])
    log.table_map(number, table_map_body(table, COLUMNS, [0]))
    log.rows(kind, number, 1, b"".join(image(COLUMNS, (one,)) for one in ids), flags=int(ends))


def shop() -> Log:
    """Two transactions on tables t and u, one on a table that is not captured, and a DDL statement."""
    log = Log()
    gtid(log, 1)
    log.query("BEGIN")
    quoted(log, "INSERT INTO t VALUES (1), (2)")
    rows(log, EventType.WRITE_ROWS, 1, 2)
    rows(log, EventType.UPDATE_ROWS, 1, 3)
    quoted(log, "DELETE FROM u")
    rows(log, EventType.DELETE_ROWS, 7, 8, 9, table="u")
    log.add(EventType.XID, b"\0" * 8)
    gtid(log, 2)
    log.query("BEGIN")
    quoted(log, "INSERT INTO hidden VALUES ('secret')")
    rows(log, EventType.WRITE_ROWS, 5, table="hidden")
    log.add(EventType.XID, b"\0" * 8)
    gtid(log, 3)
    log.query("ALTER TABLE t ADD COLUMN v INT")
    gtid(log, 4)
    log.query("BEGIN")
    rows(log, EventType.WRITE_ROWS, 4)
    log.add(EventType.XID, b"\0" * 8)
    return log


def found(log: Log, size: int = 1000, after: int = 0, keep: int = 100) -> tuple[list[Transaction], SchemaRegistry]:
    """The transactions of the log in blocks of so many events, and what is open at its end."""
    registry = SchemaRegistry()
    annotator = Annotator(registry, lambda schema, _: schema, lambda _, table: table != "hidden")
    place = EntryPosition("mysql-bin.000001", after).version() if after else 0
    gathered, transactions = Transactions(registry, place, keep), list[Transaction]()
    start = log.start
    for at in range(0, len(log.events), size):
        part = log.events[at : at + size]
        one = block(part, start=start)
        start = part[-1][0]
        annotator.annotate(one)
        transactions += gathered.push(one)
    rest = gathered.rest()
    return [*transactions, *([rest] if rest else [])], registry


def ids(transaction: Transaction, registry: SchemaRegistry, table: str) -> list[int]:
    """The images of a table's kept rows."""
    batches = read(plan_changes(transaction.slices, registry, f"shop.{table}"), 0)
    return [one for batch in batches for one in batch.column("id").to_pylist()]


class TestTransactions:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
    def test_whole_transactions(self, size: int) -> None:
        """GTIDs, statements, counts and rows are the same however the events are cut into blocks; tables that are not
        captured, and their statements, are not there."""
        (first, ddl, last), registry = found(shop(), size)
        assert [one.gtid for one in (first, ddl, last)] == [f"{SERVER}:{number}" for number in (1, 3, 4)]
        assert first.statements == ["INSERT INTO t VALUES (1), (2)", "DELETE FROM u"]
        assert first.rows == {"shop.t": RowCounts(2, 1, 0), "shop.u": RowCounts(0, 0, 3)}
        assert (ids(first, registry, "t"), ids(first, registry, "u")) == ([1, 2, 1, 3], [7, 8, 9])
        assert (ddl.statements, ddl.rows) == (["ALTER TABLE t ADD COLUMN v INT"], {})
        assert (last.count, last.server_id, ids(last, registry, "t")) == (1, 1, [4])
        assert (first.start.position, last.end) == (4, EntryPosition("mysql-bin.000001", shop().end))

    @pytest.mark.parametrize("size", [1, 3, 1000])
    @pytest.mark.parametrize("tables", ["t hidden", "hidden t", "hidden t hidden"])
    def test_statement_on_a_table_that_is_not_captured_too(self, tables: str, size: int) -> None:
        """A trigger may write a captured table: the statement has the values of the other one."""
        log = Log()
        gtid(log, 1)
        log.query("BEGIN")
        quoted(log, "INSERT INTO hidden VALUES ('secret')")
        each = tables.split()
        for table in each:
            rows(log, EventType.WRITE_ROWS, 1, table=table, ends=table is each[-1])
        quoted(log, "INSERT INTO t VALUES (2)")
        rows(log, EventType.WRITE_ROWS, 2)
        log.add(EventType.XID, b"\0" * 8)
        (one,), _ = found(log, size)
        assert (one.statements, one.left_out, one.count) == (["INSERT INTO t VALUES (2)"], 1, 2)

    def test_rows_beyond_the_limit(self) -> None:
        """So many rows are kept and all are counted; so many statements are kept, and the others counted."""
        log = Log()
        gtid(log, 1)
        log.query("BEGIN")
        for number in range(50):
            quoted(log, f"INSERT INTO t VALUES ({number})")
            rows(log, EventType.WRITE_ROWS, number)
        log.add(EventType.XID, b"\0" * 8)
        (one,), registry = found(log, size=3, keep=5)
        assert (one.count, len(one.statements), one.left_out) == (50, MOST_STATEMENTS, 50 - MOST_STATEMENTS)
        assert 5 <= len(ids(one, registry, "t")) <= 8

    def test_part_of_a_transaction(self) -> None:
        """Reading that ends within a transaction gives what was read; events up to a place do not count."""
        log = shop()
        whole, _ = found(log)
        cut = Log()
        cut.events, cut.end = log.events[:5], log.events[4][0]
        (part,), _ = found(cut)
        assert (part.gtid, part.count, part.end) == (f"{SERVER}:1", 2, EntryPosition("mysql-bin.000001", cut.end))
        later, _ = found(log, after=log.events[4][0])
        assert (later[0].gtid, later[0].rows["shop.t"]) == ("", RowCounts(0, 1, 0))
        assert [one.gtid for one in later[1:]] == [one.gtid for one in whole[1:]]

    def test_statement_of_mariadb(self) -> None:
        """MariaDB's event has the text alone, whatever its length."""
        log = Log()
        log.query("BEGIN")
        text = "INSERT INTO t VALUES (1) /* " + "x" * 300 + " */"
        log.add(EventType.MARIA_ANNOTATE_ROWS, text.encode())
        rows(log, EventType.WRITE_ROWS, 1)
        log.add(EventType.XID, b"\0" * 8)
        (one,), _ = found(log)
        assert (one.statements, one.gtid) == ([text], "")
