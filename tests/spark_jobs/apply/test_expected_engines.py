"""Both engines have the same verdicts, and leave the same rows out; queries of a person's own in Spark."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.apply.checks import judge
from spark_jobs.apply.result import BatchResult, TableResult
from spark_jobs.expectations.column_tests import AcceptedValues, Bounded, Length, NotNull
from spark_jobs.expectations.expectation import Expectation, Expectations, References, Severity, Sql, Unique
from spark_jobs.following.merge import Merger
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.session import Sessions
from spark_jobs.write.order import Engine
from tests.support.applying import apply_batch
from tests.support.random_changes import rows, scripts
from tests.support.spark_feed import Change, Feed, Table

pytestmark = pytest.mark.integration

FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32(), "of": pa.int64()})
ORDERS = Table("orders", FIELDS, key=("id",))
BAG = Table("bag", FIELDS)
RULES = RowRules(deletes_by={"shop.soft*": Deletes.SOFT}, columns_by={"shop.soft": tuple(LastChange)})
Q = Severity.QUARANTINE


def told(result: TableResult) -> tuple[Any, ...]:
    """What a run learns of a table, but the engine and the keys that are shown."""
    commit = result.commit
    counts = (commit.inserted, commit.updated, commit.deleted, commit.source, commit.held) if commit else ()
    found = [(one.name, one.rows, one.bad, one.waiting, one.why, sorted(one.keys)) for one in result.expected]
    return result.table, counts, found


@pytest.mark.in_turn
@pytest.mark.full
def test_both_engines_have_the_same_verdicts(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Whatever the types of keys and values, with rows that wait, soft deletes and tables without a key."""
    made = [one for one in scripts(random.Random(1)) if one.table.name != "floats"]
    keyed = (
        Expectation("tiny", Bounded(0, None), ("tiny",), Q),
        Expectation("text", Length(1, 2), ("text",), Q),
        Expectation("exact", Bounded("0"), ("exact",)),
        Expectation("day", Bounded("1600-01-01"), ("day",), Q),
        Expectation("bit", AcceptedValues((True,)), ("bit",)),
        Expectation("one", Unique(), ("bytes", "local")),
    )
    some = Expectation("some", NotNull(), ("text",))
    expected = Expectations(
        {one.table.schema.name: keyed if one.table.key else (some,) for one in made if one.table.name != "few"}
    )
    lakes = {engine: Lake(tmp_path / engine, rules=RULES) for engine in Engine}
    fences = {engine: Fence(lakes[engine], sessions) for engine in Engine}
    for batch, (start, end) in enumerate([(0, 60), (60, 90), (60, 110)], 1):
        for script in made:
            done = {1: 0, 2: 60, 3: 90}[batch]
            service.put(script.table, script.changes(done, end - done))
        claim = service.claim(batch, start, end)
        found = {
            engine: apply_batch(
                claim, lakes[engine], sessions, service.url, fence=fences[engine], engine=engine, expectations=expected
            )
            for engine in Engine
        }
        for engine, result in found.items():
            assert not result.refused, (engine, result.refused[0].error)
        for one, other in zip(found[Engine.AUTO].applied, found[Engine.SQL].applied, strict=True):
            assert told(one) == told(other)
            assert [text.text for text in judge(claim, one) if text.blocks] == []
        for script in made:
            name = script.table.name
            assert rows(lakes[Engine.AUTO], name) == rows(lakes[Engine.SQL], name), name
            if script.table.key:
                waits = [_waiting(lakes[engine], name) for engine in Engine]
                assert waits[0] == waits[1], name


def _waiting(lake: Lake, table: str) -> Counter[Any]:
    return rows(lake, f"{table}__quarantine")


def applied(
    service: Feed, sessions: Sessions, lake: Lake, expected: Expectations, changes: list[Change], table: Table = ORDERS
) -> BatchResult:
    """One batch of these changes."""
    service.put(table, changes)
    ends = [claim.end.position for claim in service.claims.values()]
    claim = service.claim(len(ends) + 1, max(ends, default=0), changes[-1].position)
    result = apply_batch(claim, lake, sessions, service.url, expectations=expected)
    Ledger(lake, "d", 1).note(claim, result.notes({}), "r", 0.0, result.log_ends, result.table_ends)
    return result


def mine(
    query: str, severity: Severity = Severity.WARN, seconds: float = 60.0, table: str = "shop.orders"
) -> Expectations:
    return Expectations({table: (Expectation("mine", Sql(query, seconds), severity=severity),)})


def test_a_query_sees_the_batch_and_the_table_as_it_would_be(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """The rows that it returns wait, are counted, or block; `table` has the batch's rows and not the deleted ones."""
    lake = Lake(tmp_path)
    first = [Change(1, None, (1, 1, 0)), Change(2, None, (2, 2, 0)), Change(3, None, (3, 3, 0))]
    (one,) = applied(service, sessions, lake, mine("SELECT * FROM changes WHERE n > 2", Q), first).applied
    assert [(found.rows, found.bad, found.keys) for found in one.expected] == [(3, 1, ("id=3",))]
    assert sorted(rows(lake, "orders")) == ["(1, 1, 0)", "(2, 2, 0)"]
    second = [Change(4, (1, 1, 0), None), Change(5, None, (4, 2, 0)), Change(6, (2, 2, 0), (2, 5, 0))]
    same = mine("WITH t AS (SELECT n, count(*) AS c FROM `table` GROUP BY n) SELECT * FROM t -- and no more")
    (one,) = applied(service, sessions, lake, same, second).applied
    assert [(found.bad, found.why) for found in one.expected] == [(2, "")]
    assert sorted(rows(lake, "orders")) == ["(2, 5, 0)", "(4, 2, 0)"]
    (refusal,) = applied(
        service, sessions, lake, mine("SELECT * FROM table WHERE n = 5", Severity.BLOCK), [Change(7, None, (7, 7, 0))]
    ).refused
    assert "1 rows fail mine (id=2)" in refusal.error.message


def test_a_query_of_a_table_without_a_key_sees_its_copies(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Those that are added, and the table without those that are removed."""
    lake = Lake(tmp_path)
    first = [Change(at, None, (1, 1, 0)) for at in (1, 2, 3)]
    query = "SELECT (SELECT count(*) FROM changes) AS added FROM `table`"
    (one,) = applied(service, sessions, lake, mine(query, table="shop.bag"), first, BAG).applied
    assert [(found.bad, found.why) for found in one.expected] == [(3, "")]
    second = [Change(4, (1, 1, 0), None), Change(5, None, (2, 2, 0))]
    (one,) = applied(service, sessions, lake, mine("SELECT * FROM `table`", table="shop.bag"), second, BAG).applied
    assert [found.bad for found in one.expected] == [3]


@pytest.mark.parametrize(
    ("query", "severity", "said"),
    [
        ("SELECT * FROM nowhere", Severity.BLOCK, "its query fails"),
        ("DROP TABLE orders", Severity.BLOCK, "its query fails"),
        ("SELECT n FROM changes", Q, "does not return the primary key (id)"),
        ("SELECT id FROM range(1000000000000) WHERE id < 0", Severity.BLOCK, "takes more than 2 s"),
    ],
)
def test_a_query_that_is_broken_stops_its_table_alone(
    service: Feed, sessions: Sessions, tmp_path: Path, query: str, severity: Severity, said: str
) -> None:
    """Before anything of it is written; one that only warns stops nothing."""
    lake, began = Lake(tmp_path), time.monotonic()
    service.put(BAG, [Change(1, None, (1, 1, 0))])
    seconds = 2.0 if "2 s" in said else 60.0  # which a Spark that has just begun needs
    result = applied(service, sessions, lake, mine(query, severity, seconds), [Change(1, None, (1, 1, 0))])
    (refusal,) = result.refused
    assert said in refusal.error.message
    assert [one.table for one in result.applied] == ["shop.bag"]
    (one,) = applied(service, sessions, lake, mine(query, Severity.WARN, seconds), [Change(2, None, (2, 1, 0))]).applied
    assert severity is Q or said in one.expected[0].why
    assert time.monotonic() - began < 90


def test_a_query_that_returns_a_million_rows_is_counted_to_its_bound(
    service: Feed, sessions: Sessions, tmp_path: Path
) -> None:
    """The run holds no more of them."""
    query = mine("SELECT changes.* FROM changes, range(1000000)")
    (one,) = applied(service, sessions, Lake(tmp_path), query, [Change(1, None, (1, 1, 0))]).applied
    assert one.expected[0].bad == 20_001


def test_a_log_that_is_merged_by_a_statement_leaves_out_the_same(
    service: Feed, sessions: Sessions, tmp_path: Path
) -> None:
    """With and without columns of Sluice's."""
    expected = Expectations({"shop.*": (Expectation("small", Bounded(0, 9), ("n",), Q),)})
    lake = Lake(tmp_path, rules=RULES)
    soft = Table("soft", FIELDS, key=("id",))
    for table in (ORDERS, soft):
        service.put(table, [Change(1, None, (1, 5, 0)), Change(2, None, (2, 50, 0)), Change(3, None, (3, 6, 0))])
    apply_batch(service.claim(1, 0, 3), lake, sessions, service.url, modes=Modes(Mode.LAND_FIRST, {}))
    merger = Merger(Follows(lake, "d", 1), sessions, Fence(lake, sessions), expectations=expected)
    for name in ("orders", "soft"):
        merged = merger.next(f"shop.{name}")
        assert [(found.rows, found.bad, found.waiting) for found in merged.expected] == [(3, 1, 1)]
        assert len(rows(lake, name)) == 2
        assert len(_waiting(lake, name)) == 1


def test_a_reference_to_a_table_with_deletion_vectors_is_found(
    service: Feed, sessions: Sessions, tmp_path: Path
) -> None:
    """A row that a vector deletes is none."""
    lake = Lake(tmp_path)
    users = Table("users", FIELDS, key=("id",))
    applied(service, sessions, lake, Expectations(), [Change(at, None, (at, 0, 0)) for at in (1, 2, 3)], users)
    path = lake.path("shop", "users")
    with sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2").collect()
    parent = Expectations({"shop.orders": (Expectation("parent", References("shop.users"), ("of",), Q),)})
    applied(service, sessions, lake, parent, [Change(4, None, (1, 0, 1)), Change(5, None, (2, 0, 2))])
    assert sorted(rows(lake, "orders")) == ["(1, 0, 1)"]
