"""Claims and DDL statements as a lake with rules sees them."""

from __future__ import annotations

import pytest

from cdc_core.contract.claim import Claim, TableRange
from cdc_core.position import EntryPosition
from cdc_core.rules.claims import HIDING, seen_claim, seen_ddl
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Ddl, Effect, EffectKind
from cdc_core.schema.session_state import SessionState
from cdc_core.schema.table import Column, TableSchema

PLACE = EntryPosition("mysql-bin.000001", 4)
RULE = TableRule(exclude=("password",), rename=(("email", "mail"),), masks=(("phone", Mask(MaskKind.KEEP_LAST, 4)),))
RULES = Rules({"shop.*": RULE})


def table(*columns: str, name: str = "customers") -> TableSchema:
    return TableSchema("shop", name, tuple(Column(one, 15, 80, charset=255) for one in ("id", *columns)), ("id",))


def seen(*changes: ColumnChange, before: TableSchema | None = None, schema: TableSchema | None = None) -> Effect:
    """An ALTER of the table, as the lake sees it."""
    effect = Effect(EffectKind.ALTER, "shop", "customers", None, changes, before, schema)
    return seen_ddl(Ddl(PLACE, "shop", "ALTER ...", (effect,)), RULES).effects[0]


def test_a_claim_has_the_definitions_of_the_lake() -> None:
    """And says by which rules."""
    claim = Claim(
        "shop", 1001, 1, PLACE, PLACE, (TableRange(table("password", "email"), 1, 0, 0),), 1, 1, 1, (), 0, "me", 0.0
    )

    found = seen_claim(claim, RULES)

    assert [column.name for column in found.tables[0].schema.shown] == ["id", "mail"]
    assert found.rules == RULES.fingerprint
    assert Claim.from_dict(found.to_dict()) == found
    assert seen_claim(claim, Rules()) is claim
    assert "rules" not in claim.to_dict()


@pytest.mark.parametrize(
    ("change", "there"),
    [
        (ColumnChange(ChangeKind.ADD_COLUMN, "Password", definition="TEXT"), None),
        (ColumnChange(ChangeKind.DROP_COLUMN, "password"), None),
        (ColumnChange(ChangeKind.MODIFY_COLUMN, "password", definition="TEXT"), None),
        (ColumnChange(ChangeKind.SET_DEFAULT, "password", definition="'x'"), None),
        (ColumnChange(ChangeKind.RENAME_COLUMN, "email", "mail"), None),
        (ColumnChange(ChangeKind.DROP_COLUMN, "email"), ColumnChange(ChangeKind.DROP_COLUMN, "mail")),
        (
            ColumnChange(ChangeKind.ADD_COLUMN, "note", definition="TEXT", after="email"),
            ColumnChange(ChangeKind.ADD_COLUMN, "note", definition="TEXT", after="mail"),
        ),
        (
            ColumnChange(ChangeKind.RENAME_COLUMN, "email", "address"),
            ColumnChange(ChangeKind.RENAME_COLUMN, "mail", "address"),
        ),
        (
            ColumnChange(ChangeKind.MODIFY_COLUMN, "email", "mail", "TEXT"),
            ColumnChange(ChangeKind.MODIFY_COLUMN, "mail", None, "TEXT"),
        ),
        (
            ColumnChange(ChangeKind.KEY, columns=("id", "email")),
            ColumnChange(ChangeKind.KEY, columns=("id", "mail")),
        ),
        (ColumnChange(ChangeKind.COMMENT, definition="x"), ColumnChange(ChangeKind.COMMENT, definition="x")),
    ],
)
def test_clauses_are_in_the_names_of_the_lake(change: ColumnChange, there: ColumnChange | None) -> None:
    """One about a column that the lake does not have is no change."""
    assert seen(change).changes == ((there,) if there else ())


def test_a_statement_has_the_definitions_of_the_lake() -> None:
    """Before it and after it."""
    effect = seen(before=table("password"), schema=table("password", "email"))

    assert effect.before is not None
    assert effect.schema is not None
    assert [column.name for column in effect.before.shown] == ["id"]
    assert [column.name for column in effect.schema.shown] == ["id", "mail"]


def test_a_rule_in_full_may_name_what_the_statement_adds() -> None:
    """Before the statement the column is not missing: it has not come yet."""
    rules = Rules({"shop.customers": TableRule(exclude=("password",))})
    effect = Effect(EffectKind.ALTER, "shop", "customers", None, (), table(), table("password"))

    found = seen_ddl(Ddl(PLACE, "shop", "ALTER ...", (effect,)), rules).effects[0]

    assert found.before is not None
    assert found.schema is not None
    assert found.before.defect is found.schema.defect is None


@pytest.mark.parametrize("column", ["password", "phone"])
@pytest.mark.parametrize("known", [True, False])
def test_a_hidden_column_does_not_escape_by_another_name(column: str, known: bool) -> None:
    """The table stops, because the rule says nothing of the new name."""
    change = ColumnChange(ChangeKind.RENAME_COLUMN, column, "secret")
    effect = seen(change, schema=table("secret") if known else None)

    assert effect.schema is not None
    assert effect.schema.name == "shop.customers"
    assert effect.schema.defect is not None
    assert f"renamed the column '{column}', which a rule hides, to 'secret'" in effect.schema.defect.reason


UNKNOWN = ColumnChange(ChangeKind.UNKNOWN, definition="???")


@pytest.mark.parametrize(
    ("effect", "hidden"),
    [
        (Effect(EffectKind.REWRITE, "shop", "t", None, (), table("password", name="t"), table("a", name="t")), True),
        (Effect(EffectKind.REWRITE, "shop", "t", None, (), table("phone", name="t"), table("tel", name="t")), True),
        (Effect(EffectKind.REWRITE, "shop", "t", None, (), None, table("secret", name="t")), True),
        (Effect(EffectKind.REWRITE, "shop", "t"), True),
        (Effect(EffectKind.ALTER, "shop", "t", None, (UNKNOWN,), table("password", name="t"), None), True),
        (Effect(EffectKind.REWRITE, "shop", "t", None, (), table("password", name="t"), table(name="t")), False),
        (Effect(EffectKind.REWRITE, "shop", "t", None, (), table(name="t"), table("a", name="t")), False),
        (
            Effect(
                EffectKind.REWRITE, "shop", "t", None, (),
                table("phone", name="t"), table("phone", "password", "a", name="t"),
            ),
            False,
        ),
        (Effect(EffectKind.ALTER, "shop", "t", None, (UNKNOWN,)), False),
        (Effect(EffectKind.ALTER, "shop", "t", None, (), table("password", name="t"), table("a", name="t")), False),
        (Effect(EffectKind.TRUNCATE, "shop", "t"), False),
    ],
)  # fmt: skip
def test_hidden_columns_do_not_escape_by_a_table_that_is_swapped_in(effect: Effect, hidden: bool) -> None:
    """A hidden column is gone, and another came: by an online change, or by a clause that nobody understands."""
    found = seen_ddl(Ddl(PLACE, "shop", "...", (effect,)), RULES).effects[0].schema

    assert bool(found and found.defect) == hidden
    if found and found.defect:
        assert found.defect.reason.startswith(f"{HIDING}the source replaced its columns, and a rule hides 'p")


def test_a_rule_in_full_does_not_fit_a_table_that_is_swapped_in() -> None:
    """So it stops by that, and where the column's name stayed it goes on."""
    rules = Rules({"shop.t": TableRule(exclude=("password",))})
    for now, fits in (("secret", False), ("password", True)):
        effect = Effect(EffectKind.REWRITE, "shop", "t", None, (), None, table(now, name="t"))
        schema = seen_ddl(Ddl(PLACE, "shop", "...", (effect,)), rules).effects[0].schema
        assert schema is not None
        assert (schema.defect is None) == fits


def test_a_hidden_column_may_get_another_hidden_name() -> None:
    """Nothing changes in the lake."""
    rules = Rules({"shop.*": TableRule(exclude=("password", "secret"))})
    change = ColumnChange(ChangeKind.RENAME_COLUMN, "password", "secret")
    effect = Effect(EffectKind.ALTER, "shop", "customers", None, (change,), table("password"), table("secret"))

    found = seen_ddl(Ddl(PLACE, "shop", "ALTER ...", (effect,)), rules).effects[0]

    assert found.schema is not None
    assert found.schema.defect is None
    assert found.changes == ()


def test_a_renamed_table_has_the_rules_of_its_new_name() -> None:
    """Those of the old name do not count any more."""
    rules = Rules({"shop.old": TableRule(exclude=("a",)), "shop.new": TableRule(exclude=("b",))})
    effect = Effect(EffectKind.RENAME, "shop", "old", ("shop", "new"), (), None, table("a", "b", name="new"))

    found = seen_ddl(Ddl(PLACE, "shop", "RENAME ...", (effect,)), rules).effects[0]

    assert found.schema is not None
    assert [column.name for column in found.schema.shown] == ["id", "a"]


def renamed(rules: Rules, *pairs: tuple[str, str]) -> list[Effect]:
    """The renames of one statement, as the lake sees them."""
    effects = [
        Effect(EffectKind.RENAME, "shop", old, ("shop", new), (), table("a", name=old), table("a", name=new))
        for old, new in pairs
    ]
    return list(seen_ddl(Ddl(PLACE, "shop", "RENAME ...", tuple(effects)), rules).effects)


@pytest.mark.parametrize("hides", [TableRule(exclude=("A",)), TableRule(masks=(("a", Mask(MaskKind.NULL)),))])
def test_a_table_does_not_escape_its_rule_by_another_name(hides: TableRule) -> None:
    """It stops under the new name, which nobody has a rule for; also one that comes back to it by a third name."""
    rules = Rules({"shop.old": hides})
    (effect,) = renamed(rules, ("old", "new"))

    assert effect.schema is not None
    assert effect.schema.name == "shop.new"
    assert effect.schema.columns == ()
    assert effect.schema.defect is not None
    assert "renamed it from shop.old, where a rule hides its column 'a'" in effect.schema.defect.reason
    first, second = renamed(rules, ("old", "x"), ("x", "new"))
    assert first.schema is not None
    assert second.schema is not None
    assert first.schema.defect is not None
    assert second.schema.defect is not None


def test_a_renamed_table_goes_on_where_its_columns_stay_hidden() -> None:
    """By the same pattern, by another rule, or through a third name in a swap."""
    rules = Rules({"shop.old*": TableRule(exclude=("a",)), "shop.new": TableRule(masks=(("a", Mask(MaskKind.NULL)),))})
    for pairs in ([("old", "new")], [("old", "older")], [("new", "old")]):
        (effect,) = renamed(rules, *pairs)
        assert effect.schema is not None
        assert effect.schema.defect is None
    *_, last = renamed(rules, ("old", "x"), ("new", "old"), ("x", "new"))
    assert last.schema is not None
    assert last.schema.defect is None


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (0, "ALTER TABLE customers ADD note VARCHAR(9) DEFAULT '' COMMENT ''"),
        (None, "ALTER TABLE customers ADD note VARCHAR(9) DEFAULT"),
    ],
)
def test_a_statement_on_a_table_with_hidden_columns_has_no_values(mode: int | None, text: str) -> None:
    """Neither its text nor its clauses do. Without the session nobody knows where a string ends."""
    clause = ColumnChange(ChangeKind.ADD_COLUMN, "note", definition="VARCHAR(9) DEFAULT 'geheim'")
    comment = ColumnChange(ChangeKind.COMMENT, definition="of 'ours'")
    effect = Effect(EffectKind.ALTER, "shop", "customers", None, (clause, comment))
    sql = "ALTER TABLE customers ADD note VARCHAR(9) DEFAULT 'geheim' COMMENT 'it''s'"
    ddl = Ddl(PLACE, "shop", sql, (effect,), session=SessionState(sql_mode=mode))

    found = seen_ddl(ddl, RULES)

    assert found.text == text
    assert "geheim" not in str(found)
    assert found.effects[0].changes[1] == comment
    assert seen_ddl(ddl, Rules({"shop.others": RULE})) == ddl
    assert seen_ddl(ddl, Rules({"shop.*": TableRule(rename=(("email", "mail"),))})).text == sql


def test_a_table_with_a_condition_does_not_escape_by_another_name() -> None:
    """Nor does one whose column gets another name go on: nobody could ask its rows."""
    rules = Rules({"shop.old": TableRule(where="a = 1"), "shop.same": TableRule(where="a = 1")})
    (away,), (same,) = renamed(rules, ("old", "new")), renamed(rules, ("old", "same"))

    assert away.schema is not None
    assert same.schema is not None
    assert away.schema.defect is not None
    assert "where a rule leaves rows out" in away.schema.defect.reason
    assert (same.schema.defect, same.schema.where) == (None, "a = 1")
    change = ColumnChange(ChangeKind.RENAME_COLUMN, "a", "b")
    effect = Effect(EffectKind.ALTER, "shop", "old", None, (change,), table("a", name="old"), table("b", name="old"))
    schema = seen_ddl(Ddl(PLACE, "shop", "ALTER ...", (effect,)), rules).effects[0].schema
    assert schema is not None
    assert schema.defect is not None
