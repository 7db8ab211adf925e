"""spark_jobs.apply.ddl.steps: what a statement does, in which versions."""

from __future__ import annotations

import pytest

from cdc_core.contract.claim import Claim
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import Effect, EffectKind
from spark_jobs.apply.ddl.steps import independent, origins, steps
from tests.support.ddl_claims import effect, statement, with_ddl


def renames(*pairs: str) -> tuple[str, dict[str, str | None]]:
    effects = tuple(effect(EffectKind.RENAME, *pair.split(">")[:1], to=pair.split(">")[1]) for pair in pairs)
    return " ".join(pairs), origins(effects)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["a>b"], {"b": "a", "a": None}),
        (["a>b", "c>d"], {"b": "a", "a": None, "d": "c", "c": None}),
        (["a>x", "b>a", "x>b"], {"a": "b", "b": "a", "x": None}),
        (["a>b", "b>c"], {"b": None, "c": "a", "a": None}),
        (["a>x", "b>a", "c>b", "x>c"], {"a": "b", "b": "c", "c": "a", "x": None}),
        (["a>b", "b>a"], {"b": None}),
    ],
)
def test_renames_come_to_where_rows_end_up(pairs: list[str], expected: dict[str, str | None]) -> None:
    """Several renames of one statement, chains and swaps through a third name."""
    found = renames(*pairs)[1]
    assert found == {f"shop.{k}": None if v is None else f"shop.{v}" for k, v in expected.items()}


def test_a_rename_into_another_database() -> None:
    """The names have their databases."""
    assert renames("a>other.a")[1] == {"other.a": "shop.a", "shop.a": None}


def test_a_database_whose_name_has_a_dot() -> None:
    """It is quoted as in every full name, also in a claim's list of tables."""
    (step,) = steps(statement(9, Effect(EffectKind.RENAME, "shop", "a", to=("my.shop", "b"))))
    assert step.tables == ("shop.a", "`my.shop`.b")
    assert origins(step.effects) == {"`my.shop`.b": "shop.a", "shop.a": None}
    claim = Claim("d", 1, 1, EntryPosition("m.1", 4), EntryPosition("m.1", 9), (), 1, 1, 1, (), 0, "run", 0.0)
    assert with_ddl(claim, step.ddl).table_names == ("`my.shop`.b", "shop.a")


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("", ""),
        ("a b c", "0 1 2"),
        ("a b a", "02 1"),
        ("a b A", "02 1"),
        ("a>b c b", "02 1"),
        ("a b c a>b c", "013 24"),
        ("a b>c d b>d e a>c", "01235 4"),
        ("a,b c b,d d", "023 1"),
        ("a DATABASE b", "012"),
    ],
)
def test_statements_on_the_same_tables_stay_together(statements: str, expected: str) -> None:
    """In order, through others as well, in any case of letters. A dropped database may have any table."""
    made = []
    for number, words in enumerate(statements.split()):
        effects = []
        for word in words.split(","):
            name, _, to = word.partition(">")
            kind = EffectKind.RENAME if to else EffectKind.TRUNCATE
            effects.append(effect(EffectKind.DROP_DATABASE if word == "DATABASE" else kind, name, to=to or None))
        made.append(statement(number, *effects))
    found = [[ddl.position.position for ddl in group] for group in independent(made)]
    assert " ".join("".join(map(str, group)) for group in found) == expected


def test_each_step_of_one_table_has_its_own_version() -> None:
    """Versions rise to the statement's own; tables that a statement touches once all have that."""
    ddl = statement(
        100, effect(EffectKind.ALTER, "a"), effect(EffectKind.RENAME, "a", to="b"), effect(EffectKind.DROP, "c")
    )
    last = ddl.position.version()
    assert [(step.kind, last - step.version) for step in steps(ddl)] == [
        (EffectKind.ALTER, 1),
        (EffectKind.RENAME, 0),
        (EffectKind.DROP, 0),
    ]


def test_renames_that_follow_each_other_are_one_step() -> None:
    """So that a swap is one."""
    ddl = statement(9, effect(EffectKind.RENAME, "a", to="x"), effect(EffectKind.RENAME, "b", to="a"))
    (step,) = steps(ddl)
    assert step.tables == ("shop.a", "shop.x", "shop.b")
