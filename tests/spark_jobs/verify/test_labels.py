"""ENUM and SET labels whose bytes are no text: the decoder and the oracle of the judge read the same."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_core.rows.net import plan_net, read
from cdc_core.schema.labels import declared_labels
from orchestration.stack.mysql.server import MySqlServer
from tests.support.annotated import annotated
from tests.support.binlog_files import capture
from tests.support.judge.oracle import describe, stream

TABLE = """
    CREATE TABLE {table} (
      id INT PRIMARY KEY, e ENUM(0xE4,'b'), s SET(0xE4,'b') DEFAULT 'b', f ENUM(0xFFFF,'ä'),
      eb ENUM('b',0xC3A4,0xFFFF) CHARACTER SET binary, sb SET('b',0xC3A4{last}) CHARACTER SET binary,
      el ENUM(0xE4,'b') CHARACTER SET latin1, er ENUM('a\\\\b',0x610A62,'it''s') CHARACTER SET ascii
    ) CHARACTER SET utf8mb4"""
ROWS = "(1,1,3,1,1,1,1,1), (2,2,1,2,2,2,2,2), (3,NULL,0,NULL,3,{all},NULL,3)"
SETS = {"mysql8": "", "mysql9": "", "mariadb": ",0xE4"}  # MySQL makes no SET of such labels in a binary column


@pytest.mark.integration
@pytest.mark.parametrize("fixture", SETS)
def test_labels_that_are_no_text(request: pytest.FixtureRequest, fixture: str) -> None:
    """Text in the column's character set is text; all else is `0x` and digits, in an ENUM and in each part of a SET."""
    server: MySqlServer = request.getfixturevalue(fixture)
    with server.database() as db:
        table, rows = f"{db}.t", ROWS.format(all=7 if SETS[fixture] else 3)
        statements = TABLE.format(table=table, last=SETS[fixture]), f"INSERT INTO {table} VALUES {rows}"
        slices, registry = annotated(server, capture(server, *statements))
        found = net_rows(slices, registry, table)
        with server.connect() as connection:
            asked = [row for batch in stream(connection, describe(connection, db, "t")) for row in batch.to_pylist()]

    assert found == {row["id"]: row for row in asked}
    assert [found[1][n] for n in ("e", "s", "f", "el")] == ["0xE4", "0xE4,b", "0xFFFF", "ä"]
    assert [found[n]["eb"] for n in (1, 2, 3)] == ["b", "ä", "0xFFFF"]
    assert found[2]["sb"] == "ä"
    assert found[3]["sb"] == ("b,ä,0xE4" if SETS[fixture] else "b,ä")
    assert [found[n]["er"] for n in (1, 2, 3)] == ["a\\b", "a\nb", "it's"]


@pytest.mark.integration
def test_labels_from_the_catalogue(mysql57: MySqlServer) -> None:
    """MySQL 5.7 logs no labels. Its catalogue escapes some characters."""
    with mysql57.database() as db:
        table = f"{db}.t"
        block = capture(
            mysql57,
            f"CREATE TABLE {table} (id INT PRIMARY KEY, e ENUM('a\\\\b',0x610A62,'it''s','x,y'))",
            f"INSERT INTO {table} VALUES (1,1), (2,2), (3,3), (4,4)",
        )
        slices, registry = annotated(mysql57, block)
        found = net_rows(slices, registry, table)

    assert [row["e"] for row in found.values()] == ["a\\b", "a\nb", "it's", "x,y"]


@pytest.mark.parametrize(
    ("declared", "labels"),
    [
        ("enum('a','b')", ("a", "b")),
        ("set('a,b)','''')", ("a,b)", "'")),
        ("ENUM('\\\\\\\\','\\\\n\\\\0','')", ("\\", "\n\0", "")),
        ("enum('a',x'e4')", ("a", "0xE4")),
        ("enum('a','", ()),
        ("int", ()),
    ],
)
def test_declared_labels(declared: str, labels: tuple[str, ...]) -> None:
    """A list that MySQL 5.7 has cut has no labels, rather than fewer."""
    assert declared_labels(declared.encode().decode("unicode_escape")) == labels


def net_rows(slices: Any, registry: Any, table: str) -> dict[int, dict[str, Any]]:
    plan = plan_net(slices, registry, table, None, 1)
    rows = [row for batch in read(plan, 0) for row in batch.to_pylist()]
    return {row["id"]: {name: row[name] for name in row if not name.startswith("_")} for row in rows}
