"""The GTIDs that real servers write."""

from __future__ import annotations

import pytest

from cdc_core.binlog.block import BlockSlice
from cdc_core.binlog.gtid_events import last_gtid
from cdc_core.errors import DecodeError
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import Log, capture, whole


@pytest.mark.integration
def test_mysql(mysql8: MySqlServer) -> None:
    """The last of the executed set."""
    with mysql8.database() as database, mysql8.root() as connection, connection.cursor() as cursor:
        block = capture(mysql8, f"CREATE TABLE {database}.t (i INT)", f"INSERT INTO {database}.t VALUES (1)")
        cursor.execute("SELECT @@server_uuid, @@gtid_executed")
        row = cursor.fetchone()
        assert row is not None

        assert str(last_gtid(whole(block))) == f"{row[0]}:{row[1].rpartition('-')[2]}"


@pytest.mark.integration
def test_mysql_with_a_tag(mysql9: MySqlServer) -> None:
    """A tagged GTID event, with and without a tag."""
    with mysql9.database() as database, mysql9.root() as connection, connection.cursor() as cursor:
        create, insert = f"CREATE TABLE {database}.t (i INT)", f"INSERT INTO {database}.t VALUES (1)"
        block = capture(mysql9, create, "SET gtid_next = 'AUTOMATIC:the_tag'", insert, insert)
        cursor.execute("SELECT @@server_uuid, @@gtid_executed")
        row = cursor.fetchone()
        assert row is not None

        assert str(last_gtid(whole(block))) == f"{row[0]}:the_tag:2"
        assert row[1].endswith(":the_tag:1-2")


@pytest.mark.integration
def test_mariadb(mariadb: MySqlServer) -> None:
    """Domain, server and number."""
    with mariadb.database() as database, mariadb.root() as connection, connection.cursor() as cursor:
        block = capture(mariadb, f"CREATE TABLE {database}.t (i INT)", f"INSERT INTO {database}.t VALUES (1)")
        cursor.execute("SELECT @@gtid_binlog_pos")

        assert (str(last_gtid(whole(block))),) == cursor.fetchone()


def test_without_gtid() -> None:
    """A source without GTIDs gives None."""
    log = Log()
    log.query("BEGIN")
    block = log.block()

    assert last_gtid(whole(block)) is None


def test_a_tagged_gtid() -> None:
    """As MySQL 9.7 writes it: numbers of one to nine bytes, a field left out, and later fields ignored."""
    body = bytes.fromhex(
        "02760000020210 3d033a3d03 9503 9d02 22c503 810244 04f103000000 0204 14060c 6d795f746167 0808 0a08"
        "0c7fd7161faac86006 10e102 1283120b"
    )
    log = Log()
    log.add(42, body)
    other = body.replace(bytes.fromhex("0414"), bytes.fromhex("041f005cb2ec22")).replace(b"\x0c\x7f", b"\x0e\x7f")
    log.add(42, other)
    block = log.block()

    assert str(last_gtid(BlockSlice(block, 0, 1))) == "08cf1dcf-e5a7-11f1-a022-02fc00000001:my_tag:5"
    assert str(last_gtid(whole(block))) == "08cf1dcf-e5a7-11f1-a022-02fc00000001:my_tag:300000000000"


@pytest.mark.parametrize("body", [b"", b"\2\4\0", b"\2\4\0\2\x10", b"\2\4\0\4\xff"])
def test_a_torn_tagged_gtid(body: bytes) -> None:
    """A tagged GTID event that is cut short is an error."""
    log = Log()
    log.add(42, body)
    block = log.block()

    with pytest.raises(DecodeError, match="GTID"):
        last_gtid(whole(block))


@pytest.mark.parametrize(("kind", "size"), [(33, 24), (162, 11)])
def test_a_torn_gtid(kind: int, size: int) -> None:
    """A GTID event that is cut short is an error."""
    log = Log()
    log.add(kind, bytes(size))
    block = log.block()

    with pytest.raises(DecodeError, match="GTID"):
        last_gtid(whole(block))
