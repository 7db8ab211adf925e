"""spark_jobs.lake.row_rules and own_columns: which columns a table has besides the source's, and which rows live."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import TableStopped
from spark_jobs.lake.own_columns import DELETED, LAST_OP, OWN, POSITION, Own
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules, rules_from, rules_json
from spark_jobs.lake.tables import Lake
from tests.support.judge.compare import compare


def test_the_first_pattern_that_fits_counts() -> None:
    """A table of no pattern has the default; the text form keeps all of it."""
    rules = RowRules(
        Deletes.HARD,
        {"shop.audit_*": Deletes.HARD, "shop.*": Deletes.SOFT},
        (LastChange.OP,),
        {"shop.plain": (), "shop.audit_*": (LastChange.OP, LastChange.POSITION)},
    )
    assert rules.of("shop.orders") == Own(True, (DELETED, LAST_OP))
    assert rules.of("shop.plain") == Own(True, (DELETED,))
    assert rules.of("shop.audit_2025") == Own(False, (POSITION, LAST_OP))
    assert rules.of("other.orders") == Own(False, (LAST_OP,))
    assert rules_from(rules_json(rules)) == rules
    assert rules_from("{}") == RowRules()
    assert not RowRules().of("shop.orders")


def test_a_column_that_a_table_has_stays() -> None:
    """Whatever the rules say now; they alone say whether deletes are soft."""
    had = Own(True, (DELETED, POSITION))
    assert RowRules(columns=(LastChange.OP,)).widened("shop.orders", had) == Own(False, (DELETED, POSITION, LAST_OP))
    assert RowRules(Deletes.SOFT).widened("shop.orders", had) == had


def test_a_table_that_cannot_have_them_stops() -> None:
    """One without a key, and one with a column of such a name in any case. Without such columns nothing is asked."""
    own = Own.made((), soft=True)
    own.check("shop.orders", ("id",), ("id", "v"))
    with pytest.raises(TableStopped, match="need a primary key"):
        own.check("shop.orders", (), ("id", "v"))
    with pytest.raises(TableStopped, match="_SLUICE_Deleted"):
        own.check("shop.orders", ("id",), ("id", "_SLUICE_Deleted"))
    Own().check("shop.orders", (), (DELETED,))


def test_the_state_of_a_table_tells_them_apart(tmp_path: Path) -> None:
    """The source's columns are as ever; of ours those that are there. A table without the property has a column of
    such a name of its own."""
    lake, rows = Lake(tmp_path), pa.table({"id": [1], DELETED: [True], LAST_OP: ["delete"]})
    write_deltalake(lake.path("shop", "own"), rows)
    note = Own(True, (DELETED, POSITION, LAST_OP)).note
    DeltaTable(lake.path("shop", "own")).alter.set_table_properties(note, raise_if_not_exists=False)
    write_deltalake(lake.path("shop", "other"), rows)
    own, other = (lake.state(lake.path("shop", name), "app") for name in ("own", "other"))
    assert own is not None
    assert other is not None
    assert ([column.name for column in own.columns], own.own) == (["id"], Own(True, (DELETED, LAST_OP)))
    assert ([column.name for column in other.columns], other.own) == (["id", DELETED, LAST_OP], Own())
    assert own.own_properties[OWN] == note[OWN]


@pytest.mark.parametrize("key", [("id",), ()])
def test_only_living_rows_are_compared(tmp_path: Path, key: tuple[str, ...]) -> None:
    """A row of before the column lives: it has NULL there."""
    source = {"id": [1, 3], "v": ["a", "c"]}
    write_deltalake(tmp_path / "source", pa.table(source))
    rows = pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"], DELETED: [False, True, None, False]})
    write_deltalake(tmp_path / "lake", rows)
    lake = DeltaTable(tmp_path / "lake")
    lake.alter.set_table_properties(Own.made((), soft=True).note, raise_if_not_exists=False)
    found = compare(DeltaTable(tmp_path / "source"), DeltaTable(tmp_path / "lake"), ["id", "v"], key, "shop.t")
    assert (found.lake_rows, found.missing, found.extra, found.different) == (3, 0, 1, 0)
