"""The changes of a table from a claim and from its log: the rows of each that a statement gets, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cdc_core.client.changes import PlanCounts, RowsDoor, TableRead
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.changes.columns import EPOCH, VERSION
from spark_jobs.changes.net import CLAIMED, LOGGED, ImageQuery, grouped, repeated
from spark_jobs.changes.table_changes import Changes, OfClaim, SeenChanges
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.own_columns import NO_OWN, Own
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn, spark_type

FIELDS = pa.schema({"id": pa.int64(), "v": pa.string(), "new": pa.string()})
COLUMNS = tuple(LakeColumn(field.name, spark_type(field.type)) for field in FIELDS)
IN_TABLE = COLUMNS[:2]  # a policy left the new column out
NET = SeenChanges("net", 5)
IN_CLAIM, IN_LOG = SeenChanges("images", 5, form=CLAIMED), SeenChanges("log", 5, form=LOGGED, where="here")


def of(key: tuple[str, ...], *, insert_only: bool = False, partial: bool = False) -> Changes:
    table = TableSchema("shop", "t", tuple(Column(name, 8, 0) for name in FIELDS.names), key)
    counts = PlanCounts(insert_only=insert_only, partial=partial)
    read = TableRead(FIELDS, table, counts, 5, (b"one",))
    return Changes(table, FIELDS, VersionRange(1, 10, 90), 5, counts, OfClaim(RowsDoor("grpc://h:1"), read))


def net(changes: Changes, seen: SeenChanges, own: Own = NO_OWN) -> str:
    columns = (*IN_TABLE, LakeColumn("old", "int"))
    return changes.net(seen, "/lake/t", TableState(3, 10, columns, {}, own=own))


def images(seen: SeenChanges, key: tuple[str, ...]) -> ImageQuery:
    assert seen.form is not None
    return ImageQuery(seen.sql, IN_TABLE, key, seen.where, seen.form)


def test_net_changes_of_the_service_are_taken_as_they_are() -> None:
    """Without a key, equal rows of several splits are counted together; inserts alone are only repeated."""
    assert net(of(("id",)), NET) == "net"
    assert net(of(()), NET) == grouped("net", IN_TABLE)
    assert net(of((), insert_only=True), NET) == repeated("net", IN_TABLE)


@pytest.mark.parametrize("seen", [IN_CLAIM, IN_LOG], ids=["claim", "log"])
def test_images_of_a_claim_and_of_a_log_become_net_in_one_way(seen: SeenChanges) -> None:
    """With a key, without one, if all were inserted, and for a table with columns of Sluice's, or that the source has
    dropped."""
    assert net(of(()), seen) == images(seen, ()).net()
    assert net(of(("id",)), seen) == images(seen, ("id",)).last(NO_OWN, anew=True)
    whole = TableState(3, 10, IN_TABLE, {})
    assert of(("id",)).net(seen, "/lake/t", whole) == images(seen, ("id",)).net()
    assert net(of((), insert_only=True), seen) == images(seen, ()).inserted()
    soft = Own.made((), soft=True)
    assert net(of(("id",)), seen, soft) == images(seen, ("id",)).last(soft, anew=True)


def test_columns_that_one_of_both_lacks() -> None:
    """The source's new one is left out; the table's old one stays there."""
    state = TableState(3, 10, (*IN_TABLE, LakeColumn("old", "int")), {})
    changes = of(("id",))
    assert changes.columns == COLUMNS
    assert changes.columns_in(state) == IN_TABLE
    assert changes.dropped_in(state) == ["old"]


@pytest.mark.parametrize(
    ("epochs", "low", "high", "meets"),
    [
        ((1, 1), 11, 20, True),
        ((0, 2), 5, 11, True),
        ((1, 1), 90, 95, True),
        ((1, 1), 5, 10, False),
        ((1, 1), 91, 95, False),
        ((2, 3), 11, 20, False),
    ],
)
def test_the_files_that_a_range_meets(epochs: tuple[int, int], low: int, high: int, meets: bool) -> None:
    """One that it does not meet has no row for which its condition holds."""
    asked = VersionRange(1, 10, 90)
    assert asked.meets(epochs, low, high) is meets
    rows = [{EPOCH: epoch, VERSION: at} for epoch in range(epochs[0], epochs[1] + 1) for at in range(low, high + 1)]
    found = pa.Table.from_pylist(rows).filter(asked.expression)
    assert bool(found.num_rows) is meets
    assert VersionRange(1, None, 90).meets(epochs, low, high) is (epochs[0] <= 1 <= epochs[1] and low <= 90)
    assert pa.Table.from_pylist(rows).filter(VersionRange(1, None, 90).expression & (pc.field(VERSION) > 10)) == found
