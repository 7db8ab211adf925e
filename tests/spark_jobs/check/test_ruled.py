"""What `sluice check` finds of tables whose rules changed, or do not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from cdc_core.errors import LakeError
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.table import Defect, TableSchema
from spark_jobs.check.ruled import ruled
from spark_jobs.lake.seen_columns import definition_properties
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from tests.support.ddl_text import created, lake_of

TABLE = created("CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(80), day DATE)")
PATH = f"{TABLE.database}/{TABLE.table}"
FEWER = TableRule(exclude=("email",))


class _Lake:
    """A lake with one table, or one that cannot be read."""

    def __init__(self, schema: TableSchema | None) -> None:
        self._schema = schema

    def path(self, database: str, table: str) -> str:
        return f"{database}/{table}"

    def state(self, path: str, _app: str) -> TableState | None:
        if self._schema is None:
            raise LakeError("it cannot be read", place=path, hint="")
        if path != PATH:
            return None
        return TableState(1, None, lake_of(self._schema), definition_properties(self._schema))


def found(made: TableSchema | None, rules: Rules, *tables: TableSchema) -> list[tuple[tuple[str, ...], str, str]]:
    lake = cast("Lake", cast("Any", _Lake(made)))
    return [(one.where, one.found, one.remedy) for one in ruled(lake, "shop", rules, tables or (TABLE,))]


def test_a_table_whose_rules_changed_is_named_with_the_job_that_copies_it() -> None:
    """Whether rules came or went."""
    for made, rules in ((TABLE, Rules({"*": FEWER})), (FEWER.view(TABLE), NO_RULES)):
        ((where, why, remedy),) = found(made, rules)
        assert where == (TABLE.name,)
        assert why.startswith("its next rows need a copy: its rules changed: the source's column 'email' was")
        assert f"sluice copy shop {TABLE.name}" in remedy
        assert "the job snapshot_shop" in remedy


def test_rules_that_made_the_table_need_nothing() -> None:
    """Nor do those that count from the next rows on, nor those of a table that the lake does not have."""
    assert found(FEWER.view(TABLE), Rules({"*": FEWER})) == []
    assert found(TABLE, NO_RULES) == []
    assert found(TABLE, Rules({"*": TableRule(zero_dates="null")})) == []
    assert found(TABLE, Rules({"*": FEWER}), replace(TABLE, table="other")) == []
    assert found(None, Rules({"*": FEWER})) == []


def test_rules_that_do_not_fit_are_named() -> None:
    """Before a row stops the table. A table that cannot be read anyway has other trouble."""
    rules = Rules({"*": TableRule(exclude=("id",))})
    ((where, why, remedy),) = found(TABLE, rules)
    assert where == (TABLE.name,)
    assert why == "its next rows stop it: its rule leaves out 'id', a column of the key"
    assert "defs.yaml" in remedy
    assert found(TABLE, rules, replace(TABLE, defect=Defect("a reason", "a hint"))) == []
