"""What is expected of all rows of a load, before they become their table's. Without Spark and without a source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import LakeError, TableStopped
from cdc_core.position import EntryPosition
from spark_jobs.expectations.column_tests import Bounded, NotNull
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity, Unique
from spark_jobs.lake.tables import Lake
from spark_jobs.load import switch as switching
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.judged import acceptances, judged
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import LakeClient
from spark_jobs.load.staging import StagedRows
from spark_jobs.load.switch import Load, Meanwhile, switch
from spark_jobs.snapshot.place import SnapshotPlace
from tests.support.local_job import NO_SPARK
from tests.support.spark_feed import JOURNAL, Change, Feed, Table, feed

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "n": pa.int32(), "odd name": pa.string()}), key=("id",))
BAG = Table("bag", ORDERS.fields)
SMALL = Bounded(0, 9)


@dataclass
class Loads:
    """Staged rows, and the changes that came after them."""

    service: Feed
    lake: Lake

    def staged(self, table: Table, *rows: tuple[Any, ...]) -> StagedRows:
        """Rows that were read at position 10, with numbers for the names of their columns."""
        path = f"{self.lake.root}/_sluice/d/staging/{table.name}/rows"
        columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(table.fields)]
        write_deltalake(path, pa.table(columns, ["0", "1", "2"]))
        place = EntryPosition(JOURNAL, 10)
        return StagedRows(path, table.schema, SnapshotPlace(place, place), len(rows))

    def log(self, table: Table, *changes: Change) -> tuple[ChangeLog, int]:
        """The log of these changes, and the version of its end."""
        self.service.put(table, list(changes))
        claim, log = self.service.claim(1, 10, 20), ChangeLog(self.lake, "d", table.name)
        log.append(claim, table.schema.name, RowsDoor(self.service.url))
        return log, claim.end.version()

    def target(self, table: Table) -> Target:
        return Target.fenced(self.lake, NO_SPARK, LakeClient("d", 1, 1, "run"), table.schema.name)


@pytest.fixture
def loads(tmp_path: Path) -> Iterator[Loads]:
    with feed() as service:
        yield Loads(service, Lake(tmp_path))


def one(test: Any, severity: Severity = Severity.WARN, column: str = "n") -> Expectations:
    return Expectations({"shop.*": (Expectation("one", test, (column,), severity),)})


def test_rows_are_as_the_changes_since_left_them(loads: Loads) -> None:
    """A row that was corrected, deleted or added after it was read."""
    staged = loads.staged(ORDERS, (1, 5, "a"), (2, 50, "b"), (3, 60, "c"), (4, 70, "d"))
    changes = [Change(11, (2, 50, "b"), (2, 6, "b")), Change(12, (3, 60, "c"), None), Change(13, None, (5, 80, "e"))]
    log, end = loads.log(ORDERS, *changes)
    (result,) = judged(one(SMALL), loads.target(ORDERS), staged, log, end)
    assert (result.rows, result.bad, sorted(result.keys)) == (4, 2, ["id=4", "id=5"])
    (result,) = judged(one(SMALL), loads.target(ORDERS), staged, None, end)
    assert (result.rows, result.bad) == (4, 3)


def test_a_table_without_a_key_is_judged_as_it_was_read(loads: Loads) -> None:
    """With the rows that were added since."""
    staged = loads.staged(BAG, (1, 5, "a"), (2, 50, "b"))
    log, end = loads.log(BAG, Change(11, None, (3, 60, "c")), Change(12, (2, 50, "b"), None))
    (result,) = judged(one(SMALL), loads.target(BAG), staged, None, end)
    assert (result.rows, result.bad, result.keys) == (2, 1, ())
    (result,) = judged(one(SMALL), loads.target(BAG), staged, log, end)
    assert (result.rows, result.bad) == (3, 2)


@pytest.mark.parametrize("severity", [Severity.BLOCK, Severity.QUARANTINE])
def test_a_load_is_blocked_until_a_person_accepts_it(loads: Loads, severity: Severity) -> None:
    """It has no quarantine. One that was accepted says so, and the next one asks again."""
    staged, target = loads.staged(ORDERS, (1, 5, "a"), (2, 50, "b")), loads.target(ORDERS)
    with pytest.raises(TableStopped, match=r"1 rows fail one \(id=2\)") as caught:
        judged(one(SMALL, severity), target, staged, None, 100)
    assert "sluice accept d shop.orders" in caught.value.hint
    acceptances(target).accept("shop.orders", "known")
    (result,) = judged(one(SMALL, severity), target, staged, None, 200)
    assert (result.bad, result.accepted) == (1, "known")
    acceptances(target).end("shop.orders")
    with pytest.raises(TableStopped):
        judged(one(SMALL, severity), target, staged, None, 200)


def test_a_store_that_fails_blocks_no_load(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails and may be tried again; there is nothing that a person could accept."""
    staged, target = loads.staged(ORDERS, (1, 5, "a")), loads.target(ORDERS)

    def away(*_: object) -> Iterator[pa.Table]:
        raise OSError("Generic S3 error  Error performing GET http://host/lake/a: 503 Service Unavailable")

    monkeypatch.setattr("spark_jobs.load.judged._rows", away)
    with pytest.raises(LakeError, match="cannot be looked at") as caught:
        judged(one(SMALL, Severity.BLOCK), target, staged, None, 100)
    assert not isinstance(caught.value, TableStopped)


def test_what_needs_other_rows_is_not_judged(loads: Loads) -> None:
    """Nor anything of a table of which nothing is expected."""
    staged, target = loads.staged(ORDERS, (1, 5, "a"), (2, 5, "b")), loads.target(ORDERS)
    assert judged(one(Unique(), Severity.BLOCK), target, staged, None, 100) == ()
    assert judged(Expectations(), target, staged, None, 100) == ()
    with pytest.raises(TableStopped, match="the table has no column gone"):
        judged(
            Expectations({"shop.orders": one(NotNull(), Severity.BLOCK, "gone").of("shop.orders")}),
            target, staged, None, 100,
        )  # fmt: skip


def test_a_switch_notes_the_results_and_ends_what_was_accepted(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose rows are blocked is not there; one that was accepted has them in its commit's note."""
    staged, target = loads.staged(ORDERS, (1, 5, "a"), (2, 50, "b")), loads.target(ORDERS)
    load = Load(staged, staged.place, staged.place.low.version(), Meanwhile(ChangeLog(loads.lake, "d", "none")))

    def commit(_sessions: Any, one: Load, new: Any) -> None:
        rows = DeltaTable(one.staged.path).to_pyarrow_table()
        noted = CommitProperties(custom_metadata={"userMetadata": new.metadata})
        write_deltalake(target.path, rows, commit_properties=noted)

    monkeypatch.setattr(switching, "_commit", commit)
    with pytest.raises(TableStopped):
        switch(target, NO_SPARK, load, None, lambda: None, expectations=one(SMALL, Severity.BLOCK))
    assert not loads.lake.has("shop", "orders")
    acceptances(target).accept("shop.orders", "known")
    made = switch(target, NO_SPARK, load, None, lambda: None, expectations=one(SMALL, Severity.BLOCK))
    assert [(result.bad, result.accepted) for result in made.expected] == [(1, "known")]
    (noted,) = [commit.note for commit in loads.lake.commits(target.path) if "copy" in commit.note]
    assert json.dumps(noted["expected"]).count("known") == 1
    with pytest.raises(TableStopped):
        judged(one(SMALL, Severity.BLOCK), target, staged, None, 1 << 40)
