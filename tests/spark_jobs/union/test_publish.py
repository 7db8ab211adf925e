"""spark_jobs.union.publish: a union has the rows of its shards, however they came there. delta-rs writes all tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake

from cdc_core.errors import LakeError
from cdc_core.schema.names import split_name
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.features import MAPPING
from spark_jobs.lake.record import DROPPED
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.union import publish as publishing
from spark_jobs.union.publish import publish

ORDERS = Union("shop.orders", r"shop_(.+)\.orders", ("shop",))
BOTH = Union("shop.orders", r"shop_(.+)\.orders", ("shop",), "region")


def lake_of(root: Path, destination: str = "eu", union: Union = ORDERS) -> Lake:
    return Lake(root, unions=Unions(destination, (union,)))


def write(lake: Lake, table: str, rows: dict[str, Any], mode: Literal["append", "overwrite"] = "overwrite") -> None:
    path, found = lake.path(*split_name(table)), pa.table(rows)
    if not DeltaTable.is_deltatable(path):
        noted = {DESTINATION: lake.unions.destination, TABLE: table}
        DeltaTable.create(path, found.schema, configuration=noted, raise_if_key_not_exists=False)
    write_deltalake(path, found, mode=mode, schema_mode="overwrite" if mode == "overwrite" else None)


def rows(lake: Lake) -> list[dict[str, Any]]:
    found = lake.open(lake.path("shop", "orders")).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: sorted((key, str(value)) for key, value in row.items()))


def test_a_union_has_the_rows_of_its_shards(tmp_path: Path) -> None:
    """In one commit, with whose they are; and the same again changes nothing."""
    lake = lake_of(tmp_path)
    assert publish(lake, ORDERS).version is None
    write(lake, "shop_1.orders", {"id": [1, 2]})
    write(lake, "shop_2.orders", {"id": [1]})
    done = publish(lake, ORDERS)
    assert (done.version, done.added, done.removed) == (1, 2, 0)
    assert rows(lake) == [{"id": 1, "shop": "1"}, {"id": 1, "shop": "2"}, {"id": 2, "shop": "1"}]
    again = publish(lake, ORDERS)
    assert (again.version, again.added, again.removed) == (1, 0, 0)
    table = lake.open(lake.path("shop", "orders"))
    assert table.metadata().partition_columns == ["shop"]


def test_a_shard_changes_its_own_rows(tmp_path: Path) -> None:
    """Emptied, written anew, extended or gone: the others' files stay."""
    lake = lake_of(tmp_path)
    for shop in "123":
        write(lake, f"shop_{shop}.orders", {"id": [1, 2]})
    publish(lake, ORDERS)
    write(lake, "shop_1.orders", {"id": [9]})
    lake.open(lake.path("shop_2", "orders")).delete()
    write(lake, "shop_3.orders", {"id": [3]}, "append")
    done = publish(lake, ORDERS)
    assert (done.added, done.removed) == (2, 2)
    expected = [{"id": 1, "shop": "3"}, {"id": 2, "shop": "3"}, {"id": 3, "shop": "3"}, {"id": 9, "shop": "1"}]
    assert rows(lake) == expected
    shutil.rmtree(lake.path("shop_3", "orders"))
    publish(lake, ORDERS)
    assert rows(lake) == [{"id": 9, "shop": "1"}]


def test_shapes_come_shard_by_shard(tmp_path: Path) -> None:
    """The widest wins until all have it; rows of before have NULL."""
    lake = lake_of(tmp_path)
    for shop in "12":
        write(lake, f"shop_{shop}.orders", {"id": pa.array([1], pa.int32())})
    publish(lake, ORDERS)
    write(lake, "shop_2.orders", {"id": pa.array([1 << 40], pa.int64()), "note": ["n"]})
    publish(lake, ORDERS)
    assert rows(lake) == [
        {"id": 1, "note": None, "shop": "1"},
        {"id": 1 << 40, "note": "n", "shop": "2"},
    ]
    when = pa.array([0], pa.timestamp("us"))
    write(lake, "shop_1.orders", {"id": pa.array([2], pa.int64()), "note": ["m"], "at": when})
    publish(lake, ORDERS)
    assert [row["at"] is None for row in rows(lake)] == [False, True]
    assert [row["id"] for row in rows(lake)] == [2, 1 << 40]


def test_a_shard_that_does_not_fit_stays_as_it_was(tmp_path: Path) -> None:
    """The others go on."""
    lake = lake_of(tmp_path)
    for shop in "12":
        write(lake, f"shop_{shop}.orders", {"id": [1], "v": ["a"]})
    publish(lake, ORDERS)
    write(lake, "shop_1.orders", {"id": [1], "v": [1.5]})
    write(lake, "shop_2.orders", {"id": [2], "v": ["b"]})
    done = publish(lake, ORDERS)
    assert list(done.refused) == ["shop_1.orders"]
    error = done.refused["shop_1.orders"]
    assert "'v' is double, and string in the union" in error.message
    assert "sluice copy eu shop_1.orders" in error.hint
    assert rows(lake) == [{"id": 1, "shop": "1", "v": "a"}, {"id": 2, "shop": "2", "v": "b"}]


def test_a_damaged_shard_stays_as_it_was(tmp_path: Path) -> None:
    """Its log is unreadable, and its files are there."""
    lake = lake_of(tmp_path)
    write(lake, "shop_1.orders", {"id": [1]})
    publish(lake, ORDERS)
    (Path(lake.path("shop_1", "orders")) / "_delta_log" / f"{0:020}.json").write_text("no JSON")
    done = publish(lake, ORDERS)
    assert "damaged" in done.refused["shop_1.orders"].message
    assert rows(lake) == [{"id": 1, "shop": "1"}]


@pytest.mark.parametrize(
    ("table", "values"), [("shop_a b+c.orders", "a b+c"), ("shop_%41é.orders", "%41é"), ("shop_=&?#.orders", "=&?#")]
)
def test_names_may_have_any_character(tmp_path: Path, table: str, values: str) -> None:
    """In the folder, in the log, as a value: also when the shard's files change."""
    lake = lake_of(tmp_path / "la ke")
    for number in range(3):
        write(lake, table, {"id": [number]})
        publish(lake, ORDERS)
        assert rows(lake) == [{"id": number, "shop": values}]


def test_folders_that_are_no_shard_are_left_out(tmp_path: Path) -> None:
    """Of a switch that was killed before it named the owner, and of a pattern of before."""
    lake = lake_of(tmp_path)
    write(lake, "shop_1.orders", {"id": [1]})
    write_deltalake(lake.path("shop_2", "orders"), pa.table({"id": [2]}))
    narrow = Union("shop.orders", r"shop_([2-9])\.orders", ("shop",))
    publish(lake, ORDERS)
    assert rows(lake) == [{"id": 1, "shop": "1"}]
    publish(lake_of(tmp_path, union=narrow), narrow)
    assert rows(lake) == []


def test_destinations_leave_each_others_shards_alone(tmp_path: Path) -> None:
    """One union has the rows of both."""
    eu, us = lake_of(tmp_path, "eu", BOTH), lake_of(tmp_path, "us", BOTH)
    write(eu, "shop_1.orders", {"id": [1]})
    write(us, "shop_1.orders", {"id": [1], "v": ["a"]})
    publish(eu, BOTH)
    publish(us, BOTH)
    expected = [{"id": 1, "v": None, "shop": "1", "region": "eu"}, {"id": 1, "v": "a", "shop": "1", "region": "us"}]
    assert sorted(rows(eu), key=lambda row: row["region"]) == expected
    write(eu, "shop_1.orders", {"id": [5]})
    publish(eu, BOTH)
    assert sorted(row["id"] for row in rows(us)) == [1, 5]


def test_a_commit_in_between_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another publisher takes a shard further, after this one has read it: it is not taken back."""
    lake = lake_of(tmp_path)
    write(lake, "shop_1.orders", {"id": [1]})
    publish(lake, ORDERS)
    write(lake, "shop_1.orders", {"id": [2]}, "append")
    between, commit = [lambda: (write(lake, "shop_1.orders", {"id": [3]}), publish(lake, ORDERS))], publishing._commit

    def late(*args: Any) -> None:
        if between:
            between.pop()()
        commit(*args)

    monkeypatch.setattr(publishing, "_commit", late)
    publish(lake, ORDERS, sleep=lambda _: None)
    assert rows(lake) == [{"id": 3, "shop": "1"}]


def test_a_change_of_columns_shows_no_row_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another publisher takes the shard further while this one is at the columns: no version has rows of both."""
    lake = lake_of(tmp_path)
    write(lake, "shop_1.orders", {"id": [1]})
    publish(lake, ORDERS)
    write(lake, "shop_1.orders", {"id": [2], "v": ["a"]})
    between, commit = [{"id": [3], "v": ["a"]}], DeltaTable.create_write_transaction

    def late(*args: Any, **options: Any) -> None:
        commit(*args, **options)
        if between:
            write(lake, "shop_1.orders", between.pop())
            publish(lake, ORDERS)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    publish(lake, ORDERS, sleep=lambda _: None)
    assert rows(lake) == [{"id": 3, "v": "a", "shop": "1"}]
    path = lake.path("shop", "orders")
    for version in range(lake.open(path).version() + 1):
        assert lake.open(path, version).to_pyarrow_table().num_rows <= 1


def test_writers_that_never_rest_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch goes back; the shards have their rows."""
    lake = lake_of(tmp_path)
    write(lake, "shop_1.orders", {"id": [1]})
    commit: Callable[..., None] = publishing._commit

    def late(table: DeltaTable, *args: Any) -> None:
        DeltaTable(table.table_uri).alter.set_table_properties({"a": "b"}, raise_if_not_exists=False)
        commit(table, *args)

    monkeypatch.setattr(publishing, "_commit", late)
    with pytest.raises(LakeError, match="other writers"):
        publish(lake, ORDERS, sleep=lambda _: None)


def test_rows_that_are_no_shards_go(tmp_path: Path) -> None:
    """Somebody compacted the union: its shards' rows would be there twice."""
    lake = lake_of(tmp_path)
    for shop in "12":
        write(lake, f"shop_{shop}.orders", {"id": [1]})
        write(lake, f"shop_{shop}.orders", {"id": [2]}, "append")
    publish(lake, ORDERS)
    there = rows(lake)
    lake.open(lake.path("shop", "orders")).optimize.compact()
    publish(lake, ORDERS)
    assert rows(lake) == there
    files = DeltaTable(lake.path("shop", "orders")).file_uris()
    assert len(files) == 4
    assert all("_sluice_shards/eu" in one for one in files)


@pytest.mark.parametrize("what", ["compacted", "deleted", "emptied", "appended", "restored"])
def test_what_somebody_writes_is_undone(tmp_path: Path, what: str) -> None:
    """By the next batch, whatever shards it has: the others' rows, also other destinations', are there once again."""
    eu, us = lake_of(tmp_path, "eu", BOTH), lake_of(tmp_path, "us", BOTH)
    for lake in (eu, us):
        for shop in "12":
            write(lake, f"shop_{shop}.orders", {"id": [1, 2]})
            write(lake, f"shop_{shop}.orders", {"id": [3]}, "append")
        publish(lake, BOTH)
    path = eu.path("shop", "orders")
    table, expected = eu.open(path), rows(eu)
    match what:
        case "compacted":
            table.optimize.compact()
        case "deleted":
            table.delete("id > 1")
        case "emptied":
            table.delete()
        case "appended":
            write_deltalake(path, pa.table({"id": [9], "shop": ["1"], "region": ["us"]}), mode="append")
        case _:
            table.restore(1)
    publish(eu, BOTH, ["shop_2.orders"])
    assert rows(eu) == expected
    version = eu.open(path).version()
    assert publish(us, BOTH, ["shop_1.orders"]).version == version


def test_each_value_is_found(tmp_path: Path) -> None:
    """With a condition on any column, also one that a shard lacks, or whose bounds its log does not have."""
    lake, day = lake_of(tmp_path), date(2026, 1, 2)
    first: dict[str, list[Any]] = {"id": [1], "name": ["x"], "day": [day], "price": [Decimal("1.50")], "ok": [True]}
    write(lake, "shop_1.orders", first)
    publish(lake, ORDERS)
    write(lake, "shop_2.orders", {"id": [1], "big": pa.array([Decimal(10**20)], pa.decimal128(30, 0))})
    path = lake.path("shop_3", "orders")
    noted = {DESTINATION: "eu", TABLE: "shop_3.orders"}
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    DeltaTable.create(path, schema, configuration=noted, raise_if_key_not_exists=False)
    unknown = WriterProperties(column_properties={"name": ColumnProperties(statistics_enabled="NONE")})
    write_deltalake(path, pa.table({"id": [1], "name": ["y"]}), mode="append", writer_properties=unknown)
    publish(lake, ORDERS)
    found = lake.open(lake.path("shop", "orders")).to_pyarrow_dataset()
    for name, (value,) in first.items():
        shops = ["1", "2", "3"] if name == "id" else ["1"]
        met = found.to_table(filter=pc.field(name) == pa.scalar(value, found.schema.field(name).type))
        assert sorted(met["shop"].to_pylist()) == shops, name
    assert found.to_table(filter=pc.field("name") == "y")["shop"].to_pylist() == ["3"]
    for name, shops in (("name", ["2"]), ("big", ["1", "3"]), ("day", ["2", "3"])):
        assert sorted(found.to_table(filter=pc.field(name).is_null())["shop"].to_pylist()) == shops


@pytest.mark.parametrize(
    ("union", "said"),
    [
        (Union("shop.orders", r"shop_(.)(.)\.orders", ("shop", "part")), "begun with other columns: shop"),
        (Union("shop.orders", r"shop_(.+)\.orders", ("store",)), "begun with other columns: shop"),
    ],
)
def test_a_union_keeps_its_columns(tmp_path: Path, union: Union, said: str) -> None:
    """Readers' queries name them."""
    lake = lake_of(tmp_path)
    write(lake, "shop_11.orders", {"id": [1]})
    publish(lake, ORDERS)
    with pytest.raises(LakeError, match=said):
        publish(lake_of(tmp_path, union=union), union)


def test_another_table_is_not_taken_over(tmp_path: Path) -> None:
    """It may be of another destination, or not Sluice's."""
    lake = lake_of(tmp_path)
    write_deltalake(lake.path("shop", "orders"), pa.table({"id": [7]}))
    write(lake, "shop_1.orders", {"id": [1]})
    with pytest.raises(LakeError, match="is a table of its own"):
        publish(lake, ORDERS)
    assert rows(lake) == [{"id": 7}]


def test_two_shards_of_one_place_do_not_share_it(tmp_path: Path) -> None:
    """Their keys would meet."""
    blurred = Union("shop.orders", r"(shop)_.+\.orders", ("shop",))
    lake = lake_of(tmp_path, union=blurred)
    write(lake, "shop_1.orders", {"id": [1]})
    write(lake, "shop_2.orders", {"id": [1]})
    done = publish(lake, blurred)
    assert list(done.refused) == ["shop_2.orders"]
    assert rows(lake) == [{"id": 1, "shop": "shop"}]


def test_two_destinations_of_one_place_do_not_share_it(tmp_path: Path) -> None:
    """A union of several needs a column for them."""
    eu, us = lake_of(tmp_path, "eu"), lake_of(tmp_path, "us")
    write(eu, "shop_1.orders", {"id": [1]})
    write(us, "shop_1.orders", {"id": [1]})
    write(us, "shop_2.orders", {"id": [1]})
    publish(eu, ORDERS)
    for only in (None, ["shop_1.orders", "shop_2.orders"]):
        done = publish(us, ORDERS, only)
        assert "shop_1.orders of eu has the same columns" in done.refused["shop_1.orders"].message
        assert rows(eu) == [{"id": 1, "shop": "1"}, {"id": 1, "shop": "2"}]


def test_a_batch_publishes_its_own_shards_alone(tmp_path: Path) -> None:
    """The others stay as they are in the union; tables that are no shards of it do not matter."""
    lake = lake_of(tmp_path)
    for shop in "123":
        write(lake, f"shop_{shop}.orders", {"id": [0]})
    publish(lake, ORDERS)
    for shop in "12":
        write(lake, f"shop_{shop}.orders", {"id": [9], "v": ["a"]})
    shutil.rmtree(lake.path("shop_3", "orders"))
    done = publish(lake, ORDERS, ["shop_2.orders", "shop_3.orders", "shop_4.orders", "shop.users"])
    assert (done.added, done.removed, done.refused) == (1, 2, {})
    assert rows(lake) == [{"id": 0, "shop": "1", "v": None}, {"id": 9, "shop": "2", "v": "a"}]
    assert publish(lake, ORDERS).added == 1


def test_a_new_shard_of_a_taken_place_is_refused(tmp_path: Path) -> None:
    """Also when the one that has the place is not in the batch."""
    blurred = Union("shop.orders", r"(shop)_.+\.orders", ("shop",))
    lake = lake_of(tmp_path, union=blurred)
    for shop in "12":
        write(lake, f"shop_{shop}.orders", {"id": [1]})
        refused = publish(lake, blurred, [f"shop_{shop}.orders"]).refused
    assert "shop_1.orders of eu has the same columns" in refused["shop_2.orders"].message


def test_a_damaged_union_is_made_again(tmp_path: Path) -> None:
    """As its error says: it has nothing of its own."""
    lake = lake_of(tmp_path)
    write(lake, "shop_1.orders", {"id": [1]})
    publish(lake, ORDERS)
    log = Path(lake.path("shop", "orders")) / "_delta_log"
    (log / f"{1:020}.json").write_text("no JSON")
    with pytest.raises(LakeError, match="the union is damaged") as error:
        publish(lake, ORDERS)
    assert "made again" in error.value.hint
    shutil.rmtree(log)
    publish(lake, ORDERS)
    assert rows(lake) == [{"id": 1, "shop": "1"}]


def test_a_lost_commit_is_made_again(tmp_path: Path) -> None:
    """A power cut leaves its file empty, which Delta takes for a commit of nothing."""
    lake = lake_of(tmp_path)
    write(lake, "shop_1.orders", {"id": [1]})
    publish(lake, ORDERS)
    (Path(lake.path("shop", "orders")) / "_delta_log" / f"{1:020}.json").write_text("")
    publish(lake, ORDERS)
    assert rows(lake) == [{"id": 1, "shop": "1"}]


@pytest.mark.parametrize(
    ("column", "in_file", "partitions", "said"),
    [
        ("id", "id", [], ""),
        ("id", "col-1", [], "other names in its files"),
        ("id", "id", ["id"], "its files are partitioned"),
        ("a b", "col-1", [], "cannot have a column of the name 'a b'"),
    ],
)
def test_a_shard_whose_files_cannot_be_named(
    tmp_path: Path, column: str, in_file: str, partitions: list[str], said: str
) -> None:
    """Where a copy helps the error asks for one, and the copy keeps nothing of it. A name in files that is the column's
    own does no harm."""
    lake = lake_of(tmp_path)
    mapped(Path(lake.path("shop_1", "orders")), column, in_file, partitions)
    refused = publish(lake, ORDERS).refused
    assert [*refused] == (["shop_1.orders"] if said else [])
    for error in refused.values():
        assert said in error.message
        assert isinstance(error, CopyNeeded) == ("name 'a b'" not in said)
        assert ("`rename`" in error.hint) == ("name 'a b'" in said)


def mapped(path: Path, column: str, in_file: str, partitions: list[str]) -> None:
    """A table with column mapping, of one column."""
    numbered = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": in_file}
    schema = {"type": "struct", "fields": [{"name": column, "type": "long", "nullable": True, "metadata": numbered}]}
    noted = {DESTINATION: "eu", TABLE: "shop_1.orders", MAPPING: "name", "delta.columnMapping.maxColumnId": "1"}
    made = {"id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    made |= {"partitionColumns": partitions, "configuration": noted, "createdTime": 1}
    (path / "_delta_log").mkdir(parents=True)
    lines = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": made}]
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(("before", "after"), [("shop_2", "shop_1"), ("shop_1", "shop_2")])
def test_a_shard_that_is_renamed_keeps_its_values(tmp_path: Path, before: str, after: str) -> None:
    """The old name has none then, whichever of the two comes first: the rows are there once, and nothing is refused."""
    union = Union("shop.orders", r"shop_.+\.orders_(.+)", ("no",))
    lake = lake_of(tmp_path, union=union)
    write(lake, f"{before}.orders_7", {"id": [1, 2]})
    publish(lake, union)
    write(lake, f"{after}.orders_7", {"id": [1, 2, 3]})
    retired = lake.open(lake.path(before, "orders_7"))
    retired.delete()
    retired.alter.set_table_properties({DROPPED: "mysql-bin.000001:4"}, raise_if_not_exists=False)
    done = publish(lake, union)
    assert done.refused == {}
    assert rows(lake) == [{"id": number, "no": "7"} for number in (1, 2, 3)]
