"""Snapshots under random DML, drains, and runs and services that die: the lake is what the source is.

`make soak SNAPSHOTS=1` takes more of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.stack.mysql.server import MySqlServer
from tests.support.snapshot_soak import SnapshotSoak

pytestmark = [pytest.mark.integration, pytest.mark.full]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "seed", "gtid", "tables"),
    [
        ("mysql57", 102, True, ("padded", "copies")),
        ("mysql8", 310, False, ("composite", "sparse", "uniq")),
        ("mysql9", 401, True, ("word", "some")),
        ("mariadb", 201, True, ("moment", "uniq")),
    ],
)
def test_the_lake_is_what_the_source_is(
    name: str, seed: int, gtid: bool, tables: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Tables with keys of all kinds, and without one, after snapshots that are killed, cancelled and begun again."""
    mysql: MySqlServer = request.getfixturevalue(name)
    outcome = SnapshotSoak(mysql, tmp_path, seed, gtid=gtid, names=tables).run(1)
    assert outcome.clean, outcome
