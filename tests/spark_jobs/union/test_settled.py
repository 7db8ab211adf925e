"""spark_jobs.union.settled: what a run does about unions before its first batch."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import LakeError
from cdc_core.schema.names import split_name
from spark_jobs.check.findings import Finding
from spark_jobs.check.united import united
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import NO_UNIONS, Union, Unions
from spark_jobs.union.settled import needed_by_union, noted_unions, settle

ORDERS = Union("shop.orders", r"shop_(\d+)\.orders", ("shop",))
UNIONS = Unions("eu", (ORDERS,))


def made(lake: Lake, name: str) -> str:
    path, rows = lake.path(*split_name(name)), pa.table({"id": [1]})
    noted = {DESTINATION: lake.unions.destination or "eu", TABLE: name}
    DeltaTable.create(path, rows.schema, configuration=noted, raise_if_key_not_exists=False)
    write_deltalake(path, rows, mode="append")
    return path


def test_unions_are_noted_and_published(tmp_path: Path) -> None:
    """So that a command finds their shards, and a run that died is made up for."""
    lake = Lake(tmp_path, unions=UNIONS)
    assert noted_unions(Lake(tmp_path), "eu") == NO_UNIONS
    made(lake, "shop_1.orders")
    for _ in range(2):
        settle(lake, "eu")
        assert noted_unions(Lake(tmp_path), "eu") == UNIONS
        assert noted_unions(Lake(tmp_path), "us") == NO_UNIONS
        assert lake.open(lake.path("shop", "orders")).to_pyarrow_table().to_pylist() == [{"id": 1, "shop": "1"}]


def test_a_union_needs_no_old_file_of_its_shards(tmp_path: Path) -> None:
    """It is published first. Of a shard that cannot be in it any more, it may have old ones: they stay."""
    lake = Lake(tmp_path, unions=UNIONS)
    path = made(lake, "shop_1.orders")
    settle(lake, "eu")
    write_deltalake(path, pa.table({"id": [2]}), mode="overwrite")
    assert needed_by_union(lake, "shop_1.orders") == ""
    union = lake.path("shop", "orders")
    assert lake.open(union).to_pyarrow_table().to_pylist() == [{"id": 2, "shop": "1"}]
    write_deltalake(path, pa.table({"id": ["three"]}), mode="overwrite", schema_mode="overwrite")
    assert "shop.orders may need them: it cannot be in shop.orders" in needed_by_union(lake, "shop_1.orders")
    assert lake.open(union).to_pyarrow_table().num_rows == 1
    made(lake, "shop.users")
    assert needed_by_union(lake, "shop.users") == ""


def test_a_lake_without_unions_is_left_alone(tmp_path: Path) -> None:
    """No note is made of them."""
    lake = Lake(tmp_path)
    made(lake, "shop_1.orders")
    settle(lake, "eu")
    assert not Path(lake.unions_path("eu")).exists()


def test_a_table_that_becomes_a_shard_is_moved_by_hand(tmp_path: Path) -> None:
    """Or back, when `into` no longer names it. Its log is its own, whatever its folder."""
    plain, whole = Lake(tmp_path), Lake(tmp_path, unions=UNIONS)
    old = made(plain, "shop_1.orders")
    made(plain, "shop.users")
    settle(plain, "eu")
    with pytest.raises(LakeError, match=r"gives the table shop_1\.orders another folder") as error:
        settle(whole, "eu")
    new = whole.path("shop_1", "orders")
    assert f"Move {old} to {new}" in error.value.hint
    assert noted_unions(plain, "eu") == NO_UNIONS
    shutil.move(old, new)
    settle(whole, "eu")
    assert whole.open(whole.path("shop", "orders")).to_pyarrow_table().num_rows == 1
    with pytest.raises(LakeError, match="another folder"):
        settle(plain, "eu")
    shutil.move(new, old)
    assert "readers" in settle(plain, "eu").ended[0].lower()
    assert noted_unions(plain, "eu") == NO_UNIONS


def test_a_union_that_into_no_longer_names_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of its shards, as a store makes it, leaves their files: no reader finds old rows, or a table without any.
    Killed before it is noted, it is done again; named again, the union is made again."""
    whole, plain = Lake(tmp_path, unions=UNIONS), Lake(tmp_path)
    new = made(whole, "shop_1.orders")
    assert settle(whole, "eu").ended == ()
    path, old = whole.path("shop", "orders"), plain.path("shop_1", "orders")
    shutil.copytree(new, old)
    shutil.rmtree(Path(new) / "_delta_log")
    assert whole.open(path).to_pyarrow_table().num_rows == 1
    assert [one.where for one in check(plain)] == [("shop.orders",)]

    def dies(*_: object) -> None:
        raise LakeError("killed", place="", hint="")

    with monkeypatch.context() as patched:
        patched.setattr(Noted, "write", dies)
        with pytest.raises(LakeError, match="killed"):
            settle(plain, "eu")
    assert not DeltaTable.is_deltatable(path)
    assert settle(plain, "eu").ended == ()
    assert settle(plain, "eu").ended == ()
    assert check(plain) == []
    shutil.move(Path(old) / "_delta_log", Path(new) / "_delta_log")
    settle(whole, "eu")
    assert whole.open(path).to_pyarrow_table().to_pylist() == [{"id": 1, "shop": "1"}]


@pytest.mark.parametrize("columns", [(), ("store",)])
def test_a_union_that_never_was_does_not_hold_up_another(tmp_path: Path, columns: tuple[str, ...]) -> None:
    """Its name is a table of its own, or its columns are others than those that it was begun with: the run says so, and
    another name, as it says, is enough."""
    taken = Lake(tmp_path, unions=Unions("eu", (replace(ORDERS, columns=columns or ORDERS.columns),)))
    if columns:
        before = Lake(tmp_path, unions=UNIONS)
        made(before, "shop_1.orders")
        settle(before, "eu")
        shutil.move(before.path("shop_1", "orders"), taken.path("shop_1", "orders"))
    else:
        made(Lake(tmp_path), "shop.orders")
    made(taken, "shop_2.orders")
    with pytest.raises(LakeError, match="begun with other columns" if columns else "a table of its own"):
        settle(taken, "eu")
    other = Lake(tmp_path, unions=Unions("eu", (replace(ORDERS, table="all.orders"),)))
    for name in ("shop_1", "shop_2"):
        if taken.has(name, "orders"):
            shutil.move(taken.path(name, "orders"), other.path(name, "orders"))
    settle(other, "eu")
    assert other.has("shop", "orders") == (not columns)
    assert other.open(other.path("all", "orders")).to_pyarrow_table().num_rows == 1 + len(columns)


def test_a_union_of_others_goes_on_without_one_that_leaves(tmp_path: Path) -> None:
    """It has the rows of the other destinations; what somebody wrote into it meanwhile goes too."""
    both = Union("shop.orders", r"shop_(\d+)\.orders", ("shop",), "region")
    eu, us = (Lake(tmp_path, unions=Unions(name, (both,))) for name in ("eu", "us"))
    plain = Lake(tmp_path)
    for lake in (eu, us):
        made(lake, "shop_1.orders")
        settle(lake, lake.unions.destination)
    path = eu.path("shop", "orders")
    shutil.move(eu.path("shop_1", "orders"), plain.path("shop_1", "orders"))
    eu.open(path).optimize.compact()
    (said,) = settle(plain, "eu").ended
    assert said.endswith("1 files of eu are not in it any more. Other destinations go into it.")
    assert us.open(path).to_pyarrow_table().to_pylist() == [{"id": 1, "region": "us", "shop": "1"}]
    assert check(plain) == check(us, "us") == []


def test_a_shard_that_does_not_fit_is_told_from_the_first_run_on(tmp_path: Path) -> None:
    """No batch has its rows."""
    lake = Lake(tmp_path, unions=UNIONS)
    for name in ("shop_1.orders", "shop_2.orders"):
        made(lake, name)
    settle(lake, "eu")
    write_deltalake(lake.path("shop_2", "orders"), pa.table({"id": ["x"]}), mode="overwrite", schema_mode="overwrite")
    assert list(settle(lake, "eu").refused) == ["shop_2.orders"]
    (found,) = check(lake)
    assert found.where == ("shop_2.orders",)
    assert "sluice copy eu shop_2.orders" in found.remedy


def check(lake: Lake, destination: str = "eu") -> list[Finding]:
    return list(united(lake, destination))
