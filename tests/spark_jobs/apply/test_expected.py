"""What is expected of a batch's tables: rows that wait, tables that stay as they were, and what a run is told.

Without Spark: the job of small tables runs in the process of the test."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError
from spark_jobs.apply import together
from spark_jobs.apply.checks import Verdict, judge
from spark_jobs.apply.gate import gate
from spark_jobs.apply.result import BatchResult
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.expectations.column_tests import Bounded, NotNull
from spark_jobs.expectations.expectation import (
    Expectation,
    Expectations,
    Freshness,
    References,
    Severity,
    Unique,
    Volume,
)
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.record import COPIED, CopyNote
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.lake.tables import Lake
from spark_jobs.load.replacement import Target
from spark_jobs.load.requeue import ChosenRows, Requeuer
from spark_jobs.load.result import LakeClient
from spark_jobs.write.order_changes import Unfit
from tests.support.applying import apply_batch
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Feed, Row, Table, feed

FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32(), "of": pa.int64()})
ORDERS = Table("orders", FIELDS, key=("id",))
USERS = Table("users", FIELDS, key=("id",))
BAG = Table("bag", FIELDS)
SMALL = Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE)
SMALL_ONLY = Expectations({"shop.orders": (SMALL,)})
THREE_AT_MOST = replace(SMALL_ONLY, most_quarantined=3)


@dataclass
class World:
    """A lake that is filled batch by batch, from changes that are put at rising positions."""

    service: Feed
    lake: Lake
    at: int = 0
    batches: int = 0
    put_at: int = 0
    fences: list[Fence] = field(default_factory=list)

    def put(self, table: Table, *rows: tuple[Row | None, Row | None]) -> None:
        for before, after in rows:
            self.put_at += 1
            self.service.put(table, [Change(self.put_at, before, after)])

    def claim(self, end: int | None = None) -> Claim:
        self.batches += 1
        return self.service.claim(self.batches, self.at, end or self.put_at)

    def apply(self, expected: Expectations, end: int | None = None, **options: Any) -> BatchResult:
        """A batch of a run of its own, up to a position: applied, judged and noted."""
        claim = self.claim(end)
        fence = Fence(self.lake, NO_SPARK)
        self.fences.append(fence)
        applied = apply_batch(
            claim, self.lake, NO_SPARK, self.service.url, fence=fence, expectations=expected, **options
        )
        result, _ = gate(claim, applied)
        Ledger(self.lake, "d", 1).note(claim, result.notes({}), "run", 0.0, result.log_ends, result.table_ends)
        self.at = claim.end.position
        return result

    def rows(self, table: str) -> dict[int, Any]:
        """Returns the values of `n` by key."""
        found = DeltaTable(self.lake.path("shop", table)).to_pyarrow_table()
        return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))

    def waiting(self, table: str) -> dict[int, Any]:
        place = QuarantineTable(self.lake, "d", f"shop.{table}")
        if not place.exists:
            return {}
        rows = DeltaTable(place.path).to_pyarrow_table()
        return dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    run_job_here(monkeypatch)
    with feed() as service:
        yield World(service, Lake(tmp_path))


def verdicts(claim: Claim, result: BatchResult) -> dict[str, Verdict]:
    return {one.check: one for one in gate(claim, result)[1]}


def test_rows_that_fail_wait_and_the_others_are_applied(world: World) -> None:
    """A later change of a key ends its row or takes its place, and so does a delete."""
    world.put(ORDERS, (None, (1, 5, 0)), (None, (2, 50, 0)), (None, (3, 60, 0)), (None, (4, 70, 0)))
    (one,) = world.apply(SMALL_ONLY).applied
    assert (world.rows("orders"), world.waiting("orders")) == ({1: 5}, {2: 50, 3: 60, 4: 70})
    assert [(found.bad, found.rows, found.waiting, found.keys) for found in one.expected] == [
        (3, 4, 3, ("id=2", "id=3", "id=4"))
    ]
    world.put(ORDERS, ((1, 5, 0), (1, 99, 0)), ((2, 50, 0), (2, 6, 0)), ((3, 60, 0), None), ((4, 70, 0), (4, 80, 0)))
    (one,) = world.apply(SMALL_ONLY).applied
    assert (world.rows("orders"), world.waiting("orders")) == ({1: 5, 2: 6}, {1: 99, 4: 80})
    assert not one.doubt
    assert all(verdict.passed for verdict in judge(world.service.claims[2], one) if verdict.check != "small")


def test_what_waits_is_in_the_check_until_it_ends(world: World) -> None:
    """It is a warning with its counts, also in a batch where every row passes."""
    world.put(ORDERS, (None, (1, 50, 0)))
    world.apply(SMALL_ONLY)
    world.put(ORDERS, (None, (2, 5, 0)))
    claim = world.claim()
    verdict = verdicts(claim, apply_batch(claim, world.lake, NO_SPARK, world.service.url, expectations=SMALL_ONLY))[
        "small"
    ]
    assert (verdict.passed, verdict.warns, verdict.figures["quarantined"]) == (False, True, 1)
    assert verdict.text == "1 rows pass, 1 rows wait in the quarantine"
    world.at = world.put_at
    world.put(ORDERS, ((1, 50, 0), (1, 5, 0)))
    (one,) = world.apply(SMALL_ONLY).applied
    assert one.expected[0].passed


def test_a_table_that_blocks_stays_as_it_was_while_others_go_on(world: World) -> None:
    """Its stop names rows and what to do; nothing of the batch is in it, nor in its quarantine."""
    block = Expectation("some", NotNull(), ("n",), Severity.BLOCK)
    expected = Expectations({"shop.orders": (SMALL, block)})
    world.put(ORDERS, (None, (1, 5, 0)))
    world.put(USERS, (None, (1, None, 0)))
    world.apply(expected)
    world.put(ORDERS, (None, (2, None, 0)), (None, (3, 50, 0)))
    world.put(USERS, (None, (2, None, 0)))
    claim = world.claim()
    result, found = gate(
        claim, apply_batch(claim, world.lake, NO_SPARK, world.service.url, expectations=expected, stopped=())
    )
    (refusal,) = result.refused
    assert "1 rows fail some (id=2)" in refusal.error.message
    assert "sluice accept d shop.orders" in refusal.error.hint
    assert refusal.is_blocked
    assert not refusal.copy_needed
    assert (world.rows("orders"), world.waiting("orders")) == ({1: 5}, {})
    assert world.rows("users") == {1: None, 2: None}
    assert [(one.check, one.blocks) for one in found if one.table == "shop.orders"] == [
        ("small", False),
        ("some", True),
    ]


def test_a_block_that_a_person_accepts_is_a_warning(world: World) -> None:
    """Until the table has passed the batch, also if that comes again longer; then it blocks again."""
    expected = Expectations({"shop.orders": (Expectation("some", NotNull(), ("n",), Severity.BLOCK),)})
    acceptances = Acceptances(world.lake, "d", 1)
    world.put(ORDERS, (None, (1, None, 0)))
    claim = world.claim()
    assert apply_batch(claim, world.lake, NO_SPARK, world.service.url, expectations=expected).refused
    assert acceptances.accept("shop.orders", "known").checks == ("some",)
    world.put(ORDERS, (None, (2, None, 0)))
    (one,) = world.apply(expected).applied
    assert [(found.bad, found.accepted, found.passed) for found in one.expected] == [(2, "known", False)]
    world.put(ORDERS, (None, (3, None, 0)))
    (refusal,) = world.apply(expected).refused
    assert "1 rows fail some" in refusal.error.message
    assert world.rows("orders") == {1: None, 2: None}


def test_a_batch_of_which_nothing_is_expected_pays_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No evaluation, no listing, no folder."""
    monkeypatch.setattr(together, "evaluate", None)
    monkeypatch.setattr(Lake, "quarantines", None)
    world.put(ORDERS, (None, (1, 5, 0)))
    world.apply(Expectations())
    assert world.rows("orders") == {1: 5}
    assert not Path(world.lake.quarantine_path("shop", "orders")).exists()


def test_a_reference_is_to_the_rows_of_the_same_batch(world: World) -> None:
    """Rows that come, go, wait or stay in the table that is referenced; a row that waits makes others fail."""
    parent = Expectation("parent", References("shop.users"), ("of",), Severity.QUARANTINE)
    expected = Expectations(
        {"shop.orders": (parent,), "shop.users": (Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),)}
    )
    world.put(USERS, (None, (1, 1, 0)), (None, (2, 2, 0)))
    world.apply(expected)
    world.put(USERS, ((1, 1, 0), None), (None, (3, 3, 0)), (None, (4, 40, 0)), ((2, 2, 0), (2, 20, 0)))
    world.put(ORDERS, *((None, (10 + of, 0, of)) for of in (1, 2, 3, 4)), (None, (15, 0, None)))
    world.apply(expected)
    assert sorted(world.rows("orders")) == [12, 13, 15]
    assert sorted(world.waiting("orders")) == [11, 14]


def test_a_reference_to_itself_is_followed_to_its_end(world: World) -> None:
    """A chain of rows of which the first one waits waits as a whole."""
    parent = Expectation("parent", References("shop.orders"), ("of",), Severity.QUARANTINE)
    world.put(ORDERS, (None, (1, 0, 99)), (None, (2, 0, 1)), (None, (3, 0, 2)), (None, (4, 0, 4)), (None, (5, 0, None)))
    world.apply(Expectations({"shop.orders": (parent,)}))
    assert (sorted(world.rows("orders")), sorted(world.waiting("orders"))) == ([4, 5], [1, 2, 3])


@pytest.mark.parametrize("damage", ["no log", "no entry", "no file", "no words", "no place"])
def test_a_damaged_table_stops_those_that_reference_it(world: World, damage: str) -> None:
    """They alone cannot be evaluated; the others go on."""
    parent = Expectation("parent", References("shop.users"), ("of",), Severity.QUARANTINE)
    expected = Expectations({"shop.orders": (parent,), "shop.others": (SMALL,)})
    world.put(USERS, (None, (1, 0, None)))
    world.apply(expected)
    users = Path(world.lake.path("shop", "users"))
    (first, *_), (rows, *_) = sorted((users / "_delta_log").glob("*.json")), sorted(users.rglob("*.parquet"))
    match damage:
        case "no log":
            shutil.rmtree(users / "_delta_log")
        case "no entry":
            first.unlink()
        case "no file":
            rows.unlink()
        case "no words":
            rows.write_bytes(b"PAR1" + b"x" * 100)
        case "no place":
            shutil.rmtree(users)
    world.put(ORDERS, (None, (1, 0, 1)))
    world.put(Table("others", FIELDS, key=("id",)), (None, (2, 0, None)))
    result = world.apply(expected)
    (refusal,) = result.refused
    assert "parent cannot be evaluated: " in refusal.error.message
    assert sorted(world.rows("others")) == [2]


@pytest.mark.parametrize("damage", ["log", "file"])
def test_a_damaged_quarantine_stops_its_table(world: World, damage: str) -> None:
    """The others go on; once it is moved away, so does its table."""
    others = Table("others", FIELDS, key=("id",))
    world.put(ORDERS, (None, (1, 50, 0)))
    world.apply(SMALL_ONLY)
    path = Path(world.lake.quarantine_path("shop", "orders"))
    kind = "_delta_log/*.json" if damage == "log" else "*.parquet"
    for one in path.glob(kind):
        one.write_bytes(b"{}")
    world.put(ORDERS, ((1, 50, 0), (1, 5, 0)))
    world.put(others, (None, (2, 0, None)))
    (refusal,) = world.apply(SMALL_ONLY).refused
    assert (refusal.table, sorted(world.rows("others"))) == ("shop.orders", [2])
    assert "damaged" in refusal.error.message
    shutil.rmtree(path)
    world.put(ORDERS, ((1, 5, 0), (1, 6, 0)))
    assert not world.apply(SMALL_ONLY).refused


@pytest.mark.timeout(60)
def test_tables_that_reference_each_other_block_each_other_and_nothing_else(world: World) -> None:
    """An order of a user who is deleted blocks the orders, which blocks the users, who therefore stay: that does not
    begin again."""
    first, second = (
        {f"shop.{child}": (Expectation("parent", References(f"shop.{parent}"), ("of",), Severity.BLOCK),)}
        for child, parent in (("orders", "users"), ("users", "orders"))
    )
    expected = Expectations(first | second)
    world.put(USERS, (None, (1, 0, None)))
    world.put(Table("others", FIELDS, key=("id",)), (None, (1, 0, None)))
    world.apply(expected)
    world.put(USERS, ((1, 0, None), None), (None, (2, 0, 11)))
    world.put(ORDERS, (None, (11, 0, 1)))
    world.put(Table("others", FIELDS, key=("id",)), (None, (2, 0, None)))
    result = world.apply(expected)
    assert {one.table: one.error.message for one in result.refused} == {
        "shop.orders": "1 rows fail parent (id=11)",
        "shop.users": "1 rows fail parent (id=2)",
    }
    assert (sorted(world.rows("users")), sorted(world.rows("others"))) == ([1], [1, 2])


@pytest.mark.parametrize("severity", Severity)
def test_a_reference_to_a_stopped_table_cannot_be_evaluated(world: World, severity: Severity) -> None:
    """It stops its table before anything is written, unless it only warns."""
    expected = Expectations({"shop.orders": (Expectation("parent", References("shop.users"), ("of",), severity),)})
    world.put(USERS, (None, (1, 1, 0)))
    world.apply(expected)
    world.put(ORDERS, (None, (1, 0, 1)))
    result = world.apply(expected, stopped=["shop.users"])
    if severity is Severity.WARN:
        (one,) = result.applied
        assert one.expected[0].why == "shop.users is stopped, so the lake may lack its rows"
        return
    (refusal,) = result.refused
    assert "parent cannot be evaluated: shop.users is stopped" in refusal.error.message


def test_keys_of_a_wider_type_are_those_that_wait(world: World) -> None:
    """After an ALTER of the key, also beside keys that the former type did not have, and as references."""
    parent = Expectation("parent", References("shop.narrow"), ("of",), Severity.QUARANTINE)
    expected = Expectations({"shop.orders": (SMALL, parent)})
    narrow = Table("narrow", FIELDS.set(0, pa.field("id", pa.int32())), key=("id",))
    world.put(narrow, (None, (7, 0, 0)))
    world.put(Table("orders", narrow.fields, narrow.key), *((None, (at, 50, None)) for at in (1, 2, 3)))
    world.apply(expected)
    path = world.lake.path("shop", "orders")
    wide = DeltaTable(path).to_pyarrow_table().cast(FIELDS)
    write_deltalake(path, wide, mode="overwrite", schema_mode="overwrite")
    big = 1 << 40
    world.put(ORDERS, ((1, 50, None), (1, 5, 7)), ((2, 50, None), (2, 60, None)), (None, (big, 5, big)))
    result = world.apply(expected)
    assert not result.refused
    assert (world.rows("orders"), world.waiting("orders")) == ({1: 5}, {2: 60, 3: 50, big: 5})


def test_a_value_is_unique_among_the_batch_and_the_table(world: World) -> None:
    """A row that gives its value up, or is deleted, frees it for another one of the batch; NULL is equal to nothing."""
    expected = Expectations({"shop.orders": (Expectation("one", Unique(), ("n",), Severity.QUARANTINE),)})
    world.put(ORDERS, *((None, (key, key, 0)) for key in (1, 2, 3)), (None, (4, None, 0)), (None, (5, None, 0)))
    world.apply(expected)
    world.put(ORDERS, ((1, 1, 0), None), ((2, 2, 0), (2, 20, 0)), (None, (6, 1, 0)), (None, (7, 2, 0)))
    world.put(ORDERS, (None, (8, 3, 0)), (None, (9, 9, 0)), (None, (10, 9, 0)))
    world.apply(expected)
    assert world.rows("orders") == {2: 20, 3: 3, 4: None, 5: None, 6: 1, 7: 2}
    assert world.waiting("orders") == {8: 3, 9: 9, 10: 9}


def test_a_column_that_is_gone_stops_the_table(world: World) -> None:
    """Before anything is written; a pattern leaves out what a table does not have."""
    block = Expectation("some", NotNull(), ("gone",), Severity.BLOCK)
    world.put(ORDERS, (None, (1, 5, 0)))
    assert world.apply(Expectations({"shop.*": (block,)})).applied
    world.put(ORDERS, (None, (2, 5, 0)))
    (refusal,) = world.apply(Expectations({"shop.orders": (block,)})).refused
    assert "some cannot be evaluated: the table has no column gone" in refusal.error.message
    assert world.rows("orders") == {1: 5}


def test_a_table_without_a_key_warns_and_blocks(world: World) -> None:
    """Its rows cannot wait, which stops it before anything is written."""
    expected = Expectations({"shop.bag": (Expectation("small", Bounded(0, 9), ("n",)),)})
    world.put(BAG, (None, (1, 50, 0)), (None, (1, 50, 0)), (None, (2, 60, 0)), ((2, 60, 0), None))
    (one,) = world.apply(expected).applied
    assert [(found.rows, found.bad, found.keys) for found in one.expected] == [(1, 1, ())]
    world.put(BAG, (None, (3, 5, 0)))
    (refusal,) = world.apply(Expectations({"shop.bag": (SMALL,)})).refused
    assert "has no primary key" in refusal.error.message
    assert sorted(world.rows("bag")) == [1]


def test_how_many_rows_a_batch_changes_is_compared_with_earlier_ones(world: World) -> None:
    """With bounds, and with the median of what came before."""
    expected = Expectations({"shop.orders": (Expectation("usual", Volume(times=3), severity=Severity.BLOCK),)})
    for key in range(1, 6):
        world.put(ORDERS, (None, (key, 0, 0)))
        assert world.apply(expected).applied
    world.put(ORDERS, *((None, (key, 0, 0)) for key in range(10, 14)))
    (refusal,) = world.apply(expected).refused
    assert "usual (4 rows, and 1 are usual)" in refusal.error.message


def test_rows_that_come_late_are_a_warning(world: World) -> None:
    """By the oldest commit of the batch."""
    expected = Expectations({"shop.orders": (Expectation("fresh", Freshness(60.0)),)})
    world.put(ORDERS, (None, (1, 0, 0)))
    claim = world.claim()
    late = Claim.from_dict({**claim.to_dict(), "execute_times": [[1000, 1]]})
    world.service.claims[claim.batch_id] = late
    result = apply_batch(late, world.lake, NO_SPARK, world.service.url, expectations=expected, clock=lambda: 1100.0)
    found = verdicts(late, result)["fresh"]
    assert (found.passed, found.warns, found.text) == (
        False, True, "1 of 1 rows fail, such as the oldest row is 100 s old",
    )  # fmt: skip


def test_too_many_rows_for_a_quarantine_block(world: World) -> None:
    """A release that breaks everything is not for a quarantine."""
    world.put(ORDERS, *((None, (key, 50, 0)) for key in range(5)))
    claim = world.claim()
    (refusal,) = apply_batch(claim, world.lake, NO_SPARK, world.service.url, expectations=THREE_AT_MOST).refused
    assert refusal.is_blocked
    assert "5 rows fail small" in refusal.error.message
    assert "more than 3 rows would wait, too many" in refusal.error.message
    assert world.waiting("orders") == {}
    Acceptances(world.lake, "d", 1).accept("shop.orders", "known")
    (one,) = world.apply(THREE_AT_MOST).applied
    assert [(found.bad, found.accepted) for found in one.expected] == [(5, "known")]
    assert (sorted(world.rows("orders")), world.waiting("orders")) == ([0, 1, 2, 3, 4], {})


def test_a_quarantine_does_not_grow_without_bound(world: World) -> None:
    """Rows of earlier batches count, those that the batch ends or replaces do not, and one that fails twice counts
    once."""
    tiny = Expectation("tiny", Bounded(0, 5), ("n",), Severity.QUARANTINE)
    expected = Expectations({"shop.orders": (SMALL, tiny)}, 3)
    world.put(ORDERS, *((None, (key, 50, 0)) for key in (1, 2, 3)))
    assert not world.apply(expected).refused
    world.put(ORDERS, ((1, 50, 0), (1, 60, 0)), ((2, 50, 0), (2, 5, 0)), ((3, 50, 0), None), (None, (4, 70, 0)))
    assert not world.apply(expected).refused
    assert world.waiting("orders") == {1: 60, 4: 70}
    world.put(ORDERS, (None, (5, 50, 0)), (None, (6, 50, 0)))
    (refusal,) = world.apply(expected).refused
    assert "more than 3 rows would wait, too many for its quarantine" in refusal.error.message
    assert world.waiting("orders") == {1: 60, 4: 70}


def test_a_place_that_another_table_has_stops_the_table(world: World) -> None:
    """One of the source may have the name of a quarantine: the table says so, and the others go on."""
    world.put(Table("orders__quarantine", FIELDS, key=("id",)), (None, (1, 1, 0)))
    world.put(USERS, (None, (1, 1, 0)))
    world.apply(SMALL_ONLY)
    world.put(ORDERS, (None, (1, 1, 0)))
    world.put(USERS, (None, (2, 1, 0)))
    result = world.apply(SMALL_ONLY)
    (refusal,) = result.refused
    assert "belongs to destination 'd', table 'shop.orders__quarantine'" in refusal.error.message
    assert not refusal.is_blocked
    assert sorted(world.rows("users")) == [1, 2]


def test_rows_with_columns_of_sluices_wait_too(world: World) -> None:
    """With soft deletes all images are read: a row that waits is in none of its states in the table."""
    rules = RowRules(deletes=Deletes.SOFT, columns=tuple(LastChange))
    world.lake = Lake(world.lake.root, rules=rules)
    world.put(ORDERS, (None, (1, 5, 0)), (None, (2, 6, 0)), ((2, 6, 0), (2, 60, 0)), (None, (3, 7, 0)))
    world.apply(SMALL_ONLY)
    assert (world.rows("orders"), world.waiting("orders")) == ({1: 5, 3: 7}, {2: 60})
    world.put(ORDERS, ((2, 60, 0), (2, 8, 0)), ((3, 7, 0), None))
    world.apply(SMALL_ONLY)
    found = DeltaTable(world.lake.path("shop", "orders")).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["id"], row["n"], row["_sluice_deleted"]) for row in found] == [
        (1, 5, False),
        (2, 8, False),
        (3, 7, True),
    ]
    assert world.waiting("orders") == {}


def test_a_batch_of_which_no_row_is_left_is_committed_all_the_same(world: World) -> None:
    """The table has its end, and the commit's note the results: a later try finds both."""
    world.put(ORDERS, (None, (1, 50, 0)), (None, (2, 60, 0)))
    (first,) = world.apply(SMALL_ONLY).applied
    assert (world.rows("orders"), world.waiting("orders")) == ({}, {1: 50, 2: 60})
    world.at = 0
    (again,) = world.apply(SMALL_ONLY).applied
    assert (again.replayed, again.expected) == (True, first.expected)
    assert first.expected[0].bad == 2


def test_a_copy_of_the_table_ends_what_waits(world: World) -> None:
    """The table has all rows of the source then; rows that came after its place wait on."""
    world.put(ORDERS, (None, (1, 50, 0)), (None, (2, 60, 0)))
    world.apply(SMALL_ONLY)
    end = world.service.claims[1].end.version()
    table = DeltaTable(world.lake.path("shop", "orders"))
    table.alter.set_table_properties({COPIED: CopyNote(1, end, end).to_json()}, raise_if_not_exists=False)
    world.put(ORDERS, (None, (3, 5, 0)))
    (one,) = world.apply(SMALL_ONLY).applied
    assert (world.waiting("orders"), one.expected[0].passed) == ({}, True)


def test_a_late_run_does_not_write_a_quarantine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run has fenced it after it was read: the batch goes back."""
    world.put(ORDERS, (None, (1, 50, 0)))
    world.apply(SMALL_ONLY)
    world.put(ORDERS, ((1, 50, 0), (1, 60, 0)))
    commit = QuarantineTable.commit

    def late(self: QuarantineTable, *given: Any) -> None:
        Fence(world.lake, NO_SPARK).enter(self.path, "", world.lake.state(self.path, ""))  # type: ignore[arg-type]
        commit(self, *given)

    monkeypatch.setattr(QuarantineTable, "commit", late)
    with pytest.raises(LakeError, match="another run has taken the quarantine over"):
        world.apply(SMALL_ONLY)
    assert world.waiting("orders") == {1: 50}


def test_a_drop_between_the_commits_of_a_batch_is_before_the_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table refuses the batch, which is evaluated again: its rows wait once, and those that were dropped do not."""
    world.put(ORDERS, (None, (1, 50, 0)), (None, (2, 60, 0)))
    world.apply(SMALL_ONLY)
    world.put(ORDERS, (None, (3, 70, 0)), (None, (4, 4, 0)))
    commit, target = QuarantineTable.commit, LakeClient("d", 1, 1, "run")

    def then_dropped(self: QuarantineTable, *given: Any) -> None:
        commit(self, *given)
        with monkeypatch.context() as patched:
            patched.setattr(QuarantineTable, "commit", commit)
            Requeuer(Target.fenced(world.lake, NO_SPARK, target, "shop.orders"), NO_SPARK).drop(ChosenRows())

    with monkeypatch.context() as patched:
        patched.setattr(QuarantineTable, "commit", then_dropped)
        with pytest.raises(Unfit, match="another run has taken the table over"):
            world.apply(SMALL_ONLY)
    assert (world.rows("orders"), world.waiting("orders")) == ({}, {})
    world.apply(SMALL_ONLY)
    assert (world.rows("orders"), world.waiting("orders")) == ({4: 4}, {3: 70})


class _Killed(BaseException):
    """The run dies here."""


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(one, marks=pytest.mark.full) for one in range(2, 12))])
def test_random_batches_with_kills_end_as_the_model(world: World, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Killed before or after each commit, and claimed again with other boundaries: table and quarantine are those of
    a run that was never killed, with the boundaries of the batches that were acked. A person drops rows in between."""
    rng = random.Random(seed)
    expected = Expectations({"shop.orders": (SMALL, Expectation("one", NotNull(), ("of",), Severity.QUARANTINE))})
    there: dict[int, Row] = {}
    changes: list[Change] = []
    for _ in range(60):
        key = rng.randrange(12)
        before = there.get(key)
        after = None if before and rng.random() < 0.3 else (key, rng.choice((1, 2, 50)), rng.choice((7, 7, None)))
        world.put(ORDERS, (before, after))
        changes.append(Change(world.put_at, before, after))
        there.pop(key, None)
        there |= {key: after} if after else {}
    table: dict[int, Any] = {}
    held: dict[int, Any] = {}
    commit, write_all = QuarantineTable.commit, together.write_all

    def dying(step: str) -> None:
        def after_quarantine(self: QuarantineTable, *given: Any) -> None:
            if step == "before quarantine":
                raise _Killed
            commit(self, *given)
            if step == "after quarantine":
                raise _Killed

        def after_table(*given: Any) -> Any:
            found = write_all(*given)
            if step == "after table":
                raise _Killed
            return found

        monkeypatch.setattr(QuarantineTable, "commit", after_quarantine)
        monkeypatch.setattr(together, "write_all", after_table)

    while world.at < world.put_at:
        end = min(world.put_at, world.at + rng.randint(1, 15))
        dying(rng.choice(("", "before quarantine", "after quarantine", "after table")))
        start = world.at
        try:
            world.apply(expected, end)
        except _Killed:
            done = DeltaTable(world.lake.path("shop", "orders")).version() if world.lake.has("shop", "orders") else 0
            applied = done and _applied(world) >= end
            if not applied:
                continue
            dying("")
            world.apply(expected, end)
        _model(table, held, [one for one in changes if start < one.position <= end])
        assert world.rows("orders") == table, (seed, start, end)
        assert world.waiting("orders") == held, (seed, start, end)
        if held and rng.random() < 0.2:
            dying("")
            key = rng.choice(sorted(held))
            target = Target.fenced(world.lake, NO_SPARK, LakeClient("d", 1, 1, "run"), "shop.orders")
            Requeuer(target, NO_SPARK).drop(ChosenRows(keys=[f"id={key}"]))
            del held[key]
            assert world.waiting("orders") == held, (seed, start, end)


def _applied(world: World) -> int:
    """The position up to which the table has its batches."""
    state = world.lake.state(world.lake.path("shop", "orders"), "sluice:d:1:shop.orders:1")
    return (state.applied or 0) & ((1 << 38) - 1) if state else 0


def _model(table: dict[int, Any], held: dict[int, Any], changes: list[Change]) -> None:
    last = {(one.after or one.before or ())[0]: one.after for one in changes}
    for key, row in last.items():
        held.pop(key, None)
        if row is None:
            table.pop(key, None)
        elif 0 <= row[1] <= 9 and row[2] is not None:
            table[key] = row[1]
        else:
            held[key] = row[1]
