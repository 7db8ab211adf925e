"""What a `defs.yaml` says about what the lake sees, as rules."""

from __future__ import annotations

import pytest
import yaml

from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast, Mask, MaskKind, Salt
from orchestration.lake_rules import SeenTables

TEXT = """
salt: {env: LAKE_SALT}
tables:
  shop.customers:
    exclude: [password]
    rename: {email: mail}
    mask:
      email: sha256
      phone: {keep_last: 4}
      name: {truncate: 1}
      notes: "null"
      remarks: null
      city: {constant: hidden}
      age: {constant: 0}
    types: {tinyint1: boolean, enum: number, bit1: boolean}
  shop.audit: {types: {datetime: timestamp, datetime_zone: Europe/Berlin}}
  shop.logs: {types: {datetime: string, bit1: number}}
  shop.orders: {where: "total > 0 ", compute: {total_cents: "CAST(total * 100 AS SIGNED) "}}
  shop.old: {types: {zero_dates: null}}
  shop.older: {types: {zero_dates: string}}
  shop.*: {include: [id, at]}
"""


def test_rules_are_as_written() -> None:
    """In the same order: the first pattern that fits counts."""
    masks = (
        ("email", Mask(MaskKind.SHA256, salt=Salt("LAKE_SALT"))),
        ("phone", Mask(MaskKind.KEEP_LAST, 4)),
        ("name", Mask(MaskKind.TRUNCATE, 1)),
        ("notes", Mask(MaskKind.NULL)),
        ("remarks", Mask(MaskKind.NULL)),
        ("city", Mask(MaskKind.CONSTANT, constant="hidden")),
        ("age", Mask(MaskKind.CONSTANT, constant="0")),
    )
    customers = TableRule((), ("password",), (("email", "mail"),), masks, (Cast.TINYINT1, Cast.ENUM))

    read = SeenTables.model_validate(yaml.safe_load(TEXT)).rules

    audit = TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone="Europe/Berlin")
    logs = TableRule(casts=(Cast.BIT1, Cast.DATETIME_STRING))
    orders = TableRule(where="total > 0", computed=(("total_cents", "CAST(total * 100 AS SIGNED)"),))
    old = [("shop.old", TableRule(zero_dates="null")), ("shop.older", TableRule(zero_dates="string"))]
    others = [("shop.audit", audit), ("shop.logs", logs), ("shop.orders", orders), *old]
    others.append(("shop.*", TableRule(("id", "at"))))
    assert list(read.tables.items()) == [("shop.customers", customers), *others]
    assert Rules.from_json(read.to_json()) == read


def test_there_are_none_by_default() -> None:
    """A defs.yaml without the key has none."""
    assert not SeenTables().rules


@pytest.mark.parametrize(("text", "why"), [("include: []", "names no column"), ("where: ' '", "has no condition")])
def test_what_is_empty_does_not_show_everything(text: str, why: str) -> None:
    """A list that became empty, or a variable without a value."""
    with pytest.raises(ValueError, match=why):
        SeenTables.model_validate({"tables": {"shop.customers": yaml.safe_load(text)}})
