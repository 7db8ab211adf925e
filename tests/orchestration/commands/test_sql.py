"""`sluice sql`: what it prints, and that it only reads."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from rich.console import Console

from cdc_core.errors import ConfigError, LakeError, SluiceError
from orchestration.commands import sql
from orchestration.commands.sql import Reading, check_plan, reading, run
from spark_jobs.session import Sessions


def test_a_query_is_an_inner_one() -> None:
    """With one row more than is shown; comments in front and a semicolon at the end are no matter."""
    assert reading("SELECT 1;", 5) == Reading("SELECT * FROM (\nSELECT 1\n) LIMIT 6", is_query=True, shift=1)
    assert reading("-- why\n /* so */ WITH a AS (SELECT 1) TABLE a -- all", 0) == Reading(
        "SELECT * FROM (\nWITH a AS (SELECT 1) TABLE a -- all\n)", is_query=True, shift=0
    )
    assert reading(" show tables in shop ; ", 5) == Reading("show tables in shop", is_query=False, shift=0)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("SHOW x; -- done", "SHOW x"),
        ("SHOW x /* so */ ;\n ; /* done;\n */ -- ;", "SHOW x /* so */"),
        ("SHOW 'a; -- b'", "SHOW 'a; -- b'"),
        ("SHOW 'it\\'s ;'; --'", "SHOW 'it\\'s ;'"),
        ('SHOW "a;";', 'SHOW "a;"'),
        ("SHOW `a;`", "SHOW `a;`"),
        ("SHOW x; DROP TABLE y", "SHOW x; DROP TABLE y"),
    ],
)
def test_a_semicolon_ends_a_statement(text: str, sent: str) -> None:
    """With comments after it, and not one in a text; what follows it is Spark's to refuse."""
    assert reading(text, 1).statement == sent


@pytest.mark.parametrize(
    "plan",
    [
        "+- ScriptTransformation touch /tmp/x, [x#1], ScriptInputOutputSchema",
        "Project [reflect(java.lang.System, exit, 1, true) AS x#1]",
        "Project [a#1, concat(java_method(java.lang.System, getenv, HOME, true), b)]",
        "Filter (try_reflect(a, b) = 1)",
    ],
)
def test_a_plan_that_runs_a_program_is_refused(plan: str) -> None:
    """Wherever in it."""
    with pytest.raises(ConfigError, match="runs no programs"):
        check_plan(f"== Analyzed Logical Plan ==\n{plan}\n+- Relation")
    harmless = "transform(a#1, lambdafunction(x, x)), reflected(1), my_reflect#2, java_methods#3"
    check_plan(f"== Analyzed Logical Plan ==\nProject [{harmless}]")
    with pytest.raises(LakeError, match="no plan: Error"):
        check_plan("Error occurred during query planning: why")


@pytest.mark.parametrize("text", ["", " ;", "-- nothing", "/* nothing */"])
def test_an_empty_query_is_refused(text: str) -> None:
    """Before Spark is asked."""
    with pytest.raises(ConfigError, match="empty"):
        reading(text, 1)


class Spark(Sessions):
    """A Spark that answers with these columns and rows, or with an error; `at` are the statements that it got."""

    def __init__(self, names: list[str], rows: list[Row], error: str = "") -> None:
        super().__init__("sc://127.0.0.1:1")
        self.names, self.rows, self.error = names, rows, error
        self.at: list[str] = []

    @contextmanager
    def take(self) -> Iterator[Any]:
        yield self

    @property
    def conf(self) -> Any:
        return SimpleNamespace(set=lambda *_: None)

    def sql(self, text: str) -> Any:
        self.at.append(text)
        if self.error:
            raise AnalysisException(self.error)
        rows = [Row("== Analyzed Logical Plan =="), Row("Project")] if text.startswith("EXPLAIN") else self.rows
        return SimpleNamespace(columns=self.names, collect=lambda: rows)


def answered(
    monkeypatch: pytest.MonkeyPatch, names: list[str], *values: Any, error: str = "", as_json: bool = False
) -> Spark:
    """After `sluice sql` of one row."""
    spark = Spark(names, [Row(*names)(*values)] if values else [], error)
    monkeypatch.setattr(sql, "Sessions", lambda *_: spark)
    sql.run("\n\nSELECT 1", "", "", 5, as_json=as_json)
    return spark


def test_no_column_is_lost_in_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal names are refused before any row is read; a table has room for both."""
    with pytest.raises(ConfigError, match="several columns have the name id"):
        answered(monkeypatch, ["id", "n", "id"], 1, 2, 3, as_json=True)
    spark = answered(monkeypatch, ["id", "n", "id"], 1, 2, 3)

    assert capsys.readouterr().out.count(" id ") == 2
    assert spark.at == ["SELECT * FROM (\nSELECT 1\n) LIMIT 6", f"EXPLAIN EXTENDED {spark.at[0]}"]


def test_no_control_character_reaches_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of rows and names, in a table as in JSON; lines and tabs are nothing bad."""
    odd = "\x1b]0;title\x07\x9b2J\r\x7fa\tb"
    answered(monkeypatch, [f"n{odd}"], odd)
    table = capsys.readouterr().out
    answered(monkeypatch, [f"n{odd}"], odd, as_json=True)
    line = capsys.readouterr().out

    assert not set(table + line) & set("\x1b\x07\x9b\r\x7f")
    assert "\\x1b]0;title\\x07\\x9b2J\\x0d" in table
    assert json.loads(line) == {f"n{odd}": odd}


def test_a_wide_row_is_shown_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a terminal has no room for the table: nothing becomes an ellipsis."""
    screen = io.StringIO()
    monkeypatch.setattr(sql, "Console", lambda **_: Console(width=80, file=screen))
    names = [f"column_{number}" for number in range(20)]
    answered(monkeypatch, names, *(f"value-{number}" for number in range(19)), "long" * 60)
    shown = screen.getvalue()

    assert "…" not in shown
    assert re.search(r"row 1\ncolumn_0 +value-0 *\ncolumn_1 +value-1 *\n", shown)
    assert re.sub(r"\s", "", shown).endswith("long" * 60)
    answered(monkeypatch, ["id", "v"], 1, "x")
    assert "row" not in screen.getvalue()[len(shown) :]


def test_an_error_names_the_line_that_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the statement around it."""
    with pytest.raises(LakeError, match=r"line 4 pos 7;") as error:
        answered(monkeypatch, ["a"], error="[UNRESOLVED] a column \x1b. SQLSTATE: 42703; line 3 pos 7;\nplan")
    assert r"\x1b" in error.value.message
    with pytest.raises(ConfigError, match=r"\(line 3, pos 0\)"):
        answered(monkeypatch, ["a"], error="[PARSE_SYNTAX_ERROR] at 'x'. SQLSTATE: 42601 (line 2, pos 0)")


@pytest.mark.integration
def test_rows_are_printed(spark_remote: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a table, and as JSON with exact values; what is left out is said apart from them."""
    query = (
        "SELECT 1 AS id, 'grün [b]' AS name, 1.10BD AS price, X'00ff' AS bytes, NULL AS nothing, "
        "timestamp_ntz'2026-01-02 03:04:05.6' AS at, array(1, NULL) AS list, parse_json('{\"a\": [1.5]}') AS j, "
        "double('NaN') AS f UNION ALL SELECT 2, '', 0, X'', NULL, NULL, NULL, NULL, 1 ORDER BY id"
    )
    assert run(query, spark_remote, "", 1, as_json=True) == 0
    answer = capsys.readouterr()
    assert json.loads(answer.out) == {
        "id": 1,
        "name": "grün [b]",
        "price": "1.10",
        "bytes": "00ff",
        "nothing": None,
        "at": "2026-01-02 03:04:05.600000",
        "list": [1, None],
        "j": {"a": [1.5]},
        "f": "nan",
    }
    assert answer.err == "These are the first 1 rows; --limit 0 shows all.\n"
    assert run(query, spark_remote, "", 0, as_json=False) == 0
    table = capsys.readouterr().out
    assert all(word in table for word in ("name", "grün [b]", "1.10", "NULL", '{"a": [1.5]}'))
    assert run("SHOW DATABASES", spark_remote, "", 1, as_json=True) == 0


@pytest.mark.in_turn
@pytest.mark.integration
def test_nothing_that_writes_is_taken(spark_remote: str, tmp_path: Path) -> None:
    """However it is written. The error says what can be asked."""
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    target = f"delta.`{tmp_path / 't'}`"
    written = [
        f"INSERT INTO {target} VALUES (2)",
        f"WITH a AS (SELECT 2 AS id) INSERT INTO {target} SELECT id FROM a",
        f"FROM VALUES (2) AS a(id) INSERT INTO {target} SELECT id",
        f"SELECT 1); DELETE FROM {target}; (SELECT 1",
        f"SHOW DATABASES; DELETE FROM {target}",
        f"DELETE FROM {target}",
        f"BEGIN DELETE FROM {target}; END",
        "SET spark.sql.shuffle.partitions = 1",
        f"SELECT TRANSFORM(id) USING 'touch {tmp_path / 'ran'}' AS (x STRING) FROM range(1)",
        f"FROM range(1) SELECT TRANSFORM(id) USING 'touch {tmp_path / 'ran'}'",
        f"SELECT x FROM (MAP id USING 'touch {tmp_path / 'ran'}' AS x FROM range(1))",
    ]
    called = "'java.lang.System', 'setProperty', 'sluice', 'was here'"
    many = ", ".join(f"{number} AS c{number}" for number in range(60))
    for function in ("reflect", "java_method", "try_reflect", "`reflect`", "IDENTIFIER('ref' || 'lect')"):
        written += [f"SELECT {function}({called})", f"SELECT {many}, upper({function}({called})) AS x"]
    written += [
        f"SELECT 1 WHERE EXISTS (SELECT reflect({called}))",
        f"WITH a AS (SELECT system.builtin.reflect({called}) AS x) SELECT 1 FROM a WHERE x = 'y'",
        f"VALUES (reflect({called}))",
        f"SELECT * FROM IDENTIFIER(reflect({called}))",
    ]
    for statement in written:
        with pytest.raises(SluiceError):
            run(statement, spark_remote, "", 1, as_json=True)

    assert DeltaTable(str(tmp_path / "t")).version() == 0
    assert not (tmp_path / "ran").exists()
    with Sessions(spark_remote) as sessions, sessions.take() as spark:
        assert spark.sql("SELECT reflect('java.lang.System', 'getProperty', 'sluice')").collect()[0][0] in (
            None,
            "null",
        )


@pytest.mark.integration
def test_a_name_that_is_unknown_says_how_to_find_it(spark_remote: str) -> None:
    """And a Spark that is away is an error of its own."""
    with pytest.raises(LakeError) as error:
        run("SELECT * FROM shop.nowhere", spark_remote, "", 1, as_json=True)
    assert "SHOW DATABASES" in error.value.hint
    with pytest.raises(LakeError, match="does not answer"):
        run("SELECT 1", "sc://127.0.0.1:1", "", 1, as_json=True)
