"""Small scripts that once made the lake wrong: at the end source and lake are alike, and no table has stopped.

A script is a file of `tests/fixtures/cases`. Its first line names the server, and options of it:
`-- server: mariadb binlog-row-image=MINIMAL`. The next line says what went wrong. Then there is one statement a line.
`-- @capture`: the capture begins here, not before the first statement. `-- @drain`: a run takes what has come, and all
tables are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymysql.connections import Connection

from cdc_core import config
from orchestration.stack.mysql.server import MySqlServer
from tests.support.ddl_runs import Runs, differences
from tests.support.ddl_trial import catalogue
from tests.support.marks import in_turn
from tests.support.servers import MySqlFactory
from tests.support.shop import opened_shop

pytestmark = pytest.mark.integration

CASES = sorted(path.stem for path in Path("tests/fixtures/cases").glob("*.sql"))
LONG = ("cascade-chains", "cascade-keys", "rename-of-pairs", "f12-hidden-columns-of-8015")  # of 15 seconds or more
SLOW = ("cascade-chains", "rename-among-rows")  # one by one they take minutes
_FIXTURES = {"8.0.31": "mysql8", "5.7.22": "mysql57", "9": "mysql9", "mariadb": "mariadb"}
_CAPTURE, _DRAIN = "@capture", "@drain"


def _in_order(name: str) -> bool:
    """Whether the case is of statements and rows that depend on each other: where claims end matters there. What is
    ahead of the lake in `cascade-ahead` is so in one claim alone."""
    order = ("cascade-chains", "cascade-keys", "rename", "f09", "f10", "f11", "f14", "f15", "f18", "f19")
    return name.startswith(order) and (name not in SLOW or name in in_turn(SLOW))


@dataclass(frozen=True)
class Case:
    """`before`: statements before the capture. `steps`: statements and drains after it."""

    version: str
    options: dict[str, str]
    before: list[str]
    steps: list[str]


def read(name: str) -> Case:
    lines = Path("tests/fixtures/cases", f"{name}.sql").read_text().splitlines()
    version, *options = lines[0].removeprefix("-- server:").split()
    marks = {f"-- {mark}": mark for mark in (_CAPTURE, _DRAIN)}
    steps = [marks.get(line, line.rstrip(";")) for line in lines if line in marks or not line.startswith("--")]
    begin = steps.index(_CAPTURE) if _CAPTURE in steps else -1
    named = dict(option.split("=", 1) for option in options)
    return Case(version, named, steps[: max(0, begin)], steps[begin + 1 :])


@pytest.fixture(scope="module")
def server(new_mysql: MySqlFactory, request: pytest.FixtureRequest) -> Callable[[Case], MySqlServer]:
    """The server of a case: the session's, or one with the case's options."""
    made: dict[str, MySqlServer] = {}

    def of(case: Case) -> MySqlServer:
        if not case.options and case.version in _FIXTURES:
            found: MySqlServer = request.getfixturevalue(_FIXTURES[case.version])
            return found
        key = f"{case.version} {case.options}"
        if key not in made:
            options = {name.replace("-", "_"): value for name, value in case.options.items()}
            made[key] = new_mysql(case.version, **options)
        return made[key]

    return of


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "each"),
    [
        *(pytest.param(name, False, id=f"{name}-at_once", marks=[pytest.mark.full] * (name in LONG)) for name in CASES),
        *(
            pytest.param(name, True, id=f"{name}-one_by_one", marks=pytest.mark.full)
            for name in filter(_in_order, CASES)
        ),
    ],
)
def test_the_lake_is_what_the_source_is(
    name: str, each: bool, server: Callable[[Case], MySqlServer], spark_remote: str, tmp_path: Path
) -> None:
    """Whether the statements come in one claim or in one each. What is before a first `@drain` always comes in one."""
    case = read(name)
    mysql = server(case)
    with mysql.database("case") as database:
        with closing(mysql.root(database)) as connection:
            _execute(connection, case.before)
        keys = {"sluice_zero_dates": "null", "canal_instance_filter_regex": f"{database}\\\\..*"}
        with (
            opened_shop(mysql, spark_remote, tmp_path, **keys) as shop,
            closing(mysql.root(database)) as connection,
        ):
            runs = Runs(shop, config.load_instance(tmp_path / "conf", "shop")[0])
            first = case.steps.index(_DRAIN) if _DRAIN in case.steps else 0
            for number, step in enumerate([*case.steps, _DRAIN]):
                if step != _DRAIN:
                    _execute(connection, [step])
                if step == _DRAIN or (each and number >= first):
                    runs.drain(1000, copying=True)
                    assert not runs.parked, (step, runs.parked)
                    with closing(mysql.root()) as other:
                        tables = [(database, table.name) for table in catalogue(other, (database, database))]
                    assert not (found := differences(runs, [database], tables)), (step, found)


def _execute(connection: Connection[Any], statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
