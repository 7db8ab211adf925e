"""The rule of one table: what it makes of a definition, and which rules are refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from cdc_core.errors import ConfigError
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast, ColumnRule, Mask, MaskKind, Salt
from cdc_core.schema.table import Column, Defect, TableSchema

HASH = Mask(MaskKind.SHA256, salt=Salt("SALT").filled(b"pepper"))
SHOP = TableSchema(
    "shop",
    "customers",
    (
        Column("id", 8, 0, nullable=False),
        Column("Email", 15, 80, charset=255, comment="a person's", default="nobody"),
        Column("phone", 15, 80, charset=255),
        Column("DB_ROW_HASH_1", 8, 0, hidden=True),
    ),
    ("id",),
)


def names(schema: TableSchema) -> list[str]:
    return [column.name for column in schema.shown]


def test_columns_are_left_out() -> None:
    """Whatever the case of their names. All that is left of one is its place in a row image."""
    seen = TableRule(exclude=("EMAIL",)).view(SHOP)

    assert names(seen) == ["id", "phone"]
    assert seen.columns[1] == Column("", 15, 80, hidden=True, rule=ColumnRule("Email", excluded=True))
    assert seen.version != SHOP.version


def test_only_the_included_columns_are_seen() -> None:
    """A column that comes later is left out too."""
    assert names(TableRule(include=("id", "phone")).view(SHOP)) == ["id", "phone"]


def test_a_column_gets_another_name_also_in_the_key() -> None:
    """It knows its name at the source."""
    seen = TableRule(rename=(("id", "number"), ("email", "mail"))).view(SHOP)

    assert names(seen) == ["number", "mail", "phone"]
    assert seen.primary_key == ("number",)
    assert [column.source_name for column in seen.columns] == ["id", "Email", "phone", "DB_ROW_HASH_1"]


def test_two_columns_change_names() -> None:
    """Each has the other's."""
    assert names(TableRule(rename=(("email", "phone"), ("phone", "email"))).view(SHOP)) == ["id", "phone", "email"]


def test_a_column_may_get_the_name_of_one_that_is_left_out() -> None:
    """The hidden one is not taken for the key."""
    seen = TableRule(exclude=("phone",), rename=(("id", "phone"),)).view(SHOP)

    assert names(seen) == ["phone", "Email"]
    assert seen.primary_key == ("phone",)
    assert [column.name in seen.primary_key for column in seen.columns] == [True, False, False, False]


def test_a_masked_column_has_no_default() -> None:
    """The default is a value that rows have. Which one the lake has then is not known."""
    column = TableRule(masks=(("email", HASH),)).view(SHOP).columns[1]

    assert column.mask == HASH
    assert column.source_name == column.name == "Email"
    assert (column.default, column.default_expression) == ("", True)


def test_a_column_of_nulls_has_null_in_old_rows_too() -> None:
    """Whatever its default and NOT NULL say."""
    schema = replace(SHOP, columns=(SHOP.columns[0], replace(SHOP.columns[1], nullable=False)))
    column = TableRule(masks=(("email", Mask(MaskKind.NULL)),)).view(schema).columns[1]

    assert (column.default, column.default_expression, column.nullable) == (None, False, True)


def test_a_rule_without_effect_leaves_the_definition_as_it_is() -> None:
    """The very same value, which costs nothing."""
    assert TableRule(exclude=("ssn",)).view(SHOP) is SHOP


def test_a_table_that_cannot_be_read_keeps_its_reason() -> None:
    """No rule hides it; but a default may be a hidden value, so no column is shown."""
    broken = replace(SHOP, defect=Defect("a reason", "a hint"))

    for seen in (TableRule(exclude=("phone",)).view(broken), TableRule(exclude=("id",)).view(SHOP)):
        assert seen.defect is not None
        assert (seen.name, seen.columns) == (SHOP.name, ())
    assert TableRule(exclude=("phone",)).view(broken).defect == broken.defect


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (TableRule(exclude=("ssn",)), "names a column that the table does not have: 'ssn'"),
        (TableRule(masks=(("ssn", HASH),)), "names a column that the table does not have: 'ssn'"),
        (TableRule(exclude=("DB_ROW_HASH_1",)), "does not have: 'DB_ROW_HASH_1'"),
        (TableRule(exclude=("ID",)), "leaves out 'id', a column of the key"),
        (TableRule(include=("phone",)), "leaves out 'id', a column of the key"),
        (TableRule(exclude=("id", "email", "phone")), "leaves no column"),
        (TableRule(masks=(("Id", Mask(MaskKind.NULL)),)), "masks 'id', a column of the key, .* equal .null"),
        (TableRule(masks=(("id", Mask(MaskKind.TRUNCATE, 3)),)), "masks 'id'.*truncate"),
        (TableRule(masks=(("id", Mask(MaskKind.KEEP_LAST, 3)),)), "masks 'id'.*keep_last"),
        (TableRule(masks=(("id", Mask(MaskKind.CONSTANT, constant="1")),)), "masks 'id'.*constant"),
        (TableRule(rename=(("email", "Phone"),)), "gives two columns the name 'phone'"),
    ],
)
def test_a_rule_that_does_not_fit_stops_its_table(rule: TableRule, reason: str) -> None:
    """And shows none of its rows until it is corrected."""
    defect = rule.view(SHOP, whole=True).defect

    assert defect is not None
    assert re.search(reason, defect.reason)
    assert "defs.yaml" in defect.hint


def test_a_key_may_be_hashed() -> None:
    """Different keys stay different."""
    seen = TableRule(masks=(("id", HASH),)).view(SHOP)
    assert seen.defect is None
    assert seen.primary_key == ("id",)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (TableRule(include=("a",), exclude=("b",)), "both include and exclude"),
        (TableRule(exclude=("a", "A")), "names the column 'a' twice"),
        (TableRule(rename=(("a", "x"), ("A", "y"))), "names the column 'a' twice"),
        (TableRule(masks=(("a", HASH), ("A", HASH))), "names the column 'a' twice"),
        (TableRule(exclude=("a",), rename=(("A", "b"),)), "leaves out the column 'A' and also renames or masks"),
        (TableRule(exclude=("a",), masks=(("a", HASH),)), "leaves out the column 'a' and also"),
        (TableRule(include=("a",), masks=(("b", HASH),)), "leaves out the column 'b' and also"),
        (TableRule(rename=(("a", "x"), ("b", "X"))), "gives two columns the name 'x'"),
        (TableRule(rename=(("a", ""),)), "the name ''"),
        (TableRule(rename=(("a", "_sluice_op"),)), "the name '_sluice_op'"),
        (TableRule(masks=(("a", Mask(MaskKind.TRUNCATE)),)), "leaves 0 characters"),
        (TableRule(masks=(("a", Mask(MaskKind.KEEP_LAST, -1)),)), "leaves -1 characters"),
        (TableRule(masks=(("a", Mask(MaskKind.SHA256)),)), "has no salt"),
        (TableRule(where="a = 1", exclude=("A",)), "hides the column 'a', and its condition asks it"),
        (TableRule(where="a = 1", include=("b",)), "hides the column 'a', and its condition asks it"),
        (TableRule(where="a = 1", masks=(("a", HASH),)), "hides the column 'a', and its condition asks it"),
        (TableRule(where="a REGEXP 'x'"), "is not a condition of the language"),
        (TableRule(computed=(("x", "a + 1"), ("X", "a"))), "gives two columns the name 'x'"),
        (TableRule(rename=(("a", "x"),), computed=(("x", "a + 1"),)), "gives two columns the name 'x'"),
        (TableRule(computed=(("_sluice_op", "a"),)), "gives a column the name '_sluice_op'"),
        (TableRule(computed=(("", "a"),)), "gives a column the name ''"),
        (TableRule(exclude=("a",), computed=(("x", "A + 1"),)), "hides the column 'a', and the column 'x' is computed"),
        (TableRule(masks=(("a", HASH),), computed=(("x", "a"),)), "hides the column 'a', and the column 'x'"),
        (TableRule(masks=(("x", HASH),), computed=(("X", "a"),)), "computes the column 'X' and also leaves it out"),
        (TableRule(exclude=("x",), computed=(("x", "a"),)), "computes the column 'x' and also leaves it out"),
        (TableRule(computed=(("x", "NOW()"),)), "is not a value of the language"),
        (TableRule(zone="Europe/Berlin"), "has the zone 'Europe/Berlin', and makes no DATETIME a timestamp"),
        (TableRule(casts=(Cast.DATETIME_STRING,), zone="Europe/Berlin"), "makes no DATETIME a timestamp"),
        (TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone="Europe/Berlinn"), "'Europe/Berlinn', which this machine"),
        (TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone="../../etc/passwd"), "which this machine does not know"),
        (TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone=""), "which this machine does not know"),
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(rule: TableRule, reason: str) -> None:
    """With the place where it is written."""
    with pytest.raises(ConfigError, match=reason) as caught:
        rule.check("rules, shop.*")
    assert caught.value.place == "rules, shop.*"


def test_a_definition_keeps_its_rules_over_the_wire_but_not_its_salt() -> None:
    """Neither has a text of any kind the salt."""
    rule = TableRule(exclude=("phone",), rename=(("id", "number"),), masks=(("email", HASH),))
    seen = rule.view(SHOP)
    text = json.dumps(seen.to_dict())

    again = TableSchema.from_dict({k: v for k, v in json.loads(text).items() if k != "version"})

    assert again == seen
    assert again.version == seen.version
    assert again.columns[1].mask is not None
    assert again.columns[1].mask.salt is not None
    assert again.columns[1].mask.salt.secret == b""
    assert "pepper" not in text + repr(seen) + repr(rule) + json.dumps(rule.to_dict())


def test_another_salt_is_another_definition() -> None:
    """Its hashes are others. So the lake's table is not continued with them."""
    other = Mask(MaskKind.SHA256, salt=Salt("SALT").filled(b"paprika"))
    versions = {TableRule(masks=(("email", mask),)).view(SHOP).version for mask in (HASH, other)}
    assert len(versions) == 2


def test_a_definition_without_rules_is_as_before() -> None:
    """Its JSON has no word of rules, which earlier clients would not know."""
    assert "rule" not in SHOP.to_dict()["columns"][0]


def test_a_condition_is_part_of_the_definition() -> None:
    """In names of the source; another one is another definition."""
    rule = TableRule(rename=(("email", "mail"),), where="Email LIKE '%@example.com'")
    seen = rule.view(SHOP)

    assert seen.where == rule.where
    assert TableRule(where="id = 1").view(SHOP).columns == SHOP.columns
    assert (
        len({SHOP.version, TableRule(where="id = 1").view(SHOP).version, TableRule(where="id=1").view(SHOP).version})
        == 3
    )
    fields = json.loads(json.dumps(seen.to_dict()))
    assert TableSchema.from_dict({k: v for k, v in fields.items() if k != "version"}) == seen
    assert "where" not in SHOP.to_dict()
    assert TableRule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    assert "where" not in TableRule(exclude=("phone",)).to_dict()


@pytest.mark.parametrize(
    ("where", "column", "reason"),
    [
        ("ssn = 1", None, "names a column that the table does not have, or the lake: 'ssn'"),
        ("db_row_hash_1 = 1", None, "or the lake: 'db_row_hash_1'"),
        ("at = '2024-01-01'", Column("at", 18, 0), "asks 'at', a column of a type that conditions do not have"),
        ("f = 1", Column("f", 5, 8), "asks 'f', a column of a type"),
        ("j IS NULL", Column("j", 245, 4), "asks 'j', a column of a type"),
        ("u = '1'", Column("u", 254, 16, charset=63, column_type="uuid"), "asks 'u', a column of a type"),
    ],
)
def test_a_condition_that_no_row_can_be_asked_stops_the_table(where: str, column: Column | None, reason: str) -> None:
    """Also where a pattern gave it the rule."""
    schema = replace(SHOP, columns=(*SHOP.columns, column)) if column else SHOP
    seen = TableRule(where=where).view(schema)

    assert seen.defect is not None
    assert reason in seen.defect.reason


def test_a_condition_asks_no_column_of_another_type() -> None:
    """It would be asked for the source's values, which the lake does not have."""
    flag = Column("flag", 1, 0, column_type="tinyint(1)")
    rule = TableRule(casts=(Cast.TINYINT1,), where="flag = 1")

    seen = rule.view(replace(SHOP, columns=(*SHOP.columns, flag)))

    assert seen.defect is not None
    assert "asks 'flag'" in seen.defect.reason


COMPUTED = TableRule(
    rename=(("email", "mail"),),
    computed=(
        ("domain", "LOWER(Email)"), ("next", "id + 1"), ("old", "id < 10"), ("half", "id * 0.5"),
        ("day", "CAST('2024-01-31' AS DATE)"), ("noon", "CAST('2024-01-31 12:00:00' AS DATETIME)"),
    ),
)  # fmt: skip


def test_computed_columns_come_after_those_of_the_source() -> None:
    """As columns of MySQL that have such values; in names of the source, of columns that may have another name."""
    seen = COMPUTED.view(SHOP)

    assert names(seen) == ["id", "mail", "phone", "domain", "next", "old", "half", "day", "noon"]
    assert seen.stored == seen.columns[:4]
    assert [column.name for column in seen.selected] == ["id", "mail", "phone"]
    types = [column.column_type for column in seen.shown[3:]]
    assert types == ["longtext", "bigint", "tinyint(1)", "decimal(22,1)", "date", "datetime(6)"]
    assert all(column.is_computed and column.changes_values and column.nullable for column in seen.shown[3:])
    assert seen.columns[4] == Column(
        "domain", 252, 4, charset=255, column_type="longtext", rule=ColumnRule("", expression="LOWER(Email)")
    )
    assert seen.version != TableRule(rename=COMPUTED.rename).view(SHOP).version
    assert TableRule(computed=(("next", "id + 1"),)).view(SHOP).version != SHOP.version


def test_computed_columns_go_over_the_wire() -> None:
    """Rules without them have no word of them."""
    seen = COMPUTED.view(SHOP)
    fields = json.loads(json.dumps(seen.to_dict()))
    assert TableSchema.from_dict({k: v for k, v in fields.items() if k != "version"}) == seen
    assert TableRule.from_dict(json.loads(json.dumps(COMPUTED.to_dict()))) == COMPUTED
    assert "computed" not in TableRule(exclude=("phone",)).to_dict()
    assert "expression" not in ColumnRule("a").to_dict()


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("ssn + 1", None, "'x' is computed from 'ssn', which the table or the lake lacks"),
        ("db_row_hash_1", None, "'db_row_hash_1', which the table or the lake lacks"),
        ("f + 1", Column("f", 5, 8), "'x' is computed from 'f', whose type expressions do not have"),
        ("b = 'x'", Column("b", 252, 2, charset=63), "'b', whose type"),
        ("u", Column("u", 254, 16, charset=63, column_type="uuid"), "'u', whose type"),
        ("d", Column("d", 246, 40 << 8), "'d', whose type"),
        ("DATE(at)", Column("at", 18, 0, as_text=True), "'at', whose type"),
        ("f", Column("f", 1, 0, column_type="tinyint(1)"), "'f', whose type"),
        ("email + 1", None, "'email \\+ 1' cannot be evaluated: string is not a number"),
        ("id * 0.0000000000000001 * 0.0000000000000001", None, "32 digits after the point; the lake has 30"),
        ("id", Column("X", 3, 0), "gives two columns the name 'x'"),
    ],
)
def test_an_expression_that_no_row_can_be_asked_stops_the_table(text: str, column: Column | None, reason: str) -> None:
    """Also where a pattern gave it the rule. No column is shown then."""
    schema = replace(SHOP, columns=(*SHOP.columns, column)) if column else SHOP
    seen = TableRule(casts=(Cast.TINYINT1,), computed=(("x", text),)).view(schema)

    assert seen.defect is not None
    assert re.search(reason, seen.defect.reason)
    assert seen.columns == ()


def test_a_condition_asks_no_computed_column() -> None:
    """It is in names of the source."""
    seen = TableRule(where="next = 1", computed=(("next", "id + 1"),)).view(SHOP)
    assert seen.defect is not None
    assert "names a column that the table does not have, or the lake: 'next'" in seen.defect.reason
