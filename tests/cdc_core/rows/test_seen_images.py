"""Rows of which a lake has some, against the history that it sees: over rows events written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings

from cdc_core.errors import TableStopped
from cdc_core.rows.net import RowsPlan, plan_changes, plan_net, read
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from tests.support.annotated import slices_of
from tests.support.binlog_files import Log, image, table_map_body
from tests.support.row_histories import KEYED, Change, histories, written

_PLACES = ("_sluice_journal", "_sluice_position", "_sluice_row", "_sluice_timestamp")
CONDITIONS: dict[str, Callable[[Any], bool]] = {
    "v >= 2": lambda row: row[2] is not None and row[2] >= 2,
    "v IS NULL OR a < 0": lambda row: row[2] is None or row[0] < 0,
    "b LIKE 'abc%' OR V IN (1, 3)": lambda row: row[1].startswith("abc") or row[2] in (1, 3),
    "NOT (a + v = 2)": lambda row: row[2] is not None and row[0] + row[2] != 2,
    "COALESCE(v, 0) = 0 AND SUBSTR(b, 2, 1) <> 'b'": lambda row: not row[2] and row[1][1:2] != "b",
}


def of_lake(history: list[list[Change]], meets: Callable[..., bool]) -> list[list[Change]]:
    """The history of the rows that meet a condition."""
    found: list[list[Change]] = []
    for transaction in history:
        changes: list[Change] = []
        for _, old, new in transaction:
            before, after = (row if row is not None and meets(row) else None for row in (old, new))
            if before or after:
                changes.append(("update" if before and after else "delete" if before else "insert", before, after))
        if changes:
            found.append(changes)
    return found


def rows(plan: RowsPlan) -> list[dict[str, Any]]:
    """What is handed out, without its places: events of nothing count in them."""
    batches = [batch for split in range(len(plan.splits)) for batch in read(plan, split)]
    assert all(batch.schema == plan.arrow_schema for batch in batches)
    assert sum(split.rows for split in plan.splits) == sum(batch.num_rows for batch in batches) == plan.rows
    return [
        {name: value for name, value in row.items() if name not in _PLACES}
        for batch in batches
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("plan", [plan_net, plan_changes])
@pytest.mark.parametrize("where", CONDITIONS)
@given(history=histories())
@settings(max_examples=30, deadline=None)
def test_a_lake_sees_the_history_of_its_rows(
    where: str, plan: Callable[..., RowsPlan], keyed: bool, history: list[list[Change]]
) -> None:
    """A row that comes to meet the condition is inserted, one that meets it no longer is deleted; counts are theirs."""
    key = [0, 1] if keyed else []
    theirs = of_lake(history, CONDITIONS[where])
    assume(theirs)
    rules = Rules({"shop.t": TableRule(rename=(("v", "value"),), where=where)})
    slices, registry = slices_of(written(history, KEYED, key), cuts=2)
    expected = plan(*slices_of(written(theirs, KEYED, key)), "shop.t")

    made = plan(slices, registry, "shop.t", None, 2, rules).seen(rules)

    assert rows(made) == [{"value" if k == "v" else k: v for k, v in row.items()} for row in rows(expected)]
    ours, counts = made.to_dict(), expected.to_dict()
    assert ours == counts


@pytest.mark.parametrize("plan", [plan_net, plan_changes])
def test_a_range_may_have_no_row_of_the_lake(plan: Callable[..., RowsPlan]) -> None:
    """Nothing is handed out, and nothing is counted."""
    rules = Rules({"shop.t": TableRule(where="v = 9")})
    slices, registry = slices_of(written([[("insert", None, (1, "a", 1)), ("delete", (1, "a", 1), None)]], KEYED, [0]))

    made = plan(slices, registry, "shop.t", None, 2, rules).seen(rules)

    assert (made.rows, made.splits, made.raw_inserts, made.raw_deletes) == (0, (), 0, 0)
    assert list(read(made)) == []


@pytest.mark.parametrize("plan", [plan_net, plan_changes])
def test_images_that_leave_columns_out_stop_the_table(plan: Callable[..., RowsPlan]) -> None:
    """Nobody knows whether their rows are the lake's."""
    log = Log()
    log.query("BEGIN")
    log.table_map(1, table_map_body("t", KEYED, [0]))
    log.add(30, (1).to_bytes(6, "little") + b"\1\0\2\0" + bytes([len(KEYED), 1]) + image(KEYED[:1], (1,)))
    log.add(16, bytes(8))
    rules = Rules({"shop.t": TableRule(where="v = 9")})

    with pytest.raises(TableStopped, match="lacks columns, and its rule has a condition") as caught:
        plan(*slices_of(log), "shop.t", None, 1, rules)
    assert "binlog_row_image=FULL" in caught.value.hint


def test_a_condition_that_does_not_fit_its_columns_stops_the_table() -> None:
    """A number is no text."""
    rules = Rules({"shop.t": TableRule(where="v = 'x'")})
    slices, registry = slices_of(written([[("insert", None, (1, "a", 1))]], KEYED, [0]))

    with pytest.raises(TableStopped, match="cannot be evaluated: int32 is not text"):
        plan_net(slices, registry, "shop.t", None, 1, rules)
