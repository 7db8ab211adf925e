"""Random scripts: the same seed gives the same script, and a script that fails becomes a short one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

from tests.support.ddl_columns import Column
from tests.support.ddl_script import Script, Table
from tests.support.ddl_soak import shrunk
from tests.support.ddl_trial import steps
from tests.support.filter_steps import ALL

_TABLES = [Table(0, "a", (Column("id", "int"), Column("v", "double")), ("id",)), Table(1, "b", (Column("id", "int"),))]


def _script(seed: int) -> list[str]:
    script = Script(Random(seed), ("one", "two"), mariadb=False, cascades=True)
    return [script.statement(_TABLES) for _ in range(300)]


def test_a_seed_makes_a_script() -> None:
    """A seed gives the same statements again, another seed others; every kind of statement comes."""
    assert _script(5) == _script(5) != _script(6)
    verbs = {statement.split()[0] for statement in _script(5)}
    assert verbs >= {"CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "INSERT", "UPDATE", "DELETE"}


def test_renames_come_in_pairs_and_chains_with_rows_after_them() -> None:
    """So that a claim has several of them, and rows of the last name."""
    statements = [statement for seed in range(20) for statement in _script(seed)]
    behind = Counter(
        (first.split()[0], second.split()[0]) for first, second in pairwise(statements) if first.startswith("RENAME")
    )
    assert behind["RENAME", "RENAME"] > 10
    assert behind["RENAME", "INSERT"] + behind["RENAME", "UPDATE"] + behind["RENAME", "DELETE"] > 50
    assert any(one.startswith("RENAME") and one.count(" TO ") == 2 for one in statements)


def test_filters_narrow_widen_and_come_from_the_client() -> None:
    """Between the statements, each kind of them."""
    script = Script(Random(1), ("one", "two"), mariadb=False, cascades=False)
    source = steps(Random(1), script, [*_TABLES], rewinds=True, filters=True)
    found = [step for step, _ in zip(source, range(2000), strict=False) if step.startswith("filter ")]
    kinds = {("override" in one, one.endswith(ALL)) for one in found}
    assert kinds == {(True, True), (True, False), (False, True), (False, False)}
    assert len(found) > 100


def test_a_script_is_made_short() -> None:
    """Only the two steps that make it fail are left, in their order."""
    steps = [f"step {number}" for number in range(40)]
    assert shrunk(steps, lambda part: {"step 7", "step 31"} <= set(part), tries=200) == ["step 7", "step 31"]
