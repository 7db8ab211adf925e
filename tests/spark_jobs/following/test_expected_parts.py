"""What is expected of a table that is merged from its change log, part by part. Without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.errors import TableStopped
from spark_jobs.apply.waiting_rows import WaitingRows
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.expectations.column_tests import Bounded, NotNull
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity, Unique
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.following.merge import Merger
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Follows
from spark_jobs.lake.blocking import TableBlocked
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.write.small_table import written
from tests.support.applying import apply_batch
from tests.support.local_job import NO_SPARK
from tests.support.spark_feed import Change, Feed, Row, Table, feed

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "n": pa.int32()}), key=("id",))
BAG = Table("bag", pa.schema({"id": pa.int64(), "n": pa.int32()}))
SMALL = Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE)


@dataclass
class Logs:
    """A lake whose tables land first."""

    service: Feed
    lake: Lake
    at: int = 0
    batches: int = 0

    def land(self, table: Table, *rows: tuple[Row | None, Row | None]) -> None:
        start = self.at
        for before, after in rows:
            self.at += 1
            self.service.put(table, [Change(self.at, before, after)])
        self.batches += 1
        claim = self.service.claim(self.batches, start, self.at)
        result = apply_batch(claim, self.lake, NO_SPARK, self.service.url, modes=Modes(Mode.LAND_FIRST, {}))
        assert result.landed
        Ledger(self.lake, "d", 1).note(claim, result.notes({}), "run", 0.0, result.log_ends, result.table_ends)

    def merge(self, expected: Expectations, table: str = "shop.orders") -> Merged:
        """Merges the first part that the table lacks, as a job of small tables does, by a run of its own."""
        merger = Merger(Follows(self.lake, "d", 1), NO_SPARK, Fence(self.lake, NO_SPARK), expectations=expected)
        ready = merger.readied(table)
        assert ready is not None
        return ready if isinstance(ready, Merged) else ready.result(written(ready.order), 1)

    def rows(self, table: str) -> dict[int, Any]:
        found = DeltaTable(self.lake.path("shop", table)).to_pyarrow_table()
        return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    with feed() as service:
        yield Logs(service, Lake(tmp_path))


def test_rows_of_parts_that_wait_are_counted(logs: Logs) -> None:
    """As those of batches, by the place of the table."""
    expected = Expectations({"shop.orders": (SMALL,)})
    waiting = WaitingRows(logs.lake, "d", 1, 1)
    logs.land(ORDERS, (None, (1, 50)), (None, (2, 60)))
    logs.merge(expected)
    assert waiting.counts() == {"shop.orders": 2}
    logs.land(ORDERS, ((1, 50), (1, 5)))
    logs.merge(expected)
    assert waiting.counts() == {"shop.orders": 1}


def test_rows_of_a_part_wait_and_the_others_are_merged(logs: Logs) -> None:
    """With the place and the kind of their last change in the log; a later part ends them."""
    expected = Expectations({"shop.orders": (SMALL, Expectation("one", Unique(), ("n",)))})
    logs.land(ORDERS, (None, (1, 5)), (None, (2, 50)), ((2, 50), (2, 60)), (None, (3, 70)), (None, (4, 5)))
    merged = logs.merge(expected)
    assert logs.rows("orders") == {1: 5, 4: 5}
    assert logs.rows("orders__quarantine") == {2: 60, 3: 70}
    assert [(one.name, one.rows, one.bad, one.waiting) for one in merged.expected] == [
        ("small", 4, 2, 2),
        ("one", 4, 2, 0),
    ]
    (row, _) = DeltaTable(logs.lake.quarantine_path("shop", "orders")).to_pyarrow_table().sort_by("id").to_pylist()
    assert (row["_sluice_op"], row["_sluice_position"], row["_sluice_batch"]) == ("update", "1:3", None)
    logs.land(ORDERS, ((2, 60), (2, 6)), ((3, 70), None))
    assert logs.merge(expected).expected[0].passed
    assert (logs.rows("orders"), logs.rows("orders__quarantine")) == ({1: 5, 2: 6, 4: 5}, {})
    assert not logs.merge(expected)


def test_the_bound_of_a_quarantine_is_that_of_parts_too(logs: Logs) -> None:
    """A part that would put more rows there is not merged."""
    logs.land(ORDERS, *((None, (key, 50)) for key in range(4)))
    with pytest.raises(TableBlocked, match="more than 3 rows would wait, too many"):
        logs.merge(Expectations({"shop.orders": (SMALL,)}, 3))
    logs.merge(Expectations({"shop.orders": (SMALL,)}, 4))
    assert len(logs.rows("orders__quarantine")) == 4


def test_a_part_that_blocks_waits_until_a_later_change_mends_it(logs: Logs) -> None:
    """The log grows meanwhile: the next try takes what landed since, and the table goes on by itself."""
    expected = Expectations({"shop.orders": (Expectation("some", NotNull(), ("n",), Severity.BLOCK),)})
    logs.land(ORDERS, (None, (1, 5)))
    logs.merge(expected)
    logs.land(ORDERS, (None, (2, None)))
    with pytest.raises(TableStopped, match=r"1 rows fail some \(id=2\)"):
        logs.merge(expected)
    assert logs.rows("orders") == {1: 5}
    logs.land(ORDERS, ((2, None), (2, 6)))
    assert logs.merge(expected).expected[0].passed
    assert logs.rows("orders") == {1: 5, 2: 6}


def test_a_part_that_a_person_accepts_is_merged(logs: Logs) -> None:
    """As a warning with the reason, though the log has grown since."""
    expected = Expectations({"shop.orders": (Expectation("some", NotNull(), ("n",), Severity.BLOCK),)})
    logs.land(ORDERS, (None, (1, None)))
    with pytest.raises(TableStopped):
        logs.merge(expected)
    Acceptances(logs.lake, "d", 1).accept("shop.orders", "known")
    logs.land(ORDERS, (None, (2, 2)))
    (found,) = logs.merge(expected).expected
    assert (found.bad, found.accepted) == (1, "known")
    logs.land(ORDERS, (None, (3, None)))
    with pytest.raises(TableStopped):
        logs.merge(expected)


def test_rows_without_a_key_count_as_they_are_after_the_part(logs: Logs) -> None:
    """A row that came and went within it is not evaluated."""
    expected = Expectations({"shop.bag": (Expectation("small", Bounded(0, 9), ("n",)),)})
    logs.land(BAG, (None, (1, 50)), ((1, 50), None), (None, (2, 60)), (None, (2, 60)), (None, (3, 3)))
    (found,) = logs.merge(expected, "shop.bag").expected
    assert (found.rows, found.bad) == (2, 1)


def test_rows_that_wait_end_when_nothing_is_expected_any_more(logs: Logs) -> None:
    """As long as something is expected of another table: the next change of a row ends it."""
    logs.land(ORDERS, (None, (1, 50)), (None, (2, 60)))
    logs.merge(Expectations({"shop.orders": (SMALL,)}))
    logs.land(ORDERS, ((1, 50), (1, 51)))
    logs.merge(Expectations({"shop.other": (SMALL,)}))
    assert (logs.rows("orders"), logs.rows("orders__quarantine")) == ({1: 51}, {2: 60})


class _Killed(BaseException):
    """The run dies here."""


@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.full) for one in range(1, 4))])
def test_random_parts_with_kills_end_as_the_model(logs: Logs, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Killed before or after the commit of a quarantine, and after more has landed merged again: table and quarantine
    are those of the last row of each key."""
    rng, expected = random.Random(seed), Expectations({"shop.orders": (SMALL,)})
    there: dict[int, Row] = {}
    table: dict[int, Any] = {}
    held: dict[int, Any] = {}
    last: dict[int, Row | None] = {}
    commit = QuarantineTable.commit

    def dying(step: str) -> None:
        def killed(self: QuarantineTable, *given: Any) -> None:
            if step == "before":
                raise _Killed
            commit(self, *given)
            if step == "after":
                raise _Killed

        monkeypatch.setattr(QuarantineTable, "commit", killed)

    for _ in range(15):
        rows = []
        for _ in range(rng.randint(1, 6)):
            key = rng.randrange(8)
            before = there.get(key)
            after = None if before and rng.random() < 0.3 else (key, rng.choice((1, 2, 50)))
            rows.append((before, after))
            there.pop(key, None)
            there |= {key: after} if after else {}
            last[key] = after
        logs.land(ORDERS, *rows)
        dying(rng.choice(("", "before", "after")))
        try:
            logs.merge(expected)
        except _Killed:
            continue
        for key, row in last.items():
            held.pop(key, None)
            table.pop(key, None) if row is None else None
            if row is not None:
                (table if row[1] <= 9 else held)[key] = row[1]
        last.clear()
        assert (logs.rows("orders"), logs.rows("orders__quarantine")) == (table, held), seed
