"""A very small table is rewritten as a MERGE of delta-rs would leave it, without Spark: the same rows and counts."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from cdc_core.client.changes import RowsDoor
from spark_jobs.changes.net import GONE
from spark_jobs.lake import kept_tables
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.state import FENCE
from spark_jobs.lake.tables import Lake
from spark_jobs.write import rewrite, small_table
from spark_jobs.write.order import Claimed, Form, Order, Outcome
from spark_jobs.write.order_changes import Unfit

SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "b": pa.string(),
        "price": pa.decimal128(38, 4),
        "ratio": pa.float64(),
        "at": pa.timestamp("us", "UTC"),
        "raw": pa.binary(),
    }
)
NO_DOOR = Claimed(RowsDoor("grpc://127.0.0.1:1"), ())
RATIOS = (0.0, -0.0, float("nan"), 1.5, None)


def some_rows(rng: random.Random, keys: list[tuple[int, str]]) -> pa.Table:
    rows = [
        {
            "a": a,
            "b": b,
            "price": rng.choice([None, Decimal("12345678901234567890123456789012.3456"), Decimal("-0.0001")]),
            "ratio": rng.choice(RATIOS),
            "at": rng.choice([None, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)]),
            "raw": rng.choice([None, b"", bytes([0, 255])]),
        }
        for a, b in keys
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def table_at(path: Path, rows: pa.Table, files: int, soft: bool) -> Order:
    """Creates a table of these rows, in so many files, and returns an order for it."""
    own = Own.made([], soft=soft)
    fields = [*SCHEMA, *(pa.field(name, pa.bool_()) for name in own.names)]
    schema = Schema.from_arrow(pa.schema(fields))
    DeltaTable.create(str(path), schema, configuration={FENCE: "mine"}, raise_if_key_not_exists=False)
    for name in own.names:
        rows = rows.append_column(name, pa.array([False] * rows.num_rows))
    for number in range(files):
        part = rows.slice(number * rows.num_rows // files, rows.num_rows // files)
        write_deltalake(str(path), part, mode="append")
    columns, key = tuple(SCHEMA.names), ("a", "b")
    return Order(str(path), "app", 1, '{"version": 1}', "mine", Form.KEYED, columns, key, NO_DOOR, own)


def made(order: Order, changes: pa.Table, monkeypatch: pytest.MonkeyPatch, most: int) -> Outcome:
    monkeypatch.setattr(rewrite, "MOST_ROWS", most)
    monkeypatch.setattr(small_table, "changes_of", lambda _: changes)
    return small_table.written(order)


def rows_of(order: Order) -> Counter[str]:
    return Counter(map(str, DeltaTable(order.path).to_pyarrow_table().to_pylist()))


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("key", [("a",), ("a", "b")])
@pytest.mark.parametrize("seed", range(4))
def test_the_rows_and_counts_are_those_of_a_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, key: tuple[str, ...], soft: bool
) -> None:
    """Random rows and changes leave the same table and outcome as a MERGE of delta-rs."""
    rng = random.Random(seed)
    names = ["x", "X", "", "ä"] if len(key) == 2 else ["x"]
    keys = [(number, name) for number in range(9) for name in names]
    there, changed = (some_rows(rng, rng.sample(keys, rng.randint(0, len(keys)))) for _ in range(2))
    gone = pa.array([rng.random() < 0.4 for _ in range(changed.num_rows)], pa.bool_())
    changes = changed.append_column(GONE, gone)
    if soft:
        changes = changes.append_column(DELETED, gone)
    files = rng.randint(1, 3)
    ours, peer = (replace(table_at(tmp_path / one, there, files, soft), key=key) for one in ("ours", "peer"))
    by_rewrite, by_merge = made(ours, changes, monkeypatch, 1000), made(peer, changes, monkeypatch, -1)
    assert replace(by_rewrite, version=0) == replace(by_merge, version=0)
    assert rows_of(ours) == rows_of(peer)
    assert by_rewrite.version == DeltaTable(ours.path).version()
    assert DeltaTable(ours.path).transaction_version("app") == 1
    (commit, *_) = Lake(tmp_path).commits(ours.path)
    counts = (by_rewrite.inserted, by_rewrite.updated, by_rewrite.deleted)
    assert (commit.inserted, commit.updated, commit.deleted) == counts
    assert commit.note["version"] == 1


def test_a_table_that_was_optimized_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And any other commit since the table was read, also one that delta-rs would let pass."""
    rows = some_rows(random.Random(1), [(1, "x"), (2, "x")])
    order = table_at(tmp_path / "t", rows, 2, soft=False)

    def meanwhile(one: Order) -> pa.Table:
        write_deltalake(one.path, rows.slice(0, 0), mode="append")
        return rows.append_column(GONE, pa.array([True, True]))

    monkeypatch.setattr(small_table, "changes_of", meanwhile)
    with pytest.raises(CommitFailedError):
        small_table.written(order)
    assert DeltaTable(order.path).to_pyarrow_table().num_rows == 2


def test_two_changes_of_one_key_are_left_to_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which refuses them."""
    rows = some_rows(random.Random(1), [(1, "x"), (1, "x"), (2, "x")])
    order = table_at(tmp_path / "t", rows.slice(0, 1), 1, soft=False)
    with pytest.raises(Unfit, match="two changes of one key"):
        made(order, rows.append_column(GONE, pa.array([False] * 3)), monkeypatch, 1000)


@pytest.mark.parametrize("property_", ["delta.enableChangeDataFeed", "delta.appendOnly"])
def test_a_table_whose_files_are_not_all_is_not_rewritten(tmp_path: Path, property_: str) -> None:
    """A change data feed and an append-only table need a MERGE."""
    rows = some_rows(random.Random(1), [(1, "x")])
    order = table_at(tmp_path / "t", rows, 1, soft=False)
    table = DeltaTable(order.path)
    assert rewrite.rewritable(order, table, pa.table(table.get_add_actions()), rows)
    table.alter.set_table_properties({property_: "true"}, raise_if_not_exists=False)
    assert not rewrite.rewritable(order, table, pa.table(table.get_add_actions()), rows)


def test_a_table_with_datetimes_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that delta-rs gave `variantType`, as in an object store."""
    schema = pa.schema({"a": pa.int64(), "at": pa.timestamp("us")})
    DeltaTable.create(tmp_path, Schema.from_arrow(schema), configuration={FENCE: "x"}, raise_if_key_not_exists=False)
    order = Order(str(tmp_path), "app", 1, "{}", "mine", Form.KEYED, ("a", "at"), ("a",), NO_DOOR)
    DeltaTable(tmp_path).alter.set_table_properties({FENCE: "mine"}, raise_if_not_exists=False)
    assert "variantType" in (DeltaTable(tmp_path).protocol().reader_features or ())
    changes = pa.table([pa.array([1]), pa.array([0], schema.field("at").type), pa.array([False])], ["a", "at", GONE])
    assert made(order, changes, monkeypatch, 1000).inserted == 1
    assert DeltaTable(tmp_path).history(1)[0]["operation"] == "WRITE"


@pytest.mark.parametrize("how", ["codes", "plain", "delta", "nested"])
def test_rows_that_take_much_memory_are_left_alone(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may have a long text many times, however it is encoded; one that takes less is rewritten."""
    text = "x" * 1000 if how != "nested" else {"w": "x" * 1000}
    rows = pa.table({"a": range(500), "v": [text] * 500})
    order = Order(str(tmp_path), "app", 1, "{}", "mine", Form.KEYED, ("a", "v"), ("a",), NO_DOOR)
    made_of = {"codes": {}, "nested": {}, "plain": {"use_dictionary": False}}
    delta = {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY"}}
    table_of(tmp_path, rows, made_of.get(how, delta))
    changes = rows.slice(0, 1).append_column(GONE, pa.array([False]))
    assert DeltaTable(tmp_path).get_add_actions().column("size_bytes").to_pylist()[0] < 20_000
    with monkeypatch.context() as patch:
        patch.setattr(rewrite, "MOST_MEMORY", 200_000)
        with pytest.raises(Unfit, match="too much memory"):
            made(order, changes, patch, 1000)
    monkeypatch.setattr(rewrite, "MOST_MEMORY", 5_000_000)
    assert made(order, changes, monkeypatch, 1000).updated == 1
    assert DeltaTable(tmp_path).to_pyarrow_table().sort_by("a") == rows


def table_of(path: Path, rows: pa.Table, how: dict[str, Any]) -> None:
    """Creates a table of one file, written `how`."""
    schema = Schema.from_arrow(rows.schema)
    DeltaTable.create(path, schema, configuration={FENCE: "mine"}, raise_if_key_not_exists=False)
    pq.write_table(rows, path / "one.parquet", compression="zstd", **how)
    size, said = (path / "one.parquet").stat().st_size, json.dumps({"numRecords": rows.num_rows})
    added = [AddAction("one.parquet", size, {}, 0, True, said)]
    DeltaTable(path).create_write_transaction(added, "append", schema)


def test_the_new_file_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers and tools that look at the times of files find when it was written."""
    rows = some_rows(random.Random(1), [(1, "x")])
    order = table_at(tmp_path / "t", rows, 1, soft=False)
    before = time.time() * 1000 - 1
    made(order, rows.append_column(GONE, pa.array([False])), monkeypatch, 1000)
    (at,) = pa.table(DeltaTable(order.path).get_add_actions()).column("modification_time").to_pylist()
    assert before < at < time.time() * 1000 + 1


def test_a_kept_table_is_opened_anew_when_it_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process keeps the tables that it has opened. Somebody puts another one at the place."""
    rows = some_rows(random.Random(1), [(1, "x"), (2, "x")])
    order = table_at(tmp_path / "t", rows, 2, soft=False)
    gone = rows.append_column(GONE, pa.array([True, True]))
    assert made(order, gone, monkeypatch, 1000).deleted == 2
    (tmp_path / "t").rename(tmp_path / "away")
    order = table_at(tmp_path / "t", rows, 1, soft=False)
    assert DeltaTable(order.path).version() < DeltaTable(str(tmp_path / "away")).version()
    assert made(order, gone, monkeypatch, 1000).deleted == 2
    newest = DeltaTable(order.path)
    assert newest.to_pyarrow_table().num_rows == 0
    newest.alter.set_table_properties({FENCE: "another's"}, raise_if_not_exists=False)
    with pytest.raises(Unfit):
        made(replace(order, version=2), gone, monkeypatch, 1000)


def test_few_tables_of_many_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were asked for last; an open table holds the names of its files. One that has too many by itself is
    not kept, and leaves the others."""
    monkeypatch.setattr(kept_tables, "_MOST_FILES", 5)
    kept = kept_tables.KeptTables({})
    for name, files in (("a", 2), ("b", 2), ("c", 3), ("large", 6), ("d", 1)):
        order = table_at(tmp_path / name, some_rows(random.Random(1), [(n, "x") for n in range(6)]), files, soft=False)
        with kept.newest(order.path) as table:
            assert len(table.file_uris()) == files
        assert repr(kept) == f"<KeptTables {({'a': 1, 'b': 2, 'c': 2, 'large': 2, 'd': 2})[name]}>"
