"""Claims that a run gives back: seen by other rules than its own, or by another salt."""

from __future__ import annotations

import pytest

from cdc_core.contract.claim import Claim, TableRange
from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from cdc_core.rules.claims import check_seen, seen_claim
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from cdc_core.schema.table import Column, TableSchema

PLACE = EntryPosition("mysql-bin.000001", 4)
TABLE = TableSchema("shop", "people", (Column("id", 3, 0), Column("email", 15, 80, charset=255)), ("id",))
RULES = Rules({"shop.*": TableRule(masks=(("email", Mask(MaskKind.SHA256, salt=Salt("LAKE_SALT"))),))})
CLAIM = Claim("shop", 1001, 1, PLACE, PLACE, (TableRange(TABLE, 1, 0, 0),), 1, 1, 1, (), 0, "me", 0.0)


def over_the_wire(rules: Rules, salt: str = "pepper") -> Claim:
    """The claim as the service hands it out."""
    return Claim.from_dict(seen_claim(CLAIM, rules.filled({"LAKE_SALT": salt}.get)).to_dict())


def test_a_claim_by_the_same_rules_and_salt_goes_on() -> None:
    """Also where this process has no salt, because it reads no source; and without rules."""
    check_seen(over_the_wire(RULES), RULES, {"LAKE_SALT": "pepper"}.get)
    check_seen(over_the_wire(RULES), RULES, {}.get)
    check_seen(CLAIM, Rules(), {}.get)


@pytest.mark.parametrize(("claim", "rules"), [(CLAIM, RULES), (over_the_wire(RULES), Rules())])
def test_a_claim_by_other_rules_goes_back(claim: Claim, rules: Rules) -> None:
    """Before any of it is written."""
    with pytest.raises(LakeError, match="by other rules than this run has"):
        check_seen(claim, rules, {}.get)


def test_a_claim_by_another_salt_goes_back() -> None:
    """Else each copy would be made by the one salt, and the next rows by the other, which need a copy again."""
    with pytest.raises(LakeError, match="by another salt than this run has") as caught:
        check_seen(over_the_wire(RULES), RULES, {"LAKE_SALT": "paprika"}.get)
    assert caught.value.place == "LAKE_SALT"
    assert "paprika" not in str(caught.value)
