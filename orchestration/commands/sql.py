"""`sluice sql`: the rows of a query, by the names of the catalog or by path. It only reads.

A query is sent as the inner one of a SELECT, where Spark takes nothing that writes, after its plan was looked at: some
expressions run programs, or methods of Java. SHOW, DESCRIBE and EXPLAIN are sent as they are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Row
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import VariantVal
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cdc_core.errors import ConfigError, LakeError
from spark_jobs.lake.failures import first_line
from spark_jobs.session import Sessions, is_gone

_COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<nothing>\s+|--[^\n]*|/\*.*?\*/)|(?P<end>;)|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|.""", re.DOTALL
)
_SHOWING = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")
_READ_ONLY = "sluice sql only reads: write SELECT, WITH, VALUES, TABLE, SHOW, DESCRIBE or EXPLAIN."
_UNKNOWN = (
    "SHOW DATABASES and SHOW TABLES IN a database list the names; `catalog` in defs.yaml gives them (docs/catalog.md). "
    "Without names: SELECT * FROM delta.`LAKE/shop/orders`."
)
_RUNS = re.compile(r"\bScriptTransformation\b|\b(?:try_)?reflect\(|\bjava_method\(", re.IGNORECASE)
_WHOLE_PLANS = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxPlanStringLength": "2147483632"}
_ANALYZED = "== Analyzed Logical Plan =="
_LINE = re.compile(r"\bline (\d+)(?=,? pos \d)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WIDE = 1_000_000  # columns where the output is no terminal: nothing is cut


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement for Spark. `is_query`: it is a SELECT around the text, and has a plan. `shift`: by how many lines the
    text begins later there than the user wrote it."""

    statement: str
    is_query: bool
    shift: int


def run(sql: str, spark: str, spark_token: str, limit: int, *, as_json: bool) -> int:
    """Prints the rows, at most `limit` if it is not 0. Raises ConfigError for what is no query, LakeError for one that
    Spark refuses, and for a Spark that is down."""
    asked = reading(sql, limit)
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True  # it prints Java's frames in addition to our error
    with Sessions(spark, spark_token) as sessions, sessions.take() as session:
        session.conf.set("spark.sql.caseSensitive", "false")  # as in any other session of Spark
        try:
            answer = session.sql(asked.statement)  # a query is analysed, and runs when its rows are collected
            if asked.is_query:
                check_plan(_plan(session, asked.statement))
            names = _columns(answer.columns, as_json=as_json)
            rows = answer.collect()
        except PySparkException as error:
            if is_gone(error):
                raise
            raise _refused(error, asked.shift) from error
    more = bool(limit) and len(rows) > limit
    shown = rows[:limit] if limit else rows
    if as_json:
        for row in shown:
            print(_json(dict(zip(names, map(plain, row), strict=True))))
    else:
        _show(names, shown)
    if more:
        print(f"These are the first {limit} rows; --limit 0 shows all.", file=sys.stderr)
    return 0


def reading(sql: str, limit: int) -> Reading:
    """Returns the statement for Spark, which writes nothing and has one row more than `limit` if there are more. Raises
    ConfigError for an empty text."""
    start = len(_COMMENTS.match(sql)[0])  # type: ignore[index]
    text, before = _without_end(sql[start:]), sql.count("\n", 0, start)
    if not text:
        raise ConfigError("the query is empty", place="sluice sql", hint=_READ_ONLY)
    if text.split(None, 1)[0].upper() in _SHOWING:
        return Reading(text, is_query=False, shift=-before)
    query = f"SELECT * FROM (\n{text}\n){f' LIMIT {limit + 1:d}' if limit else ''}"  # noqa: S608
    return Reading(query, is_query=True, shift=1 - before)


def check_plan(plan: str) -> None:
    """Raises ConfigError for a query that runs a program or a method of Java. `plan` has all of Spark's plans for it:
    views and functions are those that they stand for. Raises LakeError where Spark shows none."""
    if _ANALYZED not in plan:
        hint = "The Spark server's log has the whole error."
        raise LakeError(f"Spark shows no plan: {printable(plan.strip()[:500])}", place="sluice sql", hint=hint)
    if found := _RUNS.search(plan):
        what = found[0].rstrip("(")
        hint = "Leave out TRANSFORM, reflect, try_reflect and java_method, also in views; and texts that look so."
        raise ConfigError(f"sluice sql runs no programs, and the query has {what}", place="sluice sql", hint=hint)


def _plan(session: SparkSession, statement: str) -> str:
    """Returns the plans of a query, nothing of them left out."""
    for key, value in _WHOLE_PLANS.items():
        session.conf.set(key, value)
    return "\n".join(row[0] for row in session.sql(f"EXPLAIN EXTENDED {statement}").collect())


def _without_end(text: str) -> str:
    """Returns the text without the `;` at its end, and what comments follow it."""
    end = len(text)
    for token in reversed(list(_TOKEN.finditer(text))):
        if token["end"]:
            end = token.start()
        elif not token["nothing"]:
            break
    return text[:end].rstrip()


def _columns(names: Sequence[str], *, as_json: bool) -> Sequence[str]:
    """Returns the names. Raises ConfigError for equal ones, of which JSON would have one value."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if as_json and twice:
        hint = "Give them names of their own: SELECT a.id AS a_id, b.id AS b_id."
        raise ConfigError(f"several columns have the name {twice[0]}", place="sluice sql", hint=hint)
    return names


def _refused(error: PySparkException, shift: int) -> Exception:
    text = printable(_LINE.sub(lambda found: f"line {int(found[1]) - shift:d}", first_line(error)))
    if "PARSE_SYNTAX_ERROR" in text:
        return ConfigError(f"Spark does not take this as a query: {text}", place="sluice sql", hint=_READ_ONLY)
    hint = _UNKNOWN if "NOT_FOUND" in text else "Correct the query; the Spark server's log has the whole error."
    return LakeError(text, place="sluice sql", hint=hint)


def _show(names: Sequence[str], rows: Sequence[Row]) -> None:
    """Prints a table; one that is too wide for the terminal row by row, each column in its own line."""
    console = Console() if sys.stdout.isatty() else Console(width=_WIDE)
    table = Table()
    for name in names:
        table.add_column(Text(printable(name)))
    for row in rows:
        table.add_row(*map(_cell, row))
    if Measurement.get(console, console.options.update(max_width=_WIDE), table).minimum <= console.width:
        console.print(table)
        return
    for number, row in enumerate(rows, 1):
        console.print(Text(f"row {number}", "bold"))
        lines = Table.grid(padding=(0, 2))
        for name, value in zip(names, row, strict=True):
            lines.add_row(Text(printable(name), overflow="fold"), _cell(value))
        console.print(lines)


def _cell(value: Any) -> Text:
    simple = plain(value)
    if simple is None:
        return Text("NULL", "dim")
    return Text(printable(simple) if isinstance(simple, str) else _json(simple), overflow="fold")


def printable(text: str) -> str:
    """Returns the text with control characters as escapes: a terminal would obey them."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _json(value: Any) -> str:
    """Returns JSON without control characters."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Returns the value as JSON has it: exact numbers and times as text, bytes in hexadecimal digits."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)  # JSON has no NaN and no infinity
        case bytes() | bytearray():
            return value.hex()
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case VariantVal():
            return json.loads(value.toJson())
        case Row():
            return {name: plain(one) for name, one in value.asDict().items()}
        case dict():
            return {str(plain(key)): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return str(value)
