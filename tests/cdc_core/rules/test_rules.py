"""Rules by patterns of tables: which counts, their text, and their salts."""

from __future__ import annotations

import json

import pytest

from cdc_core.errors import ConfigError
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from cdc_core.schema.table import Column, TableSchema

HASHED = TableRule(masks=(("email", Mask(MaskKind.SHA256, salt=Salt("LAKE_SALT"))),))


def table(name: str) -> TableSchema:
    return TableSchema("shop", name, (Column("id", 8, 0), Column("email", 15, 80, charset=255)), ("id",))


def test_the_first_pattern_that_fits_counts() -> None:
    """A table that fits none has no rule."""
    rules = Rules({"shop.orders": TableRule(exclude=("email",)), "shop.*": HASHED})

    assert rules.of("shop.orders") == TableRule(exclude=("email",))
    assert rules.of("shop.customers") is HASHED
    assert rules.of("other.customers") is None
    assert rules.view(table("customers")).columns[1].mask is not None


def test_a_table_without_a_rule_is_seen_as_it_is() -> None:
    """No rules have no fingerprint."""
    schema = table("orders")
    assert Rules({"other.*": HASHED}).view(schema) is schema
    assert Rules().fingerprint == ""
    assert not Rules()


def test_rules_come_back_from_their_text() -> None:
    """A pattern without wildcards is for a table that is named in full."""
    rules = Rules(
        {
            "shop.orders": TableRule(("id", "email"), (), (("email", "mail"),), HASHED.masks),
            "shop.*": TableRule(exclude=("email",), masks=(("a", Mask(MaskKind.TRUNCATE, 3)),)),
        }
    )

    again = Rules.from_json(rules.to_json())

    assert again == rules
    assert again.fingerprint == rules.fingerprint
    assert Rules.from_json("") == Rules()


def test_the_order_of_patterns_is_part_of_the_rules() -> None:
    """It decides which one counts."""
    one, two = TableRule(exclude=("a",)), TableRule(exclude=("b",))
    assert Rules({"a.*": one, "*": two}).fingerprint != Rules({"*": two, "a.*": one}).fingerprint


def test_a_rule_of_a_later_version_is_refused() -> None:
    """What is not known here may hide something."""
    ((pattern, rule),) = json.loads(Rules({"shop.*": TableRule(exclude=("a",))}).to_json())
    with pytest.raises(ConfigError, match="'rows', which this version does not know"):
        Rules.from_json(json.dumps([[pattern, rule | {"rows": "id = 1"}]]))


@pytest.mark.parametrize("text", ["{", "7", "{}x", '[["shop.*", {}]]', '[["shop.*", 7]]', '["shop.*"]'])
def test_another_text_is_refused(text: str) -> None:
    """Also JSON of another shape."""
    with pytest.raises(ConfigError, match="not a set of rules"):
        Rules.from_json(text)


def test_a_contradiction_is_refused_with_its_pattern() -> None:
    """When it is read, before it is kept."""
    text = Rules({"shop.*": TableRule(("a",), ("b",))}).to_json()
    with pytest.raises(ConfigError, match="both include and exclude") as caught:
        Rules.from_json(text)
    assert caught.value.place == "rules, shop.*"


def test_salts_come_from_the_environment() -> None:
    """Filled rules have the same fingerprint, so that it says nothing of the salt and is the same everywhere."""
    rules = Rules({"shop.*": HASHED})

    filled = rules.filled({"LAKE_SALT": "pepper"}.get)

    ((_, mask),) = filled.tables["shop.*"].masks
    assert mask.salt is not None
    assert mask.salt.secret == b"pepper"
    assert filled.fingerprint == rules.fingerprint
    assert "pepper" not in repr(filled) + filled.to_json()


@pytest.mark.parametrize("environment", [{}, {"LAKE_SALT": ""}])
def test_a_missing_salt_is_named(environment: dict[str, str]) -> None:
    """By its variable, which may be empty too."""
    with pytest.raises(ConfigError, match="salt is missing") as caught:
        Rules({"shop.*": HASHED}).filled(environment.get)
    assert "LAKE_SALT" in caught.value.place
    assert "LAKE_SALT" in caught.value.hint


def test_tables_are_found_without_case() -> None:
    """A server may keep their names in lower case; then a rule in upper case would hide nothing."""
    rules = Rules({"Shop.Customers": TableRule(exclude=("a",)), "SHOP.*": TableRule(exclude=("b",))})

    assert rules.of("shop.customers") == TableRule(exclude=("a",))
    assert rules.of("shop.ORDERS") == TableRule(exclude=("b",))
    assert [rules.names(name) for name in ("SHOP.customers", "shop.orders", "other.t")] == [True, False, False]


def test_names_that_no_table_has_are_found() -> None:
    """One that another pattern comes before is none of them."""
    rules = Rules({"shop.*": HASHED, "shop.Customers": HASHED, "shop.custmers": HASHED, "crm.*": HASHED})

    assert rules.idle(["shop.customers", "shop.orders"]) == ["shop.custmers", "crm.*"]
    assert rules.idle([]) == list(rules.tables)
