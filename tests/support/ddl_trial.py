"""One random script against a real server, its service, Spark and a lake, and what differs at the end.

A step is a statement, or one of `drain N` (claims of N rows; then all tables are compared), `follow N` (the same by a
run that copies no table: those that need it stop, and are copied as `sluice copy` does), `kill PLACE` (a run that ends
there), `rewind` (all cursors to where the script began) and `filter NAMES` (others are captured from the cursors on).
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql
from pymysql.connections import Connection

from cdc_core.schema.names import full_name
from orchestration.stack.mysql.server import MySqlServer
from tests.support.ddl_columns import Column
from tests.support.ddl_runs import PLACES, Runs, differences, killed
from tests.support.ddl_script import TABLES, Script, Table
from tests.support.filter_steps import FilterSteps, random_filter

_OURS = ("drain ", "follow ", "kill ", "rewind", "filter ")
_TABLES = """SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_type = 'BASE TABLE' AND table_schema IN (%s, %s) ORDER BY 1, 2"""
_COLUMNS = """SELECT table_schema, table_name, column_name, data_type, extra FROM information_schema.columns
    WHERE table_schema IN (%s, %s) ORDER BY table_schema, table_name, ordinal_position"""
_KEYS = """SELECT table_schema, table_name, column_name FROM information_schema.statistics
    WHERE index_name = 'PRIMARY' AND table_schema IN (%s, %s) ORDER BY table_schema, table_name, seq_in_index"""
_PARTS = """SELECT table_schema, table_name, partition_name FROM information_schema.partitions
    WHERE partition_name IS NOT NULL AND table_schema IN (%s, %s) ORDER BY 1, 2, partition_ordinal_position"""


@dataclass
class Outcome:
    """`steps`: what was executed. `parked`: why tables stopped; they were copied then. `copied`: how many copies.
    `differences`: what is not alike, by table; empty when all is well. `error`: what ended the script early."""

    steps: list[str] = field(default_factory=list)
    parked: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    copied: int = 0
    compared: int = 0
    differences: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def clean(self) -> bool:
        return not self.differences and not self.error

    @property
    def statements(self) -> int:
        """How many of the steps the source executed."""
        return sum(not is_ours(step) for step in self.steps)


def is_ours(step: str) -> bool:
    """Whether a step is none of the source's."""
    return step.startswith(_OURS)


def catalogue(connection: Connection[Any], databases: tuple[str, str]) -> list[Table]:
    """The base tables of both databases."""

    def rows(query: str) -> list[tuple[str, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(query, databases)
            return [tuple(str(value) for value in row) for row in cursor.fetchall()]

    columns, keys, parts = rows(_COLUMNS), rows(_KEYS), rows(_PARTS)
    return [
        Table(
            databases.index(database),
            name,
            tuple(Column(c[2], c[3], "GENERATED" in c[4]) for c in columns if c[:2] == (database, name)),
            tuple(k[2] for k in keys if k[:2] == (database, name)),
            tuple(p[2] for p in parts if p[:2] == (database, name)),
        )
        for database, name in rows(_TABLES)
    ]


def steps(rng: Random, script: Script, tables: list[Table], *, rewinds: bool, filters: bool) -> Iterator[str]:
    """Without an end; `tables` is looked at before each statement."""
    while True:
        draw = rng.random()
        if draw < 0.08:
            yield f"{rng.choice(('drain', 'drain', 'follow'))} {rng.choice((4, 30, 1000))}"
        elif draw < 0.12:
            yield f"kill {rng.choice(PLACES)}"
        elif draw < 0.125 and rewinds:
            yield "rewind"
        elif draw < 0.19 and filters:
            yield f"filter {random_filter(rng, TABLES)}"
        else:
            yield script.statement(tables)


@dataclass
class Trial:
    """`runs` are those of a shop that captures both `databases`; the second is made and dropped by the trial's owner.
    `start`: where the binlog was before."""

    runs: Runs
    databases: tuple[str, str]
    start: dict[str, Any]
    filters: FilterSteps

    def random(self, seed: int, count: int, *, cascades: bool, rewinds: bool, filters: bool = False) -> Outcome:
        """`count` random steps, then a comparison. Statements that the server refuses are not counted as executed."""
        rng, outcome = Random(seed), Outcome()
        script = Script(rng, self.databases, mariadb=self._mysql.version == "mariadb", cascades=cascades)
        with closing(self._session()) as connection:
            tables = catalogue(connection, self.databases)
            source = steps(rng, script, tables, rewinds=rewinds, filters=filters)
            while len(outcome.steps) < count and outcome.clean:
                self._step(connection, next(source), outcome)
                tables[:] = catalogue(connection, self.databases)
        return self._ended(outcome)

    def replay(self, script: list[str]) -> Outcome:
        """The steps of an earlier outcome, or some of them."""
        outcome = Outcome()
        with closing(self._session()) as connection:
            for step in script:
                self._step(connection, step, outcome)
                if not outcome.clean:
                    break
        return self._ended(outcome)

    @property
    def _mysql(self) -> MySqlServer:
        return self.runs.shop.mysql

    def _session(self) -> Connection[Any]:
        connection = self._mysql.root(self.databases[0])
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = '', foreign_key_checks = 1")
        return connection

    def _step(self, connection: Connection[Any], step: str, outcome: Outcome) -> None:
        verb, _, argument = step.partition(" ")
        if is_ours(step):
            connection.commit()  # its locks would hold up a copy
        try:
            if verb in ("drain", "follow"):
                self._drained(int(argument), verb == "drain", outcome)
            elif verb == "kill":
                with killed(argument):
                    self.runs.drain(30, copying=True)
            elif verb == "rewind":
                self._rewind()
            elif verb == "filter":
                self.filters.change(argument)
            elif not self._executed(connection, step):
                return
        except Exception as error:
            outcome.error = f"{step}: {type(error).__name__}: {error}"[:600]
        outcome.steps.append(step)

    def _executed(self, connection: Connection[Any], statement: str) -> bool:
        """False for a statement that the server refused, without a trace in the binlog: MySQL logs some that it calls
        failed."""
        before = self._mysql.position()
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        except pymysql.MySQLError:
            return self._mysql.position() != before
        return True

    def _drained(self, batch_size: int, copying: bool, outcome: Outcome) -> None:
        """Drains, copies what stopped, and compares every table."""
        self.runs.drain(batch_size, copying=copying)
        self.runs.repair(self.filters.captures)
        with closing(self._session()) as connection:
            tables = catalogue(connection, self.databases)
        found = [(self.databases[table.database], table.name) for table in tables]
        named = [one for one in found if self.filters.captures(full_name(*one))]
        self.filters.leave_out(self.runs.live(self.databases), {full_name(*one) for one in found})
        outcome.differences |= differences(self.runs, self.databases, named, self.filters.outside)
        outcome.compared += len(named)

    def _rewind(self) -> None:
        """All cursors go to where the script began; what comes next is another run's."""
        body = json.dumps({"to": self.start, "dry_run": False}).encode()
        url = f"{self.runs.shop.connector.http_url}/v1/destinations/shop/reset"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request).close()

    def _ended(self, outcome: Outcome) -> Outcome:
        if outcome.clean:
            try:
                self._drained(1000, True, outcome)
            except Exception as error:
                outcome.error = f"at the end: {type(error).__name__}: {error}"[:600]
        outcome.parked, outcome.warned, outcome.copied = self.runs.parked, self.runs.warned, self.runs.copied
        return outcome
