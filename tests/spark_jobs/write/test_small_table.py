"""What delta-rs commits of a small table, and what it refuses, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, TableFeatures, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from cdc_core.client.changes import RowsDoor
from spark_jobs.lake.state import FENCE
from spark_jobs.lake.tables import Lake
from spark_jobs.write import small_table
from spark_jobs.write.order import Claimed, Form, Order
from spark_jobs.write.order_changes import Unfit
from tests.support.random_changes import rows
from tests.support.small_orders import ordered
from tests.support.spark_feed import Change, Feed, Table

KEYED = Table("keyed", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
BAG = Table("bag", pa.schema({"id": pa.int64(), "what": pa.string()}))
SCRIPTS = {
    Form.KEYED: (KEYED, [Change(3, (1, "x"), (1, "y")), Change(4, None, (3, "x"))]),
    Form.COPIES: (BAG, [Change(3, (1, "x"), None), Change(4, None, (3, "x"))]),
    Form.INSERTED: (BAG, [Change(3, None, (1, "x")), Change(4, None, (3, "x"))]),
}


def fenced(order: Order) -> None:
    DeltaTable(order.path).alter.set_table_properties({FENCE: "another's"}, raise_if_not_exists=False)


def committed(order: Order) -> None:
    noted = CommitProperties(app_transactions=[Transaction(order.app, order.version)])
    nothing = DeltaTable(order.path).to_pyarrow_table().slice(0, 0)
    write_deltalake(order.path, nothing, mode="append", commit_properties=noted)


@pytest.mark.parametrize("meanwhile", [fenced, committed])
@pytest.mark.parametrize("form", SCRIPTS)
def test_a_task_that_was_overtaken_commits_nothing(
    service: Feed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: Form,
    meanwhile: Callable[[Order], None],
) -> None:
    """Another run took the table over, or committed the same, when the task had looked at it already."""
    lake, (table, changes) = Lake(tmp_path), SCRIPTS[form]
    first = [Change(1, None, (1, "x")), Change(2, None, (2, "x"))]
    small_table.written(ordered(service, lake, table, first, 1, 0, 2))
    order, changes_of = ordered(service, lake, table, changes, 2, 2, 4), small_table.changes_of
    assert order.form is form

    def slow(one: Order) -> pa.Table:
        meanwhile(one)
        return changes_of(one)

    monkeypatch.setattr(small_table, "changes_of", slow)
    with pytest.raises(CommitFailedError):
        small_table.written(order)
    monkeypatch.setattr(small_table, "changes_of", changes_of)
    with pytest.raises(Unfit):
        small_table.written(order)
    assert rows(lake, table.name) == Counter(["(1, 'x')", "(2, 'x')"])


@pytest.mark.parametrize("form", SCRIPTS)
def test_a_table_that_got_deletion_vectors_meanwhile_is_left_alone(service: Feed, tmp_path: Path, form: Form) -> None:
    """By another program, after the run looked at it: delta-rs would write some of them, and lose their rows."""
    lake, (table, changes) = Lake(tmp_path), SCRIPTS[form]
    order = ordered(service, lake, table, changes, 1, 0, 2)
    delta = DeltaTable(order.path)
    delta.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(Unfit, match="a feature that delta-rs does not write"):
        small_table.written(order)
    assert DeltaTable(order.path).version() == delta.version()


@pytest.mark.parametrize("form", SCRIPTS)
def test_a_claim_of_which_no_row_is_left_is_a_commit(service: Feed, tmp_path: Path, form: Form) -> None:
    """The table has its version, and its rows stay. The service is not asked for any."""
    lake, (table, changes) = Lake(tmp_path), SCRIPTS[form]
    first = [Change(1, None, (1, "x")), Change(2, None, (2, "x"))]
    small_table.written(ordered(service, lake, table, first, 1, 0, 2))
    order = ordered(service, lake, table, changes, 2, 2, 4)

    outcome = small_table.written(replace(order, changes=Claimed(RowsDoor("grpc://127.0.0.1:1"), ())))

    assert (outcome.inserted, outcome.updated, outcome.deleted, outcome.sources) == (0, 0, 0, 0)
    delta = DeltaTable(order.path)
    assert (delta.version(), delta.transaction_version(order.app)) == (outcome.version, order.version)
    assert rows(lake, table.name) == Counter(["(1, 'x')", "(2, 'x')"])
