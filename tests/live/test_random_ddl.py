"""Random DDL and DML at real servers, with rewinds and runs that die: the lake is what the source is.

`make soak` runs such scripts for as long as one likes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from tests.support.ddl_soak import opened_trial

pytestmark = [pytest.mark.integration, pytest.mark.full]

_STEPS = 45


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "seed", "filters"), [("mysql8", 1000, False), ("mariadb", 3001, False), ("mysql8", 2, True)]
)
def test_the_lake_is_what_the_source_is(
    name: str, seed: int, filters: bool, request: pytest.FixtureRequest, spark_remote: str, tmp_path: Path
) -> None:
    """Rows, types, names, order and comments of every table, and no table more, after each drain and at the end. What
    stops is reloaded by a copy. With `filters` the destination captures other tables now and then."""
    mysql: MySqlServer = request.getfixturevalue(name)
    with opened_trial(mysql, spark_remote, tmp_path) as trial:
        outcome = trial.random(seed, _STEPS, cascades=not filters, rewinds=True, filters=filters)
    assert outcome.clean, (outcome.differences, outcome.error, outcome.steps)
    assert outcome.compared
