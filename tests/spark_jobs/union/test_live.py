"""A union of three schemas, from a real source through the service and Spark: one long story."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Copy, Maintain, Reset, Verify
from spark_jobs.apply import united
from tests.support.union_trial import CREATE, Rows, UnionTrial, opened_union, plain


@pytest.fixture
def trial(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[UnionTrial]:
    with opened_union(mysql8, spark_remote, tmp_path) as trial:
        yield trial


@pytest.mark.in_turn(2)
@pytest.mark.integration
def test_a_union_is_the_sum_of_its_sources(trial: UnionTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, statements shard by shard, a shard that comes late, one that is emptied, one that goes; a killed run, a
    rewound one, a repair, a swap of names; Spark, too, reads the end."""
    a, b, c = trial.names
    for name in (a, b):
        trial.write(name, CREATE, f"INSERT INTO orders VALUES (1, 10, '{name}'), (2, 20, '{name}'), (3, 30, 'x')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source() - Rows({row for row in trial.at_source() if ("of", c) in row})

    begun = trial.shop.mysql.position()
    assert not trial.command(Copy(tables=[f"{c}.orders"])).failed
    assert trial.in_union() == trial.at_source()
    trial.write(a, "UPDATE orders SET n = 11 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    trial.write(c, "UPDATE orders SET what = 'new' WHERE id = 2", "INSERT INTO orders VALUES (4, 4, 'd')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()

    trial.write(a, "ALTER TABLE orders MODIFY n BIGINT, ADD note INT", "UPDATE orders SET n = 1 << 40, note = id")
    trial.write(b, "ALTER TABLE orders RENAME COLUMN what TO that", "INSERT INTO orders VALUES (5, 5, 'e')")
    trial.write(c, "ALTER TABLE orders DROP COLUMN what", "DELETE FROM orders WHERE id = 1")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()

    trial.write(b, "TRUNCATE TABLE orders", "INSERT INTO orders VALUES (6, 6, 'f'), (7, 7, 'g')")

    def dies(*_: Any) -> None:
        raise LakeError("killed", place="lake", hint="-")

    with monkeypatch.context() as patched:
        patched.setattr(united, "publish", dies)
        with pytest.raises(LakeError, match="killed"):
            trial.run()
    assert trial.in_union() != trial.at_source()
    trial.shop.lake.check_cursor(trial.shop.connector.client_status())
    assert trial.in_union() == trial.at_source()
    assert trial.run() == []

    trial.command(Reset(position=f"{begun[0]}:{begun[1]}", dry_run=False))
    trial.write(a, "INSERT INTO orders VALUES (8, 8, 'h', 8)")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()

    versions = {name: trial.table(name).version() for name in (a, c)}
    trial.table(b).delete("id = 6")
    found = trial.command(Verify())
    assert {*found.failed} == {"orders"}
    assert "1 rows missing" in found.failed["orders"]
    trial.command(Verify(tables=[f"{b}.orders"], repair=True))
    assert trial.in_union() == trial.at_source()
    assert versions == {name: trial.table(name).version() for name in (a, c)}

    assert not trial.command(Maintain()).failed
    assert DeltaTable(trial.path).vacuum(0, dry_run=True, enforce_retention_duration=False) == []
    swapped = f"{a}.orders TO {a}.aside, {b}.orders TO {a}.orders, {a}.aside TO {b}.orders"
    trial.write(a, f"RENAME TABLE {swapped}", "INSERT INTO orders VALUES (10, 10, 'j')")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    trial.write(a, "DROP TABLE orders")
    trial.write(c, "INSERT INTO orders VALUES (9, 9)")
    assert trial.run() == []
    assert trial.in_union() == trial.at_source()
    with trial.shop.lake.sessions.take() as spark:
        rows = spark.sql(f"SELECT * FROM delta.`{trial.path}`").toArrow().to_pylist()
    assert Rows(map(plain, rows)) == trial.at_source()
