"""Rows behind random rules, against the same rows without rules: over rows events written by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from cdc_core.errors import TableStopped
from cdc_core.rows.net import RowsPlan, plan_changes, plan_net, read
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from tests.support.annotated import slices_of
from tests.support.row_histories import KEYED, histories, written

SALT = Salt("SALT").filled(b"pepper")
MASKS: dict[str, tuple[Mask, Callable[[Any], Any]]] = {
    "sha256": (
        Mask(MaskKind.SHA256, salt=SALT),
        lambda value: hashlib.sha256(b"pepper" + str(value).encode()).hexdigest(),
    ),
    "null": (Mask(MaskKind.NULL), lambda _: None),
    "truncate": (Mask(MaskKind.TRUNCATE, 1), lambda value: value[:1]),
    "keep_last": (Mask(MaskKind.KEEP_LAST, 2), lambda value: value[-2:]),
    "constant": (Mask(MaskKind.CONSTANT, constant="7"), lambda value: type(value)(7)),
}
KEY = ("a", "b")


@st.composite
def rules_of(draw: st.DrawFn, keyed: bool) -> tuple[TableRule, dict[str, tuple[str, str]]]:
    """A rule that fits the table, and what it is: the name and the mask of each column that is left."""
    left, masks, rename = {}, [], []
    for name, _, _ in KEYED:
        in_key = keyed and name in KEY
        if not in_key and draw(st.booleans()):
            continue
        kinds = ("", "sha256") if in_key else ("", *MASKS) if name == "b" else ("", "sha256", "null", "constant")
        kind, new = draw(st.sampled_from(kinds)), draw(st.sampled_from([name, f"{name}2"]))
        left[name] = (new, kind)
        masks += [(name, MASKS[kind][0])] if kind else []
        rename += [(name, new)] if new != name else []
    gone = tuple(name for name, _, _ in KEYED if name not in left)
    if left and draw(st.booleans()):
        return TableRule(include=tuple(left), rename=tuple(rename), masks=tuple(masks)), left
    return TableRule(exclude=gone, rename=tuple(rename), masks=tuple(masks)), left


def rows(plan: RowsPlan) -> list[dict[str, Any]]:
    batches = [batch for split in range(len(plan.splits)) for batch in read(plan, split)]
    assert all(batch.schema == plan.arrow_schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def seen(row: dict[str, Any], left: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """The row as the rule makes it; columns of the system stay."""
    found = {}
    for name, value in row.items():
        if name.startswith("_sluice_"):
            found[name] = value
        elif name in left:
            new, kind = left[name]
            found[new] = value if value is None or not kind else MASKS[kind][1](value)
    return found


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("plan", [plan_net, plan_changes])
@given(history=histories(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_rows_are_what_the_rule_makes_of_them(
    plan: Callable[..., RowsPlan], keyed: bool, history: Any, data: st.DataObject
) -> None:
    """In the same order, of the same counts, under the names of the lake."""
    rule, left = data.draw(rules_of(keyed))
    slices, registry = slices_of(written(history, KEYED, [0, 1] if keyed else []), cuts=2)
    made = plan(slices, registry, "shop.t", None, 2)
    rules = Rules({"shop.t": rule})
    if not left:
        with pytest.raises(TableStopped, match="leaves no column"):
            made.seen(rules)
        return

    found = made.seen(rules)

    assert rows(found) == [seen(row, left) for row in rows(made)]
    assert (found.rows, found.upserts, found.deletes) == (made.rows, made.upserts, made.deletes)
    untouched = made.seen(Rules({"other.*": rule}))
    others = [part.name for part in fields(made) if part.name != "schema"]
    assert untouched.schema == made.schema
    assert all(getattr(untouched, name) is getattr(made, name) for name in others)
