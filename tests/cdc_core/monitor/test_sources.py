"""Accounts for MySQL come from the environment or an option file, and a source is asked with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.errors import ConfigError
from cdc_core.monitor.sources import NO_ACCOUNT, AskedSource, MySqlAccounts, accounts_in, shown
from orchestration.stack.mysql.server import MySqlServer
from tests.support.pair import Pair

FILE = """
[client]
user = watcher
password = "p#w 1"
ssl-mode = REQUIRED
host = ignored

[mysqld]
skip-name-resolve

[db1:3306]
password='other'
host = 10.1.1.1
port = 3307
"""


def written(folder: Path, text: str) -> Path:
    (folder / "my.cnf").write_text(text)
    return folder / "my.cnf"


def test_an_option_file(tmp_path: Path) -> None:
    """`[client]` is for all, and a server's own group goes before it; quotes are no part of a password."""
    text = FILE.replace("[mysqld]\nskip-name-resolve\n", "")
    accounts = accounts_in(written(tmp_path, text))
    one, other = accounts.settings_of("db1:3306"), accounts.settings_of("db2:3306")

    assert one is not None
    assert other is not None
    assert (one.account, one.password, one.ssl_mode) == ("watcher@10.1.1.1:3307", "other", "REQUIRED")
    assert (other.account, other.password) == ("watcher@db2:3306", "p#w 1")
    assert "other" not in repr(one)
    assert "p#w" not in repr(accounts)


def test_groups_of_mysqls_programs_are_no_servers(tmp_path: Path) -> None:
    """A whole my.cnf can be given."""
    assert accounts_in(written(tmp_path, FILE)).settings_of("mysqld") is None


WRONG = [
    "",
    "user = x\n",
    "[client]\npassword = secret1\n",
    "secret1 secret1\n",
    "[db:x]\nuser = u\n",
    "[client\nx",
]


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    """The error names the file, and has nothing of what is in it."""
    with pytest.raises(ConfigError) as caught:
        accounts_in(written(tmp_path, text))

    assert "my.cnf" in str(caught.value.place)
    assert "secret1" not in f"{caught.value}{caught.value.__cause__}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The error says so."""
    with pytest.raises(ConfigError, match="No such file"):
        accounts_in(tmp_path / "none.cnf")


def test_without_an_account_nothing_is_asked() -> None:
    """The view says so, and no server is reached."""
    source = AskedSource("127.0.0.1:1", MySqlAccounts.of("", "").settings_of("127.0.0.1:1"))

    assert source.ask(7.0).error == NO_ACCOUNT


def test_a_server_that_is_away() -> None:
    """The view says so; the password is nowhere."""
    found = AskedSource("127.0.0.1:1", MySqlAccounts.of("u", "secret1").settings_of("127.0.0.1:1")).ask(7.0)

    assert "cannot be reached" in found.error
    assert "secret1" not in repr(found)


@pytest.mark.integration
def test_a_server_is_asked(mysql8: MySqlServer) -> None:
    """The newest place and the files, over one connection that is made again when it was ended."""
    mysql8.execute("CREATE USER IF NOT EXISTS monitor_sees@'%' IDENTIFIED BY 'x'")
    mysql8.execute("GRANT REPLICATION CLIENT ON *.* TO monitor_sees@'%'")
    address = f"127.0.0.1:{mysql8.port}"
    source = AskedSource(address, MySqlAccounts.of("monitor_sees", "x").settings_of(address))
    found = source.ask(7.0)
    name, offset = mysql8.position()

    assert found.journals is not None
    assert (found.journals.end.journal_name, found.error, found.behind) == (name, "", None)
    assert found.journals.end.position <= offset
    assert found.keep > 0
    mysql8.execute("ALTER USER monitor_sees@'%' IDENTIFIED BY 'y'")
    assert source.ask(8.0).error == ""  # the connection was there before
    source.close()
    assert "refuses the account (1045)" in source.ask(9.0).error


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql57", "mysql9", "mariadb"])
def test_servers_of_each_kind_are_asked(request: pytest.FixtureRequest, name: str) -> None:
    """With REPLICATION CLIENT alone, in the words of each version."""
    server: MySqlServer = request.getfixturevalue(name)
    server.execute(
        "DROP USER IF EXISTS monitor_sees@'%'",
        "CREATE USER monitor_sees@'%' IDENTIFIED BY 'x'",
        "GRANT REPLICATION CLIENT ON *.* TO monitor_sees@'%'",
    )
    address = f"127.0.0.1:{server.port}"
    source = AskedSource(address, MySqlAccounts.of("monitor_sees", "x").settings_of(address))
    found = source.ask(7.0)
    source.close()

    assert (found.error, found.behind) == ("", None)
    assert found.journals is not None
    assert found.journals.index(found.journals.end) == len(found.journals.logs) - 1


@pytest.mark.integration
def test_a_replica_says_how_far_it_is_behind(tmp_path: Path) -> None:
    """Its own source is the first place where rows may wait."""
    pair = Pair.start(tmp_path, gtid=False)
    try:
        pair.caught_up()
        pair.replica.execute(
            "CREATE USER monitor_sees@'%' IDENTIFIED BY 'x'", "GRANT REPLICATION CLIENT ON *.* TO monitor_sees@'%'"
        )
        address = f"127.0.0.1:{pair.replica.port}"
        source = AskedSource(address, MySqlAccounts.of("monitor_sees", "x").settings_of(address))
        found = source.ask(7.0)
        source.close()
    finally:
        pair.stop()

    assert (found.error, found.behind) == ("", 0.0)


@pytest.mark.integration
def test_an_account_that_may_not_see(mysql8: MySqlServer) -> None:
    """The view says which privilege is missing."""
    mysql8.execute("CREATE USER IF NOT EXISTS monitor_blind@'%' IDENTIFIED BY 'x'")
    address = f"127.0.0.1:{mysql8.port}"
    found = AskedSource(address, MySqlAccounts.of("monitor_blind", "x").settings_of(address)).ask(7.0)

    assert "lacks a privilege (1227)" in found.error
    assert "REPLICATION CLIENT" in found.error
    assert found.journals is None


def test_an_error_is_a_line_that_no_terminal_obeys() -> None:
    """Any server may have written it: a cursor names it."""
    assert shown("denied\x1b[2J\nfor 'x'\ud800") == "denied [2J for 'x' "
    assert len(shown("x" * 9000)) == 500
