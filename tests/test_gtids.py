"""GTIDs and commit times of real servers."""

from __future__ import annotations

import time

import pytest

from cdc_core.binlog.gtids import last_commit_time, last_gtid
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
