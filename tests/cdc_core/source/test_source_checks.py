"""Checks at the start: each refusal has the statement that corrects it, and the statement does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cdc_core.errors import SourceError
from cdc_core.source.checks import ServerInfo, check_server
from cdc_core.source.connection import connect
from cdc_core.source.dump_command import begin_dump
from cdc_core.source.journals import current_end
from cdc_core.source.settings import SourceSettings
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import MySqlFactory, settings_of

pytestmark = pytest.mark.integration


def check(settings: SourceSettings) -> ServerInfo:
    with connect(settings) as conn:
        return check_server(conn, settings)


@contextmanager
def variable(server: MySqlServer, name: str, value: str, usual: str) -> Iterator[None]:
    server.execute(f"SET GLOBAL {name} = '{value}'")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = '{usual}'")


def test_mysql_8(mysql8: MySqlServer) -> None:
    """A server that is set up as it should be gives no warning."""
    info = check(settings_of(mysql8, slave_id=4242))
    assert (info.flavor, info.version, info.server_id) == ("mysql", "8.0.31", 1)
    assert (info.row_image, info.row_metadata, info.checksum, info.gtid_mode) == ("FULL", "FULL", "CRC32", "ON")
    assert len(info.server_uuid) == 36
    assert info.address == f"127.0.0.1:{mysql8.port}"
    assert info.warnings == ()


def test_mysql_57(mysql57: MySqlServer) -> None:
    """It has no row metadata, which is a warning."""
    info = check(settings_of(mysql57))
    assert info.row_metadata == ""
    assert "information_schema" in info.warnings[0]


def test_mariadb(mariadb: MySqlServer) -> None:
    """Our privileges do not show other replicas, which is a warning."""
    info = check(settings_of(mariadb))
    assert (info.flavor, info.server_uuid, info.gtid_mode) == ("mariadb", "", "")
    assert "REPLICATION MASTER ADMIN" in info.warnings[-1]


def test_engines_that_do_not_keep_what_is_logged_are_reported(mysql8: MySqlServer) -> None:
    """Each captured table of BLACKHOLE or MERGE is a warning; a table that is left out is none."""
    with mysql8.database() as database:
        mysql8.execute(
            "CREATE TABLE hole (id INT) ENGINE=BLACKHOLE",
            "CREATE TABLE part (id INT) ENGINE=MyISAM",
            "CREATE TABLE merged (id INT) ENGINE=MERGE UNION=(part)",
            database=database,
        )
        with connect(settings_of(mysql8)) as conn:
            captured = check_server(conn, settings_of(mysql8), lambda schema, _table: schema == database).warnings
            left_out = check_server(conn, settings_of(mysql8), lambda _schema, table: table == "part").warnings

    assert [warning.partition(":")[0] for warning in captured] == [
        f"{database}.hole has the engine BLACKHOLE",
        f"{database}.merged has the engine MRG_MYISAM",
    ]
    assert left_out == ()


@pytest.mark.parametrize(
    ("name", "value", "usual"),
    [
        ("binlog_format", "STATEMENT", "ROW"),
        ("binlog_format", "MIXED", "ROW"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_statement(mysql8: MySqlServer, name: str, value: str, usual: str) -> None:
    """Running that statement is enough."""
    with variable(mysql8, name, value, usual):
        with pytest.raises(SourceError, match=f"{name} is {value}") as caught:
            check(settings_of(mysql8))
        mysql8.execute(caught.value.hint.partition("Run ")[2].partition(";")[0])
        check(settings_of(mysql8))


def test_what_changed_of_a_document_is_refused_without_the_document(mysql8: MySqlServer) -> None:
    """Full before images are enough; minimal ones are not."""
    options = "binlog_row_value_options"
    with variable(mysql8, options, "PARTIAL_JSON", ""):
        assert check(settings_of(mysql8)).warnings == ()
        with variable(mysql8, "binlog_row_image", "MINIMAL", "FULL"):
            with pytest.raises(SourceError, match=f"{options} is PARTIAL_JSON") as caught:
                check(settings_of(mysql8))
            mysql8.execute(caught.value.hint.partition("Run ")[2].partition(";")[0])
            assert "binlog_row_image is MINIMAL" in check(settings_of(mysql8)).warnings[0]


def test_minimal_row_metadata_is_a_warning(mysql8: MySqlServer) -> None:
    """Names then come from information_schema."""
    with variable(mysql8, "binlog_row_metadata", "MINIMAL", "FULL"):
        assert "SET GLOBAL binlog_row_metadata = 'FULL'" in check(settings_of(mysql8)).warnings[0]


def test_a_server_without_binlog(new_mysql: MySqlFactory) -> None:
    """The hint has the lines for my.cnf."""
    server = new_mysql("8.0.31", log_bin=None, gtid_mode=None, enforce_gtid_consistency=None, skip_log_bin=True)
    with pytest.raises(SourceError, match="no binlog") as caught:
        check(settings_of(server))
    assert "log-bin=" in caught.value.hint
    server.stop()


@pytest.mark.parametrize("granted", ["SELECT", "SELECT, REPLICATION CLIENT", "REPLICATION SLAVE, REPLICATION CLIENT"])
def test_lacking_privileges_are_named(mysql8: MySqlServer, mariadb: MySqlServer, granted: str) -> None:
    """The error has the GRANT, and running it is enough."""
    for server in (mysql8, mariadb):
        server.execute(
            "DROP USER IF EXISTS poor@'%'",
            "CREATE USER poor@'%' IDENTIFIED BY 'p'",
            f"GRANT {granted} ON *.* TO poor@'%'",
        )
        settings = settings_of(server, user="poor", password="p")
        with pytest.raises(SourceError, match="lacks") as caught:
            check(settings)
        server.execute(caught.value.hint.removeprefix("Run ").removesuffix(";"))
        check(settings)


def test_privileges_of_a_role_count(mysql8: MySqlServer) -> None:
    """They count when the role is active."""
    mysql8.execute(
        "DROP ROLE IF EXISTS reader",
        "DROP USER IF EXISTS rolled@'%'",
        "CREATE ROLE reader",
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader",
        "CREATE USER rolled@'%' IDENTIFIED BY 'p' DEFAULT ROLE reader",
    )
    check(settings_of(mysql8, user="rolled", password="p"))


def test_the_servers_own_id_is_refused(mysql8: MySqlServer) -> None:
    """The error has the key that holds our id."""
    with pytest.raises(SourceError, match="server id 1 is already used by the server") as caught:
        check(settings_of(mysql8, slave_id=1))
    assert "canal.instance.mysql.slaveId" in caught.value.hint


def test_another_replicas_id_is_refused(mysql8: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of a dump that this host left behind is allowed."""
    settings = settings_of(mysql8, slave_id=777)
    conn = connect(settings)
    begin_dump(conn, settings, check_server(conn, settings), current_end(conn))
    check(settings)
    check(replace(settings, slave_id=778))
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    with pytest.raises(SourceError, match="server id 777 is already used by the replica"):
        check(settings)
    conn._force_close()
