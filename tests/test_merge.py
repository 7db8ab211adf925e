"""spark_jobs.merge on a real Spark server: what a lake holds after batches, replays and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from cdc_core.errors import LakeError, RangeGone
from spark_jobs import merge
from spark_jobs.checks import key_unique, position_monotone, rows_add_up
from spark_jobs.lake import Lake, app_id
from spark_jobs.merge import apply_batch
from spark_jobs.session import Sessions
from tests.spark_feed import Change, Feed, Table, feed

pytestmark = pytest.mark.integration

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",), comment="it's ordered")
LINES = Table("lines", pa.schema({"a": pa.int32(), "b": pa.string()}))


@pytest.fixture(scope="module")
def sessions(spark_remote: str) -> Iterator[Sessions]:
    with Sessions(spark_remote) as pool:
        yield pool


@pytest.fixture
def service() -> Iterator[Feed]:
    with feed() as server:
        yield server


def rows(lake: Lake, table: str) -> Counter[Any]:
    """What is in the lake, through delta-rs: not the engine that wrote it."""
    found = QueryBuilder().register("t", DeltaTable(lake.path("shop", table))).execute("SELECT * FROM t").read_all()
    table_ = pa.table(found)
    return Counter(zip(*(column.to_pylist() for column in table_.columns), strict=True))


def test_a_keyed_table_follows_its_source(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Inserts, updates, deletes and a changed key leave what the source has, and the checks agree."""
    lake = Lake(tmp_path, complete=True)
    service.put(ORDERS, [Change(n, None, (n, f"v{n}")) for n in range(1, 21)])
    (first,) = apply_batch(service.claim(1, 0, 20), lake, sessions, service.url)
    assert (first.created, first.inserted, first.delta_version) == (True, 20, 1)
    service.put(ORDERS, [Change(21, (1, "v1"), (1, "w")), Change(22, (2, "v2"), None)])
    service.put(ORDERS, [Change(23, (3, "v3"), (33, "v3")), Change(24, None, (40, None))])
    claim = service.claim(2, 20, 24)
    (second,) = apply_batch(claim, lake, sessions, service.url, run_id="r")
    assert (second.inserted, second.updated, second.deleted) == (2, 1, 2)
    assert (second.inserts, second.updates, second.deletes, second.upserts) == (1, 2, 1, 3)
    for verdict in (key_unique([second]), rows_add_up([second]), position_monotone(claim, [second])):
        assert verdict.passed, verdict.text
    expected = {(n, f"v{n}"): 1 for n in range(4, 21)} | {(1, "w"): 1, (33, "v3"): 1, (40, None): 1}
    assert rows(lake, "orders") == Counter(expected)


def test_a_replay_with_other_boundaries_adds_only_what_is_new(
    service: Feed, sessions: Sessions, tmp_path: Path
) -> None:
    """A batch applied but not acked is claimed again, longer: keyed and keyless rows are there once."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(n, None, (n, "x")) for n in range(1, 11)])
    service.put(LINES, [Change(n, None, (1, "same")) for n in range(1, 11)])
    apply_batch(service.claim(1, 0, 6), lake, sessions, service.url)
    again = apply_batch(service.claim(2, 0, 6), lake, sessions, service.url)
    assert all(result.replayed and result.inserted == 0 for result in again)
    longer = apply_batch(service.claim(3, 0, 10), lake, sessions, service.url)
    assert [(result.inserts, result.inserted) for result in longer] == [(4, 4), (4, 4)]
    assert rows(lake, "lines") == {(1, "same"): 10}
    assert sum(rows(lake, "orders").values()) == 10


def test_what_failed_its_checks_fails_them_again(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A retry, longer or shorter than the first try, is judged by the commit that was bad, not by its own silence."""
    lake = Lake(tmp_path, complete=True)
    service.put(ORDERS, [Change(n, None, (n, "x")) for n in range(1, 5)])
    apply_batch(service.claim(1, 0, 4), lake, sessions, service.url)
    DeltaTable(lake.path("shop", "orders")).delete("id = 2")
    service.put(ORDERS, [Change(5, (2, "x"), (2, "y")), Change(6, (3, "x"), (3, "y")), Change(7, None, (7, "x"))])
    said = [rows_add_up(apply_batch(service.claim(2, 4, 6), lake, sessions, service.url))]
    for batch_id, end in ((3, 6), (4, 7), (5, 5)):
        claim = service.claim(batch_id, 4, end)
        results = apply_batch(claim, lake, sessions, service.url)
        assert results[0].replayed == (end != 7)
        assert position_monotone(claim, results).passed
        said.append(rows_add_up(results))
    assert [(verdict.passed, verdict.text) for verdict in said] == [
        (False, "shop.orders: grew by 1 rows in the lake, by 0 at the source")
    ] * 4
    (before,) = apply_batch(service.claim(6, 0, 4), lake, sessions, service.url)
    assert rows_add_up([before]).passed
    assert [part.inserted for part in before.parts] == [4]


def test_rows_that_no_commit_tells_of_are_not_taken_for_good(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A lake that says it is further on, without a commit of this range, does not pass."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(n, None, (n, "x")) for n in (1, 5)])
    apply_batch(service.claim(1, 3, 5), lake, sessions, service.url)
    claim = service.claim(2, 0, 1)
    results = apply_batch(claim, lake, sessions, service.url)
    assert results[0].replayed
    assert not position_monotone(claim, results).passed
    assert "no commit that tells of them" in position_monotone(claim, results).text


def test_a_new_epoch_applies_again(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A rewind raises the epoch: the same range is applied anew and, by key, changes nothing."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    (again,) = apply_batch(service.claim(2, 0, 1, epoch=2), lake, sessions, service.url)
    assert not again.replayed
    assert rows(lake, "orders") == {(1, "x"): 1}


def test_copies_are_counted_without_a_key(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """One MERGE takes some copies of a row, all of another (NULLs are equal), and adds a third."""
    lake = Lake(tmp_path)
    service.put(LINES, [Change(1, None, row) for row in [(1, "a")] * 3 + [(2, None)] * 2 + [(3, "c")]])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(LINES, [Change(2, (1, "a"), None), Change(2, (2, None), None), Change(2, (2, None), (4, "d"))])
    (result,) = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url)
    assert rows(lake, "lines") == {(1, "a"): 2, (3, "c"): 1, (4, "d"): 1}
    assert rows_add_up([result]).passed
    cancelling = [Change(3, None, (9, "z")), Change(3, (9, "z"), None)]
    service.put(LINES, cancelling)
    (nothing,) = apply_batch(service.claim(3, 2, 3), lake, sessions, service.url)
    assert (nothing.inserted, nothing.deleted, rows_add_up([nothing]).passed) == (0, 0, True)


def test_more_copies_deleted_than_there_are_stops_the_table(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A lake that lacks a row says so and is left as it was; the other table goes on."""
    lake = Lake(tmp_path)
    service.put(LINES, [Change(1, None, (1, "a"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(LINES, [Change(2, (1, "a"), None), Change(2, (1, "a"), None)])
    service.put(ORDERS, [Change(2, None, (1, "x"))])
    lines, orders = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url)
    assert lines.stop is not None
    assert "1 in the lake, 2 deleted" in lines.stop.message
    assert orders.inserted == 1
    assert rows(lake, "lines") == {(1, "a"): 1}


def test_a_column_is_added_where_the_source_has_it(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A column in the middle, with an odd name: old rows have NULL there."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    wider = replace(ORDERS, fields=pa.schema({"id": pa.int64(), "odd `n,ame": pa.date32(), "what": pa.string()}))
    service.tables["shop.orders"] = wider
    service.put(wider, [Change(2, None, (2, date(2024, 2, 29), "y"))])
    (result,) = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url)
    assert result.added_columns == ("odd `n,ame",)
    with sessions.take() as spark:
        found = spark.sql(f"SELECT * FROM delta.`{lake.path('shop', 'orders')}` ORDER BY id")
        assert found.columns == ["id", "odd `n,ame", "what"]
        assert [tuple(row) for row in found.collect()] == [(1, None, "x"), (2, date(2024, 2, 29), "y")]


def test_another_schema_change_stops_that_table_alone(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A changed type names the column, the old and the new."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    other = replace(ORDERS, fields=pa.schema({"id": pa.int64(), "what": pa.int32()}))
    service.put(other, [])
    service.changes["shop.orders"] = [Change(2, None, (2, 5))]
    service.put(LINES, [Change(2, None, (1, "a"))])
    orders, lines = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url)
    assert orders.stop is not None
    assert "'what' was string and is int" in orders.stop.message
    assert lines.inserted == 1


@pytest.mark.parametrize("local_rows", [0, 10])
def test_every_type_arrives_as_it_is(service: Feed, sessions: Sessions, tmp_path: Path, local_rows: int) -> None:
    """The types of the table in docs/architecture.md, at their edges, through Python workers or sent along."""
    fields = pa.schema(
        [
            ("id", pa.int64()),
            ("i8", pa.int8()),
            ("i16", pa.int16()),
            ("u64", pa.decimal128(20, 0)),
            ("dec", pa.decimal128(38, 10)),
            ("f32", pa.float32()),
            ("f64", pa.float64()),
            ("bit", pa.bool_()),
            ("day", pa.date32()),
            ("local", pa.timestamp("us")),
            ("instant", pa.timestamp("us", "UTC")),
            ("text", pa.string()),
            ("bytes", pa.binary()),
        ]
    )
    full = (1, -128, 32767, Decimal(2**64 - 1), Decimal("1234567890123456789012345678.0123456789"), 0.5, 1e300, True)
    full += (date(1000, 1, 1), datetime(1582, 10, 10, 1, 2, 3, 456789), datetime(2038, 1, 19, 3, 14, 7, 1, UTC))
    full += ("ünïcode 🐬", b"\x00\xff")
    empty = (2, *[None] * (len(fields) - 1))
    service.put(Table("types", fields, key=("id",)), [Change(1, None, full), Change(1, None, empty)])
    lake = Lake(tmp_path)
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url, local_rows=local_rows)
    assert rows(lake, "types") == {full: 1, empty: 1}


def test_comments_key_and_owner_are_recorded(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """The Delta table says what it was made from."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    state = lake.state(lake.path("shop", "orders"), app_id("d", 1, "shop.orders", 1))
    assert state is not None
    assert state.primary_key == ("id",)
    assert [column.comment for column in state.columns] == ["the id", "the what"]
    assert state.properties["sluice.destination"] == "d"
    assert DeltaTable(lake.path("shop", "orders")).metadata().description == "it's ordered"


def test_a_table_of_another_is_not_written(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A Delta table that we did not make, and one of another destination, stay as they are."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    path = lake.path("shop", "orders")
    with sessions.take() as spark:
        spark.sql(f"CREATE TABLE delta.`{path}` (id bigint, what string) USING delta").collect()
    (result,) = apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    assert result.stop is not None
    assert "was not made by Sluice" in str(result.stop)
    assert not rows(lake, "orders")


def test_an_unwritable_lake_is_named(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A lake below a file cannot be made: the error has its place and a remedy."""
    (tmp_path / "file").write_text("")
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    with pytest.raises(LakeError, match="cannot be written") as caught:
        apply_batch(service.claim(1, 0, 1), Lake(tmp_path / "file" / "lake"), sessions, service.url)
    assert caught.value.place
    assert caught.value.hint


def test_a_claim_that_is_gone_is_told_apart(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """The service's own error comes through."""
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    claim = service.claim(1, 0, 1)
    service.claims.clear()
    with pytest.raises(RangeGone):
        apply_batch(claim, Lake(tmp_path), sessions, service.url)


def test_splits_are_read_in_parallel_and_whole(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows over several splits arrive once each."""
    monkeypatch.setattr(merge, "_ROWS_PER_SPLIT", 50_000)
    service.put(LINES, [Change(1, None, (n, "r")) for n in range(120_000)])
    (result,) = apply_batch(service.claim(1, 0, 1), Lake(tmp_path), sessions, service.url)
    assert service.asked[-1]["splits"] == 3
    assert result.inserted == 120_000


def test_a_server_that_is_away_is_a_lake_error(service: Feed, tmp_path: Path) -> None:
    """No Spark behind the address: an error with a remedy within seconds."""
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    with pytest.raises(LakeError, match="does not answer"), Sessions("sc://127.0.0.1:9") as pool:
        apply_batch(service.claim(1, 0, 1), Lake(tmp_path), pool, service.url)
