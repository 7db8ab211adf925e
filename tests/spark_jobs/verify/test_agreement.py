"""The comparison and the independent judge: random damage to tables of every type, with a key and without."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.verify.verified import Comparison
from tests.support import type_matrix
from tests.support.marks import in_turn, mostly_full
from tests.support.matrix_runs import grouped
from tests.support.quiet_source import quiet_source
from tests.support.shop import Shop, opened_shop
from tests.support.small_lake import brought, found_beside

pytestmark = pytest.mark.integration
NO_SPARK = "sc://127.0.0.1:1"
_MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


def damaged(rows: pa.Table, rng: random.Random) -> pa.Table:
    """Rows of which a few are gone, are there twice, or have one cell of another row or none."""
    columns = [column.combine_chunks() for column in rows.columns]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(1, len(columns))
        taken = np.arange(rows.num_rows)
        taken[rng.randrange(rows.num_rows)] = rng.randrange(rows.num_rows)
        one = rng.randrange(rows.num_rows)
        chosen = pa.array([None if n == one and rng.random() < 0.5 else int(n) for n in taken], pa.int64())
        columns[at] = columns[at].take(chosen)
    kept = [n for n in range(rows.num_rows) if rng.random() > 0.02]
    return pa.Table.from_arrays(columns, schema=rows.schema).take(pa.array(kept, pa.int64()))


def tables(shop: Shop, family: str) -> list[str]:
    """A table with a key and one without, of the same columns, with the family's values; the first ones twice in the
    one without."""
    cases = getattr(type_matrix, family)(random.Random(family))
    names = []
    for group in grouped(cases)[:1]:
        copies = f"{group.table}_copies"
        shop.execute(_MODE, group.ddl, *group.inserts())
        shop.execute(_MODE, f"CREATE TABLE {copies} LIKE {group.table}", f"ALTER TABLE {copies} DROP PRIMARY KEY")
        shop.execute(_MODE, f"INSERT INTO {copies} SELECT * FROM {group.table}")
        shop.execute(_MODE, f"INSERT INTO {copies} SELECT * FROM {group.table} WHERE id < 3")
        names += [group.table, copies]
    return names


def check(shop: Shop, table: str) -> Comparison:
    """Both ways find the same. Returns what they find."""
    (judged,) = shop.compared(table)
    found = found_beside(shop, table)
    assert (found.comparison, found.definition) == (judged.comparison, judged.definition), found
    assert found.comparison is not None, found.error
    return found.comparison


WHOLE = ("mysql8", "mariadb", *in_turn(("mysql57", "mysql9", "")))
CASES = [
    (server, family)
    for server in ("mysql8", "mysql57", "mysql9", "mariadb")
    for family in (*(type_matrix.FAMILIES if server in WHOLE else ()), *type_matrix.OWN.get(server, ()))
]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("server", "family"),
    mostly_full(CASES, lambda case: case[0] == "mysql8" or case[1] in type_matrix.OWN.get(case[0], ())),
)
def test_every_damage_is_found(server: str, family: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Also where no row is damaged but one cell of it."""
    rng = random.Random(f"{server} {family}")
    with quiet_source(), opened_shop(request.getfixturevalue(server), NO_SPARK, tmp_path) as shop:
        for table in tables(shop, family):
            path = brought(shop, table)
            right = DeltaTable(path).to_pyarrow_table()
            assert check(shop, table).missing == 0
            write_deltalake(path, damaged(right, rng), mode="overwrite")
            check(shop, table)
            at, row = rng.randrange(1, right.num_columns), rng.randrange(right.num_rows)
            column = right.column(at).combine_chunks()
            chosen = pa.array([None if n == row else n for n in range(right.num_rows)], pa.int64())
            cell = right.set_column(at, right.schema.field(at), column.take(chosen))
            write_deltalake(path, cell, mode="overwrite")
            found = check(shop, table)
            assert (found.different + found.missing == 1) == (column[row].is_valid), right.column_names[at]
