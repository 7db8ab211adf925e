"""Tables whose rows were made by rules: when they go on with others, and what ALTER means for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from cdc_core.rules.claims import HIDING, seen_ddl
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.alteration import Alteration, alteration
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.defaults import insert_defaults, old_row_values
from spark_jobs.lake.seen_columns import check_added, check_rules, definition_properties, made_otherwise, noted_rules
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn
from tests.support.ddl_text import altered, created, lake_of

PLACE = EntryPosition("mysql-bin.000001", 4)
TABLE = created("CREATE TABLE t (id INT PRIMARY KEY, password VARCHAR(20), email VARCHAR(80), note VARCHAR(80), n INT)")


def hashed(salt: bytes) -> Mask:
    return Mask(MaskKind.SHA256, salt=Salt("SALT").filled(salt))


HASH = hashed(b"pepper")
RULE = TableRule(exclude=("password",), rename=(("email", "mail"),), masks=(("email", HASH),))


def made_by(rule: TableRule | None, schema: TableSchema = TABLE) -> TableState:
    """A table of the lake that the rule made."""
    seen = rule.view(schema) if rule else schema
    return TableState(1, None, lake_of(seen), definition_properties(seen))


@pytest.mark.parametrize("rule", [None, RULE])
def test_the_same_rules_go_on(rule: TableRule | None) -> None:
    """A table without rules has no word of them."""
    state = made_by(rule)
    check_rules(rule.view(TABLE) if rule else TABLE, state)
    assert ("sluice.rules" in state.properties) == (rule is not None)
    assert "pepper" not in str(state.properties)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, TableRule(exclude=("password",)), "'password' was shown as it is and is left out now"),
        (TableRule(exclude=("password",)), None, "'password' was left out and is shown as it is now"),
        (
            None,
            TableRule(masks=(("email", HASH),)),
            "'email' was shown as it is and is .* masked by sha",
        ),
        (
            TableRule(masks=(("email", Mask(MaskKind.TRUNCATE, 3)),)),
            TableRule(masks=(("email", Mask(MaskKind.TRUNCATE, 4)),)),
            "'email' was shown as 'email', masked by truncate 3 and is .* truncate 4 now",
        ),
        (
            TableRule(masks=(("email", HASH),)),
            TableRule(masks=(("email", hashed(b"paprika")),)),
            "masked by sha256 now, with another salt",
        ),
        (TableRule(rename=(("email", "mail"),)), None, "'email' was shown as 'mail' and is shown as it is now"),
        (TableRule(include=("id", "n")), TableRule(include=("id", "n", "note")), "'note' was left out"),
    ],
)
def test_other_rules_need_a_copy(before: TableRule | None, after: TableRule | None, reason: str) -> None:
    """The lake does not have the values that they show, or has values that they hide."""
    with pytest.raises(CopyNeeded, match=reason):
        check_rules(after.view(TABLE) if after else TABLE, made_by(before))


def test_rules_without_effect_need_nothing() -> None:
    """Such as a pattern's, about columns that this table does not have."""
    check_rules(TableRule(exclude=("ssn",)).view(TABLE), made_by(None))


def test_a_column_may_come_with_its_rules() -> None:
    """The table had none of its values yet."""
    older = TableSchema(TABLE.database, TABLE.table, TABLE.columns[:1] + TABLE.columns[3:], TABLE.primary_key)
    check_rules(RULE.view(TABLE), made_by(RULE, older))


def test_earlier_rows_of_other_rules() -> None:
    """They were made otherwise, and may show what rules hide now. A column that came since may have any rule."""
    older = TableSchema(TABLE.database, TABLE.table, TABLE.columns[:1] + TABLE.columns[3:], TABLE.primary_key)
    some = TableRule(where="n > 1")
    for then, now in ((None, RULE), (RULE, None), (None, some), (RULE, replace(RULE, masks=()))):
        assert made_otherwise(made_by(then), made_by(now))
    assert not made_otherwise(made_by(RULE), made_by(RULE))
    assert not made_otherwise(made_by(RULE, older), made_by(RULE))


@pytest.mark.parametrize("gone", ["password", "email"])
def test_columns_that_came_without_a_statement_may_be_hidden_ones(gone: str) -> None:
    """One that a rule hid is gone. Not if it is there still, if the new one is hidden too, or if nothing came."""
    made = replace(RULE, where="n > 0", computed=(("twice", "n * 2"),))
    noted, rule = noted_rules(made_by(made)), replace(made, exclude=("password", "ssn"))
    without = tuple(column for column in TABLE.columns if column.name != gone)

    def came(name: str, columns: tuple[Column, ...], *added: str) -> None:
        check_added(noted, added, rule.view(replace(TABLE, columns=(*columns, Column(name, 15, 80, charset=255)))))

    with pytest.raises(TableStopped, match=f"{HIDING}the source's column '{gone}' is gone, and 'secret' came"):
        came("secret", without, "secret")
    came("secret", TABLE.columns, "secret")
    came("ssn", without, "ssn")
    came("n2", without)


def seen(text: str, rule: TableRule = RULE) -> Alteration | None:
    """What an ALTER means for the table that the rule made."""
    (effect,) = altered(TABLE, f"ALTER TABLE t {text}")
    (effect,) = seen_ddl(Ddl(PLACE, "shop", text, (effect,)), Rules({"*": rule})).effects
    return alteration(effect, lake_of(rule.view(TABLE)))


@pytest.mark.parametrize(
    "text", ["MODIFY password TEXT", "DROP COLUMN password", "ALTER password SET DEFAULT 'x'", "MODIFY password INT"]
)
def test_a_change_of_a_column_that_is_left_out_is_none(text: str) -> None:
    """Whatever it becomes."""
    assert seen(text) is None


PAID = created(
    "CREATE TABLE t (id INT PRIMARY KEY, pay DECIMAL(9,2), tier INT AS (IF(pay > 100, 1, 2)), note VARCHAR(80))"
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("MODIFY pay INT", "the server computes the values of column 'level'"),
        ("CHANGE pay pay INT", "the server computes the values of column 'level'"),
        ("MODIFY pay DECIMAL(9,2) NOT NULL", "the server computes the values of column 'level'"),
        ("MODIFY pay DECIMAL(9,2) COMMENT 'x' FIRST", ""),
    ],
)
def test_a_type_that_is_left_out_may_change_a_generated_column(text: str, why: str) -> None:
    """The server computes its values anew, and no row of it is in the binlog."""
    rule = TableRule(exclude=("pay",), rename=(("tier", "level"),))
    (effect,) = altered(PAID, f"ALTER TABLE t {text}")
    (effect,) = seen_ddl(Ddl(PLACE, "shop", text, (effect,)), Rules({"*": rule})).effects
    there = lake_of(rule.view(PAID))

    if not why:
        assert effect.changes == ()
        return
    with pytest.raises(CopyNeeded, match=why):
        alteration(effect, there)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("DROP COLUMN email", ["id", "note", "n"]),
        ("ADD a INT AFTER email", ["id", "mail", "a", "note", "n"]),
        ("CHANGE email email VARCHAR(80) COMMENT 'x'", ["id", "mail", "note", "n"]),
        ("RENAME COLUMN note TO remark", ["id", "mail", "remark", "n"]),
        ("MODIFY n INT FIRST, MODIFY password TEXT", ["n", "id", "mail", "note"]),
    ],
)
def test_other_changes_are_followed_in_the_names_of_the_lake(text: str, columns: list[str]) -> None:
    """In place, in the source's order."""
    plan = seen(text)
    assert plan is not None
    assert [one.column.name for one in plan.columns] == columns
    assert plan.by_name


@pytest.mark.parametrize("text", ["MODIFY email VARCHAR(10)", "MODIFY email TEXT"])
def test_a_masked_column_of_another_type_needs_a_copy(text: str) -> None:
    """The lake cannot say whether a value changed."""
    with pytest.raises(CopyNeeded, match="values of column 'mail' may have changed"):
        seen(text)


def test_the_default_of_a_masked_column_is_not_known() -> None:
    """NULL is NULL behind each mask."""
    numbers = [Column(name, 3, 0, column_type="int") for name in ("id", "a", "b")]
    columns = (numbers[0], replace(numbers[1], nullable=False), numbers[2])
    schema = TableRule(masks=(("a", HASH), ("b", HASH))).view(TableSchema("shop", "t", columns))
    lake = (LakeColumn("id", "int"), LakeColumn("a", "string"), LakeColumn("b", "string"))

    assert old_row_values(schema, lake[2:]) == {}
    found = insert_defaults(schema, lake)
    assert "raise_error" in found["a"]
    assert found["b"] == "CAST(NULL AS string)"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("", "n = 1", "it had all rows, and has the rows where n = 1 now"),
        ("n = 1", "n = 2", "it had the rows where n = 1, and has the rows where n = 2 now"),
        ("n = 1", "", "and has all rows now"),
    ],
)
def test_another_condition_needs_a_copy(before: str, after: str, reason: str) -> None:
    """The same one goes on."""
    state = made_by(TableRule(where=before))
    check_rules(TableRule(where=before).view(TABLE), state)

    with pytest.raises(CopyNeeded, match=reason):
        check_rules(TableRule(where=after).view(TABLE), state)


ASKING = TableRule(rename=(("note", "remark"),), where="note = 'x' OR n = 1")


@pytest.mark.parametrize(
    "text", ["MODIFY n INT NOT NULL", "MODIFY note TEXT", "DROP COLUMN n, ADD COLUMN n INT DEFAULT 1"]
)
def test_a_statement_on_a_column_that_a_condition_asks_needs_a_copy(text: str) -> None:
    """Rows that the lake does not have may meet it then: NULL becomes 0, and old rows get a default."""
    with pytest.raises(CopyNeeded, match="which the condition of its rows asks"):
        seen(text, ASKING)


@pytest.mark.parametrize("text", ["ADD a INT", "MODIFY email VARCHAR(90)", "ALTER n SET DEFAULT 5, ADD a INT"])
def test_statements_on_other_columns_go_on(text: str) -> None:
    """They change no row's truth, nor does a default for later rows."""
    assert seen(text, ASKING) is not None


COMPUTED = TableRule(rename=(("note", "remark"),), computed=(("twice", "n * 2"), ("short", "LEFT(note, 3)")))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, COMPUTED, "the column 'twice' was not computed and is computed as n .* 2 .bigint. now"),
        (COMPUTED, TableRule(rename=COMPUTED.rename), "the column 'twice' was computed as n .* 2 .bigint. and is not"),
        (COMPUTED, replace(COMPUTED, computed=COMPUTED.computed[:1]), "'short' was computed as LEFT.* and is not"),
        (
            COMPUTED,
            replace(COMPUTED, computed=(("twice", "n + n"), COMPUTED.computed[1])),
            "was computed as n .* 2 .bigint. and is computed as n . n .bigint. now",
        ),
    ],
)
def test_another_expression_needs_a_copy(before: TableRule | None, after: TableRule, reason: str) -> None:
    """The lake does not know what it would say of old rows. The same one goes on."""
    check_rules(after.view(TABLE), made_by(after))

    with pytest.raises(CopyNeeded, match=reason):
        check_rules(after.view(TABLE), made_by(before))


def test_the_type_of_an_expression_follows_that_of_its_columns() -> None:
    """A definition that came without its statement."""
    rule = TableRule(computed=(("twice", "n * 2"),))
    columns = (replace(one, type_code=246, meta=9 << 8 | 2) if one.name == "n" else one for one in TABLE.columns)

    with pytest.raises(CopyNeeded, match=r"as n \* 2 .bigint. and is computed as n \* 2 .decimal.30,2.. now"):
        check_rules(rule.view(replace(TABLE, columns=tuple(columns))), made_by(rule))


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("MODIFY n BIGINT", "'n', which the computed column 'twice' asks"),
        ("MODIFY note TEXT", "'remark', which the computed column 'short' asks"),
        ("DROP COLUMN n, ADD COLUMN n INT DEFAULT 1", "'n', which the computed column 'twice' asks"),
    ],
)
def test_a_statement_on_a_column_that_an_expression_asks_needs_a_copy(text: str, use: str) -> None:
    """Other values, or another type, may follow."""
    with pytest.raises(CopyNeeded, match=use):
        seen(text, COMPUTED)


def test_statements_on_other_columns_leave_computed_ones_at_the_end() -> None:
    """With their values."""
    plan = seen("ADD a INT FIRST, DROP COLUMN email, ALTER n SET DEFAULT 5", COMPUTED)

    assert plan is not None
    assert [one.column.name for one in plan.columns] == ["a", "id", "password", "remark", "n", "twice", "short"]
    assert [one.value for one in plan.columns[-2:]] == ["`twice`", "`short`"]
    assert plan.unless == ()


@pytest.mark.parametrize("text", ["DROP COLUMN n", "RENAME COLUMN n TO m", "ADD COLUMN twice INT"])
def test_a_statement_after_which_the_rule_does_not_fit_stops_the_table(text: str) -> None:
    """Until the rule is corrected."""
    (effect,) = altered(TABLE, f"ALTER TABLE t {text}")
    (effect,) = seen_ddl(Ddl(PLACE, "shop", text, (effect,)), Rules({"*": COMPUTED})).effects

    assert effect.schema is not None
    assert effect.schema.defect is not None


def test_what_zero_dates_do_counts_for_the_rows_to_come() -> None:
    """Nothing is copied, and a table of such a rule alone has no word of it."""
    dated = created("CREATE TABLE t (id INT PRIMARY KEY, day DATE, email VARCHAR(80))")
    before, after = (TableRule(zero_dates=one, masks=(("day", HASH),)) for one in ("fail", "null"))

    check_rules(after.view(dated), made_by(before, dated))
    check_rules(TableRule(zero_dates="null").view(dated), made_by(None, dated))
    assert "sluice.rules" not in made_by(TableRule(zero_dates="null"), dated).properties
