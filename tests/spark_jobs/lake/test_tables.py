"""spark_jobs.lake.tables: paths and states, without Spark."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import full_name
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake


def test_a_damaged_log_is_its_tables_own_trouble(tmp_path: Path) -> None:
    """The table stops; other tables and the run go on."""
    lake = Lake(tmp_path)
    path = lake.path("shop", "t")
    write_deltalake(path, pa.table({"id": [1]}))
    (Path(path) / "_delta_log" / f"{0:020}.json").write_text("no JSON")
    with pytest.raises(TableStopped, match="the Delta table is damaged"):
        lake.state(path, "app")


def test_names_stay_below_the_root() -> None:
    """A plain name is its folder; slashes and dots cannot leave the root."""
    lake = Lake("/lake/")
    assert lake.path("shop", "order lines") == "/lake/shop/order lines"
    assert lake.path("..", "a/b") == "/lake/@002e./a@002fb"
    assert lake.path("_sluice", "batches") == "/lake/@005fsluice/batches"
    with pytest.raises(TableStopped, match="too long"):
        lake.path("shop", "😀" * 64)


def test_the_applied_version_is_read_back(tmp_path: Path) -> None:
    """By app id. A missing table and a missing version differ."""
    lake, app = Lake(tmp_path), app_id("d", 1, "s.t", 0)
    path = lake.path("s", "t")
    assert lake.state(path, app) is None
    commit = CommitProperties(app_transactions=[Transaction(app, 77)])
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int16())}), commit_properties=commit)
    state = lake.state(path, app)
    assert state is not None
    assert (state.applied, [(c.name, c.type) for c in state.columns]) == (77, [("id", "smallint")])
    other = lake.state(path, app_id("d", 1, "s.t", 1))
    assert other is not None
    assert other.applied is None


@pytest.mark.parametrize("before", [1, 3, 20, 30])
def test_commits_keep_their_versions_while_others_commit(
    tmp_path: Path, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One comes between the opening and the reading, another one before that is read again."""
    numbers, late = itertools.count(), iter(range(2))

    def commit() -> None:
        noted = CommitProperties(custom_metadata={"userMetadata": str(next(numbers))})
        write_deltalake(tmp_path, pa.table({"id": [1]}), mode="append", commit_properties=noted)

    def history(table: DeltaTable, limit: int | None = None) -> list[dict[str, Any]]:
        if next(late, None) is not None:
            commit()
        return real(table, limit)

    real = DeltaTable.history
    for _ in range(before):
        commit()
    monkeypatch.setattr(DeltaTable, "history", history)
    found = [(one.version, one.user_metadata) for one in Lake(tmp_path).commits(str(tmp_path))]
    assert found == [(number, str(number)) for number in reversed(range(before + 2))]


def test_a_foreign_table_is_named(tmp_path: Path) -> None:
    """One without our properties, and one of another destination."""
    lake, schema = Lake(tmp_path), TableSchema("s", "t", ())
    path = lake.path("s", "t")
    write_deltalake(path, pa.table({"id": [1]}))
    state = lake.state(path, "x")
    assert state is not None
    with pytest.raises(TableStopped, match="was not made by Sluice"):
        state.check_owner("d", schema.name, path)


def test_a_damaged_log_is_a_lake_error(tmp_path: Path) -> None:
    """Its place is the table."""
    lake = Lake(tmp_path)
    path = lake.path("s", "t")
    write_deltalake(path, pa.table({"id": [1]}))
    next((Path(path) / "_delta_log").glob("*.json")).write_text("{broken")
    with pytest.raises(LakeError) as caught:
        lake.state(path, "x")
    assert caught.value.place == path


def test_a_table_whose_name_differs_in_case_finds_the_first_ones_folder(tmp_path: Path) -> None:
    """On a store that ignores case. It is refused with the name of the other one."""
    lake, schema = Lake(tmp_path), TableSchema("s", "Orders", ())
    path = lake.path("s", "orders")  # what such a store opens for `Orders` too
    owner = {"sluice.destination": "d", "sluice.table": "s.orders"}
    write_deltalake(path, pa.table({"id": [1]}))
    lake.open(path).alter.set_table_properties(owner, raise_if_not_exists=False)
    state = lake.state(path, "x")
    assert state is not None
    with pytest.raises(TableStopped, match=r"belongs to destination 'd', table 's.orders'"):
        state.check_owner("d", schema, path)


def test_a_database_has_its_damaged_tables_too(tmp_path: Path) -> None:
    """So a DROP DATABASE meets each: one whose log is damaged holds up no other. A missing folder has none."""
    lake = Lake(tmp_path)
    for name in ("good", "dam/aged"):
        write_deltalake(lake.path("shop", name), pa.table({"id": [1]}))
        owner = {"sluice.destination": "d", "sluice.table": f"shop.{name}"}
        lake.open(lake.path("shop", name)).alter.set_table_properties(owner, raise_if_not_exists=False)
    (Path(lake.path("shop", "dam/aged")) / "_delta_log" / f"{0:020}.json").write_text("no JSON")
    assert sorted(lake.tables("shop", "d")) == ["shop.dam/aged", "shop.good"]
    assert lake.tables("other", "d") == []


def test_the_lake_lists_its_tables(tmp_path: Path) -> None:
    """Of all databases; not those that the source has dropped, nor another destination's."""
    lake = Lake(tmp_path)
    assert lake.live_tables("d") == []
    for database, name, destination in (("my.shop", "a", "d"), ("s", "b", "d"), ("s", "gone", "d"), ("s", "c", "e")):
        write_deltalake(lake.path(database, name), pa.table({"id": [1]}))
        owner = {"sluice.destination": destination, "sluice.table": full_name(database, name)}
        owner |= {"sluice.dropped": "m.1:4"} if name == "gone" else {}
        lake.open(lake.path(database, name)).alter.set_table_properties(owner, raise_if_not_exists=False)
    write_deltalake(lake.ledger_path("d", 1), pa.table({"id": [1]}))
    assert sorted(lake.live_tables("d")) == ["`my.shop`.a", "s.b"]


def test_a_lake_says_whether_its_store_ignores_case(tmp_path: Path) -> None:
    """The nearest folder that is there is asked; object stores tell names apart."""
    (tmp_path / "a").touch()
    here = (tmp_path / "A").exists()
    assert Lake(tmp_path / "not" / "yet").ignores_case() is here
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    assert not Lake("s3://bucket/lake").ignores_case()
