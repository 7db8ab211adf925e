"""What a copy finds at the source under a table's name."""

from __future__ import annotations

import pytest

from cdc_core.errors import SourceError
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.result import NoSuchTable
from spark_jobs.load.view import Opened, opened
from spark_jobs.snapshot.source import Source

pytestmark = pytest.mark.integration


def test_views_and_sequences_are_no_tables(mariadb: MySqlServer) -> None:
    """A RENAME may name them like tables, and has nothing to copy then. A table with its history is refused."""
    source = Source(mariadb.host, mariadb.port, mariadb.user, mariadb.password)
    with mariadb.database() as shop:
        statements = ("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE VIEW v AS SELECT 1 AS a", "CREATE SEQUENCE s")
        statements += ("CREATE TABLE h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",)
        mariadb.execute(*statements, database=shop)
        found = {}
        for name in ("t", "v", "s", "absent"):
            with opened(source, shop, name, as_text=False, sleep=lambda _: None) as one:
                found[name] = type(one)
        history = opened(source, shop, "h", as_text=False, sleep=lambda _: None)
        with pytest.raises(SourceError, match="its history cannot be copied"), history:
            pass
    assert found == {"t": Opened, "v": NoSuchTable, "s": NoSuchTable, "absent": NoSuchTable}
