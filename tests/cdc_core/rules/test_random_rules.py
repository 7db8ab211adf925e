"""Rules drawn for a table fit it, and use all that rules can do."""

from __future__ import annotations

from random import Random

from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import MaskKind
from cdc_core.schema.table import Column, TableSchema
from tests.support.random_rules import CASTS, DATETIMES, EXPRESSIONS, ZONES, fits, rule_for

TABLE = TableSchema(
    "shop",
    "t",
    (
        Column("id", 3, 0, nullable=False, column_type="int"),
        Column("tiny", 1, 0, column_type="tinyint(1)"),
        Column("kind", 247, 1, charset=255, labels=("a", "b")),
        Column("text", 15, 80, charset=255),
        Column("shape", 255, 4),
        Column("day", 10, 0),
        Column("doc", 245, 4),
    ),
    ("id",),
)
NAMES = [column.name for column in TABLE.shown]


def test_rules_fit_and_are_of_every_kind() -> None:
    """A thousand of them."""
    rules = [rule_for(Random(seed), TABLE) for seed in range(1000)]

    assert all(fits(rule, TABLE) for rule in rules)
    for rule in rules:
        rule.check("drawn")
    assert {mask.kind for rule in rules for _, mask in rule.masks} == {*MaskKind}
    assert {cast for rule in rules for cast in rule.casts} == {*CASTS, *DATETIMES}
    assert {rule.zone for rule in rules} == {*ZONES}
    used = {text.replace("`", "").replace(name, "{0}") for rule in rules for _, text in rule.computed for name in NAMES}
    assert used >= {*EXPRESSIONS}
    assert any(rule.exclude for rule in rules)
    assert any(name == "id" for rule in rules for name, _ in rule.masks)
    assert not fits(TableRule(exclude=("id",)), TABLE)
