"""What people do to shards, from a real source through the service and Spark: undo, redo, restore, roll back, rewind,
and rows that wait. Each shard's rows are touched alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import ConfigError, LakeError
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Copy, Drop, Redo, Replay, Requeue, Restore, Rollback, Undo, Verify
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.lake.features import VECTORS, features_of
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.undo.commit import Corrector
from spark_jobs.union.publish import publish
from tests.support.union_trial import CREATE, Rows, UnionTrial, opened_union

pytestmark = pytest.mark.integration
ELSEWHERE = {"id": 1, "n": 77, "of": "elsewhere"}  # a row of another destination's shard
SMALL = Expectation("small", Bounded(0, 99), ("n",), Severity.QUARANTINE)


@pytest.fixture
def trial(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[UnionTrial]:
    """Its union has a shard of another destination too."""
    with opened_union(mysql8, spark_remote, tmp_path) as trial:
        for name in trial.names[:2]:
            trial.write(name, CREATE, "INSERT INTO orders VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
        assert trial.run() == []
        assert not trial.command(Copy(tables=[f"{trial.names[2]}.orders"])).failed
        union = Union("all.orders", r"(elsewhere)\.orders", ("of",))
        other = Lake(trial.shop.lake.lake.root, unions=Unions("other", (union,)))
        path, rows = other.path("elsewhere", "orders"), pa.table({"id": pa.array([1], pa.int32()), "n": [77]})
        rows = rows.set_column(1, "n", rows["n"].cast(pa.int32()))
        noted = {DESTINATION: "other", TABLE: "elsewhere.orders"}
        DeltaTable.create(path, rows.schema, configuration=noted, raise_if_key_not_exists=False)
        write_deltalake(path, rows, mode="append")
        assert publish(other, union).added == 1
        yield trial


def in_union(trial: UnionTrial) -> Rows:
    """The rows of the destination's shards. That of the other destination is always there, once."""
    found = trial.in_union()
    there = frozenset(ELSEWHERE.items())
    assert found.pop(there) == 1
    return found


def of(rows: Rows, *names: str) -> Rows:
    return Rows({row: count for row, count in rows.items() if dict(row)["of"] in names})


def changed(trial: UnionTrial) -> str:
    """A batch that changes, deletes and inserts rows of `a`, and changes one of `b`. Returns its number."""
    a, b, _ = trial.names
    trial.write(
        a, "UPDATE orders SET n = 11 WHERE id = 1", "DELETE FROM orders WHERE id = 2",
        "INSERT INTO orders VALUES (4, 40, 'd')", f"UPDATE {b}.orders SET n = 21 WHERE id = 2",
    )  # fmt: skip
    assert trial.run() == []
    noted = trial.shop.lake.ledger.opened()
    assert noted is not None
    return str(max(noted.to_pyarrow_table(columns=["batch_id"]).column(0).to_pylist()))


def versions(trial: UnionTrial, *names: str) -> list[int]:
    return [trial.table(name).version() for name in names]


@pytest.mark.in_turn
@pytest.mark.parametrize("small", [True, False])
def test_an_undo_of_a_shard_touches_its_rows_alone(trial: UnionTrial, small: bool) -> None:
    """By delta-rs and by Spark: the union has what the shard has, `verify` knows it, a redo takes it back. Given the
    union's name the undo is of all shards. The stream goes on."""
    a, b, c = trial.names
    before, number = trial.at_source(), changed(trial)
    after, others = trial.at_source(), versions(trial, b, c)
    with mock.patch.object(Corrector, "_is_small", return_value=small):
        assert not trial.command(Undo(batch=number, tables=[f"{a}.orders"], dry_run=False)).failed
        assert in_union(trial) == of(before, a) + of(after, b, c)
        assert versions(trial, b, c) == others
        assert not trial.command(Verify()).failed
        with pytest.raises(ConfigError, match="a union of 3 tables"):
            trial.command(Redo(number=1, tables=["all.orders"], dry_run=False))
        assert not trial.command(Redo(number=1, dry_run=False)).failed
        assert in_union(trial) == after
        assert versions(trial, b, c) == others
        assert not trial.command(Undo(batch=number, tables=["all.orders"], dry_run=False)).failed
        assert in_union(trial) == before
        assert not trial.command(Replay(batch=number, tables=[f"{b}.orders"], dry_run=False)).failed
    assert in_union(trial) == of(before, a, c) + of(after, b)
    assert not any(VECTORS in features_of(trial.table(name)) for name in trial.names)
    trial.write(a, "UPDATE orders SET n = n + 1", f"REPLACE INTO {a}.orders VALUES (2, 2, 'again')")
    trial.write(a, "DELETE FROM orders WHERE id = 4")
    assert trial.run() == []
    assert in_union(trial) == trial.at_source()


def test_a_restore_sets_the_shards_back_together(trial: UnionTrial) -> None:
    """Also one that was emptied, and one whose columns changed since; rows of another destination stay. Killed before
    the union is published, the next run makes up for it. Read on, the union has the source's rows."""
    _, b, c = trial.names
    place, before = str(trial.shop.connector.client_status().cursor), trial.at_source()
    changed(trial)
    trial.write(b, "ALTER TABLE orders ADD note INT", "INSERT INTO orders VALUES (9, 9, 'i', 9)")
    trial.write(c, "TRUNCATE TABLE orders", "INSERT INTO orders VALUES (7, 7, 'g')")
    assert trial.run() == []
    assert in_union(trial) == trial.at_source()
    assert trial.command(Restore(to=place)).done
    with mock.patch("orchestration.verbs.access.Access.publish", side_effect=LakeError("killed", place="", hint="-")):
        with pytest.raises(LakeError, match="killed"):
            trial.command(Restore(to=place, dry_run=False))
        assert in_union(trial) != before
    assert not trial.command(Restore(to=place, dry_run=False)).failed
    assert in_union(trial) == before
    assert trial.run() == []
    assert in_union(trial) == trial.at_source()
    assert not trial.command(Verify()).failed


def test_a_batch_that_is_given_back_is_in_the_union_once(trial: UnionTrial) -> None:
    """Its tables are written and published, and nothing is acked: claimed again, also after a rewind, they stay."""
    a = trial.names[0]
    trial.write(a, "UPDATE orders SET n = 12 WHERE id = 1", "INSERT INTO orders VALUES (5, 50, 'e')")
    claim = trial.shop.claim()
    assert not trial.shop.lake.apply(claim, "test", 2, claim.stopped).refused
    union = DeltaTable(trial.path).version()
    assert in_union(trial) == trial.at_source()
    assert trial.command(Rollback(batch_id=claim.batch_id)).done
    assert trial.run() == []
    assert DeltaTable(trial.path).version() == union
    assert in_union(trial) == trial.at_source()


@pytest.mark.in_turn
def test_rows_of_a_shard_wait_outside_the_union(trial: UnionTrial) -> None:
    """Until a person brings them into the shard, or drops them: the other shards stay as they are. While rows wait, the
    shards cannot be restored to that place."""
    a, b, c = trial.names
    expected = Expectations({f"{name}.orders": (SMALL,) for name in trial.names})
    trial.shop.lake = replace(trial.shop.lake, expectations=expected)
    for name in (a, b):
        trial.write(name, "INSERT INTO orders VALUES (6, 600, 'f'), (7, 700, 'g'), (8, 80, 'h')")
    assert trial.run() == []
    waits = Rows({row: 1 for row in trial.at_source() if dict(row)["n"] > 99})
    assert in_union(trial) == trial.at_source() - waits
    place, others = str(trial.shop.connector.client_status().cursor), versions(trial, b, c)
    with pytest.raises(ConfigError, match="a union of 3 tables"):
        trial.command(Requeue(table="all.orders"))
    trial.command(Requeue(table=f"{a}.orders", keys=["id=6"]))
    trial.command(Requeue(table=f"{a}.orders", values=["n=70"]))
    now = of(waits, b) + Rows(row for row in of(waits, a) if dict(row)["id"] == 7)
    put = frozenset({"id": 7, "n": 70, "what": "g", "of": a}.items())
    assert in_union(trial) == trial.at_source() - now + Rows([put])
    assert versions(trial, b, c) == others
    trial.command(Drop(table=f"{b}.orders", keys=["id=7"]))
    assert in_union(trial) == trial.at_source() - now + Rows([put])
    with pytest.raises(LakeError, match="rows waited in its quarantine there"):
        trial.command(Restore(to=place))
    trial.write(a, "UPDATE orders SET n = n / 100 WHERE n > 99", f"UPDATE {b}.orders SET n = n / 100 WHERE n > 99")
    assert trial.run() == []
    assert in_union(trial) == trial.at_source()
