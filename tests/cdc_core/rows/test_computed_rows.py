"""Rows with computed columns, against the same rows without: over rows events written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from cdc_core.errors import DecodeError, TableStopped
from cdc_core.rows.net import RowsPlan, plan_changes, plan_net, read
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from tests.support.annotated import slices_of
from tests.support.binlog_files import Log, image, table_map_body
from tests.support.row_histories import KEYED, Change, histories, written

RULE = TableRule(
    rename=(("v", "value"),),
    computed=(
        ("sum", "a + V"),
        ("kind", "CASE WHEN v IS NULL THEN 'none' WHEN v > 1 THEN CONCAT(b, '!') ELSE b END"),
        ("odd", "v % 2 = 1"),
    ),
)


def computed(row: dict[str, Any]) -> dict[str, Any]:
    """The row as the rule makes it. Of a key that is removed nothing is known but the key."""
    a, b, v = row["a"], row["b"], row["v"]
    more = {
        "sum": None if v is None else a + v,
        "kind": "none" if v is None else f"{b}!" if v > 1 else b,
        "odd": None if v is None else v % 2 == 1,
    }
    if row.get("_sluice_op") == 2:
        more = dict.fromkeys(more)
    system = {name: value for name, value in row.items() if name.startswith("_sluice_")}
    return {"a": a, "b": b, "value": v} | more | system


def rows(plan: RowsPlan) -> list[dict[str, Any]]:
    batches = [batch for split in range(len(plan.splits)) for batch in read(plan, split)]
    assert all(batch.schema == plan.arrow_schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("plan", [plan_net, plan_changes])
@given(history=histories())
@settings(max_examples=40, deadline=None)
def test_columns_are_computed_of_each_row(
    plan: Callable[..., RowsPlan], keyed: bool, history: list[list[Change]]
) -> None:
    """Of rows before and after a change. They come after the table's own."""
    slices, registry = slices_of(written(history, KEYED, [0, 1] if keyed else []), cuts=2)
    made = plan(slices, registry, "shop.t", None, 2)

    found = made.seen(Rules({"shop.*": RULE}))

    assert [list(row) for row in rows(found)] == [list(computed(row)) for row in rows(made)]
    assert rows(found) == [computed(row) for row in rows(made)]
    assert (found.rows, found.upserts, found.deletes) == (made.rows, made.upserts, made.deletes)


@pytest.mark.parametrize("plan", [plan_net, plan_changes])
@given(history=histories())
@settings(max_examples=20, deadline=None)
def test_columns_are_computed_of_the_rows_that_meet_a_condition(
    plan: Callable[..., RowsPlan], history: list[list[Change]]
) -> None:
    """The others may have no value."""
    rules = Rules({"shop.t": TableRule(where="v > 1", computed=(("x", "CAST(IF(v > 1, '7', b) AS SIGNED)"),))})
    slices, registry = slices_of(written(history, KEYED, []), cuts=2)

    found = rows(plan(slices, registry, "shop.t", None, 2, rules).seen(rules))

    assert all(row["x"] == 7 for row in found)


@pytest.mark.parametrize("plan", [plan_net, plan_changes])
def test_a_row_without_a_value_stops_its_table(plan: Callable[..., RowsPlan]) -> None:
    """The error has the place of the row."""
    inserts: list[Change] = [("insert", None, (number, text, 1)) for number, text in enumerate(["1", "2", "x", "4"])]
    slices, registry = slices_of(written([[one] for one in inserts], KEYED, [0]))
    made = plan(slices, registry, "shop.t").seen(Rules({"*": TableRule(computed=(("x", "CAST(b AS SIGNED)"),))}))

    with pytest.raises(DecodeError, match=r"shop.t.x, row 2: the expression .* has no value .a text is not") as caught:
        rows(made)

    assert caught.value.place.startswith("mysql-bin.000001:")
    assert "rules" in caught.value.hint


def test_a_key_that_is_removed_computes_nothing() -> None:
    """Its row is not known, and an expression may fail without it."""
    later: list[Change] = [("delete", (1, "1", 1), None), ("update", (2, "2", 1), (3, "2", 1))]
    slices, registry = slices_of(written([later], KEYED, [0]))
    rule = TableRule(computed=(("x", "CAST(COALESCE(b, 'none') AS SIGNED)"),))

    found = rows(plan_net(slices, registry, "shop.t").seen(Rules({"*": rule})))

    assert sorted((row["a"], row["x"], row["_sluice_op"]) for row in found if row["_sluice_op"] == 1) == [(3, 2, 1)]
    assert {(row["a"], row["x"]) for row in found if row["_sluice_op"] == 2} == {(1, None), (2, None)}


def test_images_that_leave_columns_out_stop_the_table() -> None:
    """Nobody knows what their rows' other columns have."""
    log = Log()
    log.query("BEGIN")
    log.table_map(1, table_map_body("t", KEYED, [0]))
    log.add(30, (1).to_bytes(6, "little") + b"\1\0\2\0" + bytes([len(KEYED), 1]) + image(KEYED[:1], (1,)))
    log.add(16, bytes(8))
    made = plan_net(*slices_of(log), "shop.t")
    assert made.partial

    with pytest.raises(TableStopped, match="lack columns, and its rule computes the column 'sum'") as caught:
        made.seen(Rules({"*": RULE}))
    assert "binlog_row_image=FULL" in caught.value.hint
