"""Which DDL statements a mirror runs: those that change its databases' tables alone."""

from __future__ import annotations

import pytest

from cdc_core.canal.mirror.rules import MirrorRule, MirrorRules
from cdc_core.canal.mirror.scope import effects_of, is_mirrored
from cdc_core.canal.mirror.sql import Untranslatable

RULES = MirrorRules(
    [
        MirrorRule(database="shop", mirrorDb=True),
        MirrorRule(database="shop", table="own", mapAll=True),
        MirrorRule(database="crm", mirrorDb=True),
    ]
)


def mirrored(sql: str, table: str = "") -> bool:
    return is_mirrored(effects_of(sql, "shop", table)[0], RULES)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP TABLE a, crm.b", True),
        ("RENAME TABLE a TO crm.a, crm.b TO a", True),
        ("DROP DATABASE shop", True),
        ("DROP DATABASE other", False),
        ("ALTER TABLE own ADD x INT", False),
        ("DROP TABLE own, other.b", False),
        ("CREATE TABLE other.a LIKE other.b", False),
    ],
)
def test_all_or_none_of_its_tables(sql: str, expected: bool) -> None:
    """Tables of other databases, and those with a rule of their own, are left alone."""
    assert mirrored(sql) is expected


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("RENAME TABLE a TO other.a", "other.a"),
        ("RENAME TABLE other.a TO a", "other.a"),
        ("ALTER TABLE a RENAME TO other.a", "other.a"),
        ("DROP TABLE a, own", "shop.own"),
        ("DROP TABLE IF EXISTS other.b, a", "other.b"),
        ("CREATE TABLE a LIKE other.b", "other.b"),
    ],
)
def test_some_of_its_tables(sql: str, named: str) -> None:
    """Neither running nor leaving out is right: it is refused, with the tables that are not mirrored."""
    with pytest.raises(Untranslatable, match=f"together with {named},"):
        mirrored(sql)


def test_names_in_lower_case() -> None:
    """A server that keeps names so says it by the table's name in the header, the old one's or the new one's."""
    assert mirrored("RENAME TABLE Shop.A TO SHOP.B", "b")
    assert not mirrored("RENAME TABLE Shop.A TO SHOP.B", "B")
