"""How large a table is that a run would copy: by statistics of now, and by what it turns out to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.ddl import copies
from spark_jobs.lake.policies import Policies
from spark_jobs.snapshot.source import Source
from tests.support.shop import opened_shop, reading_source

pytestmark = pytest.mark.integration

_SIZE = "SELECT table_rows FROM information_schema.tables WHERE table_schema = '{}' AND table_name = 't'"
_ROWS = ", ".join(f"({number})" for number in range(5_000))


@pytest.mark.parametrize("name", ["mysql57", "mysql8", "mysql9", "mariadb"])
def test_the_statistics_are_of_now(name: str, request: pytest.FixtureRequest) -> None:
    """Also on a server that keeps them for a day once they were asked for."""
    server: MySqlServer = request.getfixturevalue(name)
    source = Source(server.host, server.port, server.user, server.password)
    with server.database() as database:
        server.execute("CREATE TABLE t (id INT PRIMARY KEY)", _SIZE.format(database), database=database)
        server.execute(f"INSERT INTO t VALUES {_ROWS}", database=database)
        assert 2_500 < (copies._rows(source, f"{database}.t") or 0) < 10_000
        assert copies._rows(source, f"{database}.u") == 0


@pytest.mark.in_turn
def test_a_copy_larger_than_thought_is_given_up(
    mysql8: MySqlServer, spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table stops with its remedy, and others go on; one that is not much larger is copied."""
    with opened_shop(mysql8, spark_remote, tmp_path) as plain, reading_source(plain) as reading:
        shop = replace(reading, lake=replace(reading.lake, policies=Policies(copy_rows=3)))
        shop.execute(
            *(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)" for table in ("small", "large", "other")),
            *(f"INSERT INTO {table} (id) VALUES (1), (2), (3), (4), (5), (6)" for table in ("small", "large", "other")),
            "INSERT INTO large (id) VALUES (7)",
        )
        assert shop.drain() == []
        monkeypatch.setattr(copies, "_rows", lambda *_: 1)
        shop.execute(
            "ALTER TABLE small MODIFY v VARCHAR(9)",
            "ALTER TABLE large MODIFY v VARCHAR(9)",
            "INSERT INTO other VALUES (9, 9)",
        )
        assert shop.drain() == [f"{shop.database}.large"]
        (stop,) = shop.connector.client_status().stopped
        assert "it has more than 6 rows" in stop.reason
        assert "sluice copy" in stop.hint
        assert shop.differences("small", "other") == {"small": (0, 0, 0), "other": (0, 0, 0)}


def test_a_table_that_is_gone_when_it_would_be_copied(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """It came from outside the filter, has rows in the next claim, and another name by now. The lake had none of its
    earlier rows: what it got since must not go to that name as all of it."""
    with (
        mysql8.database("away") as away,
        opened_shop(mysql8, spark_remote, tmp_path) as plain,
        reading_source(plain) as shop,
    ):
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
        shop.execute(f"RENAME TABLE t TO {away}.t")
        assert shop.drain() == []
        shop.execute(f"RENAME TABLE {away}.t TO t", "INSERT INTO t VALUES (100)", "ALTER TABLE t COMMENT 'x'")
        shop.execute("INSERT INTO t VALUES (101)", "RENAME TABLE t TO u")
        shop.drain(1)
        assert shop.connector.client_status().stopped == ()
        assert shop.differences("u") == {"u": (0, 0, 0)}


def test_a_view_in_place_of_a_table_to_be_copied(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """The table came from outside the filter and has rows in the next claim, before a view took its name."""
    with (
        mysql8.database("away") as away,
        opened_shop(mysql8, spark_remote, tmp_path) as plain,
        reading_source(plain) as shop,
    ):
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)", database=away)
        shop.execute(f"RENAME TABLE {away}.t TO t", "INSERT INTO t VALUES (100)", "ALTER TABLE t COMMENT 'x'")
        shop.execute("DROP TABLE t", "CREATE VIEW t AS SELECT 1 AS id", "CREATE OR REPLACE VIEW t AS SELECT 2 AS id")
        assert f"{shop.database}.t" in shop.drain(1)
        assert shop.connector.client_status().stopped == ()
        state = shop.lake.lake.state(shop.lake.lake.path(shop.database, "t"), "")
        assert state is None or state.dropped
