"""The binlog of real servers read again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc_core.config import InstanceConfig, load_instance
from cdc_core.errors import PositionPurged, TableStopped
from cdc_core.gtid import parse_gtids
from cdc_core.position import EntryPosition
from cdc_core.reread.binlog import BinlogReader
from cdc_core.reread.transaction import RowCounts, Transaction
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import executed_gtids
from tests.support.shop import write_conf

pytestmark = pytest.mark.integration
QUOTES = "binlog_rows_query_log_events"
QUOTED = f"SET {QUOTES} = 1"


@contextmanager
def opened(server: MySqlServer, tmp_path: Path) -> Iterator[tuple[str, InstanceConfig]]:
    """A database with a table `t`, and a configuration that captures it."""
    with server.database("reread") as database:
        server.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", database=database)
        write_conf(tmp_path / "conf", server, database)
        yield database, load_instance(tmp_path / "conf", "shop")[0]


def place(server: MySqlServer) -> EntryPosition:
    return EntryPosition(*server.position())


def server_id(server: MySqlServer) -> int:
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@server_id")
        return int(cursor.fetchall()[0][0])


def reader(config: InstanceConfig, server: MySqlServer) -> BinlogReader:
    return BinlogReader(config, f"{server.host}:{server.port}", keep=100)


def images(reread: BinlogReader, transaction: Transaction, table: str) -> list[tuple[str, int, str | None]]:
    """The images of a table's rows in a transaction: what they are, id and v."""
    found = list(reread.images(transaction, table))
    names = ("_sluice_op", "id", "v")
    return [row for one in found for row in zip(*(one.column(name).to_pylist() for name in names), strict=True)]


def check_server(server: MySqlServer, tmp_path: Path, quotes: str, flavor: str) -> None:
    """The transactions between two places, over two journals: GTIDs, statements, counts, rows; nothing beyond them."""
    with opened(server, tmp_path) as (database, config):
        server.execute("INSERT INTO t VALUES (0, 'before')", database=database)
        begin = place(server)
        insert = "INSERT INTO t VALUES (1, 'one'), (2, NULL)"
        server.execute(f"SET {quotes} = 1", insert, database=database)
        server.execute("FLUSH BINARY LOGS")
        changes = ["UPDATE t SET v = 'two' WHERE id = 2", "DELETE FROM t WHERE id = 1"]
        server.execute(f"SET {quotes} = 0", "START TRANSACTION", *changes, "COMMIT", database=database)
        server.execute("ALTER TABLE t ADD COLUMN w INT", database=database)
        gtids, end = executed_gtids(server), place(server)
        server.execute("INSERT INTO t VALUES (9, 'after', 9)", database=database)
        reread, t = reader(config, server), f"{database}.t"
        first, second, ddl = list(reread.transactions(begin, end))
        assert (first.statements, first.rows) == ([insert], {t: RowCounts(2, 0, 0)})
        assert (second.statements, second.rows) == ([], {t: RowCounts(0, 1, 1)})
        assert ddl.statements == ["ALTER TABLE t ADD COLUMN w INT"]
        assert first.end is not None
        assert first.end.journal_name != second.start.journal_name
        assert images(reread, first, t) == [("insert", 1, "one"), ("insert", 2, None)]
        assert images(reread, second, t) == [
            ("update_before", 2, None), ("update_after", 2, "two"), ("delete", 1, "one"),
        ]  # fmt: skip
        assert {one.server_id for one in (first, second, ddl)} == {server_id(server)}
        assert parse_gtids(gtids, flavor) >= parse_gtids(ddl.gtid, flavor)  # type: ignore[operator]
        assert len({first.gtid, second.gtid, ddl.gtid}) == 3
        assert list(reread.transactions(end, end)) == []
        (part,) = list(reread.transactions(begin, second.start, begin))
        assert part.gtid == first.gtid


class TestBinlogReader:
    def test_mysql(self, mysql8: MySqlServer, tmp_path: Path) -> None:
        """MySQL 8, whose statements are quoted where a session asks for it."""
        check_server(mysql8, tmp_path, QUOTES, "mysql")

    def test_mariadb(self, mariadb: MySqlServer, tmp_path: Path) -> None:
        """MariaDB, which quotes statements by default."""
        check_server(mariadb, tmp_path, "binlog_annotate_row_events", "mariadb")

    def test_compressed_transaction(self, mysql8: MySqlServer, tmp_path: Path) -> None:
        """The rows and statements inside a compressed transaction are there, and a part that began before does not
        count."""
        with opened(mysql8, tmp_path) as (database, config):
            begin = place(mysql8)
            changes = ["INSERT INTO t VALUES (1, 'one')", "UPDATE t SET v = 'two'"]
            compressed = "SET binlog_transaction_compression = ON"
            mysql8.execute(compressed, QUOTED, "START TRANSACTION", *changes, "COMMIT", database=database)
            reread, t = reader(config, mysql8), f"{database}.t"
            (one,) = reread.transactions(begin, place(mysql8))
            assert one.statements == changes
            assert images(reread, one, t) == [
                ("insert", 1, "one"), ("update_before", 1, "one"), ("update_after", 1, "two"),
            ]  # fmt: skip

    def test_rolled_back_rows(self, mysql8: MySqlServer, tmp_path: Path) -> None:
        """Rows that were rolled back to a savepoint are not there; those of an XA transaction are in its XA COMMIT."""
        with opened(mysql8, tmp_path) as (database, config):
            begin = place(mysql8)
            first, gone, third = (f"INSERT INTO t VALUES ({number}, '{number}')" for number in (1, 2, 3))
            within = ("SAVEPOINT s", gone, "ROLLBACK TO s")
            mysql8.execute("START TRANSACTION", first, *within, "COMMIT", database=database)
            mysql8.execute("XA START 'x'", third, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'", database=database)
            reread, t = reader(config, mysql8), f"{database}.t"
            one, two = reread.transactions(begin, place(mysql8))
            assert [images(reread, each, t) for each in (one, two)] == [
                [("insert", 1, "1")],
                [("insert", 3, "3")],
            ]

    def test_statement_that_sets_off_a_trigger(self, mysql8: MySqlServer, tmp_path: Path) -> None:
        """A table that is not captured writes a captured one: the statement has the values of the former."""
        with opened(mysql8, tmp_path) as (database, config):
            kept = config.model_copy(update={"filter_black_regex": f"{database}\\.hidden"})
            trigger = "CREATE TRIGGER audits AFTER INSERT ON hidden FOR EACH ROW INSERT INTO t VALUES (1, 'new')"
            mysql8.execute("CREATE TABLE hidden (secret VARCHAR(20))", trigger, database=database)
            begin, own = place(mysql8), "INSERT INTO t VALUES (2, 'own')"
            mysql8.execute(QUOTED, "INSERT INTO hidden VALUES ('s3cr3t')", own, database=database)
            one, two = reader(kept, mysql8).transactions(begin, place(mysql8))
            assert (one.statements, one.left_out, one.rows) == ([], 1, {f"{database}.t": RowCounts(1, 0, 0)})
            assert two.statements == [own]

    def test_purged_journal(self, mysql8: MySqlServer, tmp_path: Path) -> None:
        """A place that the server no longer has is an error that says so, as is an end that it never had."""
        with opened(mysql8, tmp_path) as (_, config):
            end = place(mysql8)
            for begin, upto in ((EntryPosition("mysql-bin.000000", 4), end), (end, EntryPosition("bin.999999", 4))):
                with pytest.raises(PositionPurged):
                    list(reader(config, mysql8).transactions(begin, upto))

    def test_changed_table(self, mysql8: MySqlServer, tmp_path: Path) -> None:
        """Rows without whole metadata, of a table whose columns changed since, are counted; to show them is an
        error."""
        with opened(mysql8, tmp_path) as (database, config):
            begin = place(mysql8)
            mysql8.execute("SET GLOBAL binlog_row_metadata = MINIMAL", database=database)
            try:
                mysql8.execute("INSERT INTO t VALUES (1, 'one')", "ALTER TABLE t DROP COLUMN v", database=database)
            finally:
                mysql8.execute("SET GLOBAL binlog_row_metadata = FULL", database=database)
            reread, t = reader(config, mysql8), f"{database}.t"
            one, _ = reread.transactions(begin, place(mysql8))
            assert one.rows == {t: RowCounts(1, 0, 0)}
            with pytest.raises(TableStopped, match="lacks the metadata"):
                images(reread, one, t)
