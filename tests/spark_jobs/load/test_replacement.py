"""The table that a copy replaces, and what comes late after it; without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.features import ENABLE_VECTORS, MAPPING
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import LAYOUT
from spark_jobs.lake.record import CopyNote, Mark
from spark_jobs.lake.seen_columns import check_rules
from spark_jobs.lake.state import DESTINATION, LOG, RULES, TABLE, TableState, app_id, log_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.load.replacement import Replacement, Target
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.session import Sessions

NAME, ABOUT = "shop.orders", json.dumps({"copy": {}, "epoch": 2})


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """In epoch 2. Of epochs 0 and 1 there is a log, of which the table has lately had 0 whole, and 1 not."""
    lake = Lake(tmp_path)
    ends = [Transaction(log_app_id("d", 1, NAME, epoch), 50) for epoch in (0, 1)]
    rows, owner = pa.table({"id": [1]}), {DESTINATION: "d", TABLE: NAME, LOG: "true"}
    noted = CommitProperties(app_transactions=ends)
    write_deltalake(lake.log_path("shop", "orders"), rows, commit_properties=noted)
    lake.open(lake.log_path("shop", "orders")).alter.set_table_properties(owner, raise_if_not_exists=False)
    write(lake, {"epoch": 0}, Transaction(app_id("d", 1, NAME, 0), 50))
    write(lake, {"epoch": 1}, Transaction(app_id("d", 1, NAME, 1), 40))
    write(lake, json.loads(ABOUT), Transaction(app_id("d", 1, NAME, 2), 60))
    return Target(lake, Fence(lake, Sessions("sc://127.0.0.1:1")), LakeClient("d", 1, 2), "shop", "orders")


def write(lake: Lake, about: dict[str, object], applied: Transaction) -> None:
    noted = CommitProperties(app_transactions=[applied], custom_metadata={"userMetadata": json.dumps(about)})
    write_deltalake(lake.path("shop", "orders"), pa.table({"id": [1]}), mode="append", commit_properties=noted)


def test_behind_a_copy_the_logs_of_earlier_epochs_are_passed(target: Target) -> None:
    """Delta skips a statement that merges them and comes late. Again nothing is left to do."""
    lake, apps = target.lake, [app_id("d", 1, NAME, epoch) for epoch in range(3)]
    assert target.committed(ABOUT) == 2
    assert lake.applied(target.path, apps) == [50, 50, 60]
    assert lake.open(target.path).version() == 3
    assert target.committed(ABOUT) == 2
    assert lake.open(target.path).version() == 3


@pytest.mark.parametrize("upto", [45, 50])
def test_a_statement_right_after_a_copy_makes_it_be_done_again(target: Target, upto: int) -> None:
    """Of a part of what was landed, and of all of it."""
    write(target.lake, {"epoch": 1}, Transaction(app_id("d", 1, NAME, 1), upto))
    with pytest.raises(WentOn):
        target.committed(ABOUT)


def test_what_comes_after_a_copy_in_its_epoch_is_right(target: Target) -> None:
    """And so are commits that say nothing of themselves."""
    write(target.lake, {"epoch": 2}, Transaction(app_id("d", 1, NAME, 2), 70))
    write_deltalake(target.path, pa.table({"id": [1]}), mode="append")
    assert target.committed(ABOUT) == 2


def test_a_copy_without_rules_says_that_it_has_none(target: Target) -> None:
    """A table whose files are exchanged keeps the properties that nobody sets."""
    plain = TableSchema("shop", "orders", (Column("id", 3, 0), Column("note", 15, 80, charset=255)), ("id",))
    seen = TableRule(rename=(("note", "text"),)).view(plain)
    note, mark = CopyNote(2, 60, 60), Mark(2, 60, 60)
    ruled = Replacement(target, seen, (), None, note, mark, ABOUT)
    state = TableState(1, None, (), ruled.properties)

    again = Replacement(target, plain, (), state, note, mark, ABOUT)

    assert json.loads(ruled.properties[RULES])["note"]["name"] == "text"
    assert again.properties[RULES] == "{}"
    check_rules(plain, TableState(1, None, (), again.properties))
    assert RULES not in Replacement(target, plain, (), None, note, mark, ABOUT).properties


@pytest.mark.parametrize("is_shard", [False, True])
def test_a_copy_of_a_shard_keeps_nothing_that_its_union_cannot_name(target: Target, is_shard: bool) -> None:
    """No column mapping, no layout and no deletion vectors; another table keeps what nobody declares."""
    if is_shard:
        target.lake.unions = Unions("d", (Union("all.orders", r"(shop)\.orders", ("shop",)),))
    had = {MAPPING: "name", LAYOUT: '{"partition_by": ["id"]}', ENABLE_VECTORS: "true"}
    schema = TableSchema("shop", "orders", (Column("id", 3, 0),), ("id",))
    state, note = TableState(1, None, (), had), CopyNote(2, 60, 60)
    found = Replacement(target, schema, (), state, note, Mark(2, 60, 60), ABOUT).properties
    kept = {name: found[name] for name in had if name in found}
    assert kept == ({ENABLE_VECTORS: "false"} if is_shard else had)
