"""GTIDs and commit times of real servers."""

from __future__ import annotations

import time

import pytest

from cdc_core.binlog.gtids import last_commit_time, last_gtid
from cdc_core.errors import DecodeError
from orchestration.stack.mysql import MySqlServer
from tests.binlog_files import Log, capture


@pytest.mark.integration
def test_mysql(mysql8: MySqlServer) -> None:
    """The last of the executed set, and when it was committed."""
    with mysql8.database() as database, mysql8.root() as connection, connection.cursor() as cursor:
        block = capture(mysql8, f"CREATE TABLE {database}.t (i INT)", f"INSERT INTO {database}.t VALUES (1)")
        cursor.execute("SELECT @@server_uuid, @@gtid_executed")
        row = cursor.fetchone()
        assert row is not None
        when = last_commit_time(block.data, block.index)

        assert last_gtid(block.data, block.index) == f"{row[0]}:{row[1].rpartition('-')[2]}"
        assert when is not None
        assert abs(when / 1e6 - time.time()) < 60


@pytest.mark.integration
def test_mysql_with_a_tag(mysql9: MySqlServer) -> None:
    """A tagged GTID, with and without a tag of its own, and when it was committed."""
    with mysql9.database() as database, mysql9.root() as connection, connection.cursor() as cursor:
        create, insert = f"CREATE TABLE {database}.t (i INT)", f"INSERT INTO {database}.t VALUES (1)"
        block = capture(mysql9, create, "SET gtid_next = 'AUTOMATIC:the_tag'", insert, insert)
        cursor.execute("SELECT @@server_uuid, @@gtid_executed")
        row = cursor.fetchone()
        assert row is not None
        when = last_commit_time(block.data, block.index)

        assert last_gtid(block.data, block.index) == f"{row[0]}:the_tag:2"
        assert row[1].endswith(":the_tag:1-2")
        assert when is not None
        assert abs(when / 1e6 - time.time()) < 60


@pytest.mark.integration
def test_mariadb(mariadb: MySqlServer) -> None:
    """Domain, server and sequence."""
    with mariadb.database() as database, mariadb.root() as connection, connection.cursor() as cursor:
        block = capture(mariadb, f"CREATE TABLE {database}.t (i INT)", f"INSERT INTO {database}.t VALUES (1)")
        cursor.execute("SELECT @@gtid_binlog_pos")

        assert (last_gtid(block.data, block.index),) == cursor.fetchone()
        assert last_commit_time(block.data, block.index) is None


def test_without_gtid() -> None:
    """A source that has none."""
    log = Log()
    log.query("BEGIN")
    block = log.block()

    assert last_gtid(block.data, block.index) is None


def test_a_tagged_gtid() -> None:
    """As MySQL 9.7 writes it: numbers of one byte to nine, a field left out, and those behind not looked at."""
    body = bytes.fromhex(
        "02760000020210 3d033a3d03 9503 9d02 22c503 810244 04f103000000 0204 14060c 6d795f746167 0808 0a08"
        "0c7fd7161faac86006 10e102 1283120b"
    )
    log = Log()
    log.add(42, body)
    other = body.replace(bytes.fromhex("0414"), bytes.fromhex("041f005cb2ec22")).replace(b"\x0c\x7f", b"\x0e\x7f")
    log.add(42, other)
    block = log.block()

    assert last_gtid(block.data, block.index[:1]) == "08cf1dcf-e5a7-11f1-a022-02fc00000001:my_tag:5"
    assert last_commit_time(block.data, block.index[:1]) == 1795264824153815
    assert last_gtid(block.data, block.index) == "08cf1dcf-e5a7-11f1-a022-02fc00000001:my_tag:300000000000"
    assert last_commit_time(block.data, block.index) == 1795264824153815


@pytest.mark.parametrize("body", [b"", b"\2\4\0", b"\2\4\0\2\x10", b"\2\4\0\4\xff"])
def test_a_torn_tagged_gtid(body: bytes) -> None:
    """Is not taken for another."""
    log = Log()
    log.add(42, body)
    block = log.block()

    with pytest.raises(DecodeError, match="GTID"):
        last_gtid(block.data, block.index)


@pytest.mark.parametrize(("kind", "size"), [(33, 24), (162, 11)])
def test_a_torn_gtid(kind: int, size: int) -> None:
    """Neither."""
    log = Log()
    log.add(kind, bytes(size))
    block = log.block()

    with pytest.raises(DecodeError, match="GTID"):
        last_gtid(block.data, block.index)
