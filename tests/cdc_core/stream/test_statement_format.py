"""What real servers write for changes that sessions log as statements."""

from __future__ import annotations

import pytest

from cdc_core.errors import DecodeError
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.sql_text import Dialect, without_literals
from cdc_core.stream.annotate import Annotator
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import capture

pytestmark = pytest.mark.integration

ANYWHERE = ('INSERT INTO "t" VALUES (1)', "INSERT/*!50000 INTO */t VALUES (1)", "/* a /*! b */ DELETE FROM t")
NEWER = (*ANYWHERE, "CREATE TABLE t2 TABLE t", "CREATE TABLE t3 VALUES ROW(1)")
MARIA = (
    *ANYWHERE,
    "SET STATEMENT max_statement_time=9 FOR INSERT INTO t VALUES (1)",
    "SET STATEMENT max_statement_time=9 FOR CREATE TABLE t2 SELECT 1",
    "ANALYZE FORMAT=JSON UPDATE t SET a = 2",
    "CREATE TABLE t3 AS VALUES (1)",
    "CREATE TABLE t4 (a INT) /*M!100000 SELECT 1 AS a */",
)


@pytest.mark.parametrize(
    ("fixture", "statements"), [("mysql8", NEWER), ("mysql57", ANYWHERE), ("mysql9", NEWER), ("mariadb", MARIA)]
)
def test_no_change_of_a_captured_table_passes(
    request: pytest.FixtureRequest, fixture: str, statements: tuple[str, ...]
) -> None:
    """Each is refused with its text but for values, however a server lets it be written."""
    server: MySqlServer = request.getfixturevalue(fixture)
    with server.database() as db:
        server.execute("CREATE TABLE t (a INT)", database=db)
        session = (f"USE {db}", "SET SESSION binlog_format = STATEMENT, SESSION sql_mode = 'ANSI_QUOTES'")
        for statement in statements:
            block = capture(server, *session, statement)
            with pytest.raises(DecodeError, match="statement-format change") as caught:
                _annotator().annotate(block)
            dialect = Dialect(mariadb=fixture == "mariadb", ansi_quotes=True)
            assert repr(without_literals(statement, dialect)) in caught.value.message


@pytest.mark.parametrize("fixture", ["mysql8", "mysql57", "mysql9", "mariadb"])
def test_what_changes_no_captured_row_passes(request: pytest.FixtureRequest, fixture: str) -> None:
    """Neither a table that is left out nor a comment that the server does not run stops a destination."""
    server: MySqlServer = request.getfixturevalue(fixture)
    with server.database() as db:
        block = capture(
            server,
            f"USE {db}",
            "SET SESSION binlog_format = STATEMENT, SESSION sql_mode = 'ANSI_QUOTES'",
            'CREATE TABLE "a SELECT" (a INT) /*!99999 SELECT 1 */',
            'INSERT INTO "a SELECT" VALUES (1)',
            f"CREATE TABLE {db}.table (a INT)",
        )
    _annotator().annotate(block)


def _annotator() -> Annotator:
    return Annotator(SchemaRegistry(), lambda schema, _: schema, lambda _, table: table[0] == "t" and table != "table")
