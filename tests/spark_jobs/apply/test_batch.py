"""spark_jobs.apply.batch on a real Spark server: the lake after batches, replays and refusals."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql.connect.client import SparkConnectClient

from cdc_core.errors import LakeError, RangeGone
from spark_jobs.apply import table as apply_table
from spark_jobs.apply.checks import judge, position_monotone, rows_add_up
from spark_jobs.apply.commits import Commit
from spark_jobs.apply.result import TableResult
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.write import net_file, seen
from spark_jobs.write.order import Engine
from tests.support.applying import apply_batch
from tests.support.spark_feed import Change, Feed, Table

pytestmark = pytest.mark.integration

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",), comment="it's ordered")
LINES = Table("lines", pa.schema({"a": pa.int32(), "b": pa.string()}))


def rows(lake: Lake, table: str) -> Counter[Any]:
    """What is in the lake, through delta-rs: not the engine that wrote it."""
    found = QueryBuilder().register("t", DeltaTable(lake.path("shop", table))).execute("SELECT * FROM t").read_all()
    table_ = pa.table(found)
    return Counter(zip(*(column.to_pylist() for column in table_.columns), strict=True))


def own(result: TableResult) -> Commit:
    """What this try committed."""
    assert result.commit is not None
    return result.commit


def test_a_keyed_table_follows_its_source(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Inserts, updates, deletes and a changed key give the rows of the source, and the checks agree."""
    lake = Lake(tmp_path, complete=True)
    service.put(ORDERS, [Change(n, None, (n, f"v{n}")) for n in range(1, 21)])
    (first,) = apply_batch(service.claim(1, 0, 20), lake, sessions, service.url).applied
    assert (first.created, own(first).inserted, first.delta_version) == (True, 20, 1)
    service.put(ORDERS, [Change(21, (1, "v1"), (1, "w")), Change(22, (2, "v2"), None)])
    service.put(ORDERS, [Change(23, (3, "v3"), (33, "v3")), Change(24, None, (40, None))])
    claim = service.claim(2, 20, 24)
    (second,) = apply_batch(claim, lake, sessions, service.url, run_id="r").applied
    assert (own(second).inserted, own(second).updated, own(second).deleted) == (2, 1, 2)
    source = second.source
    assert (source.inserts, source.updates, source.deletes, source.upserts) == (1, 2, 1, 3)
    assert len(judge(claim, second)) == 3
    for verdict in judge(claim, second):
        assert verdict.passed, verdict.text
    expected = {(n, f"v{n}"): 1 for n in range(4, 21)} | {(1, "w"): 1, (33, "v3"): 1, (40, None): 1}
    assert rows(lake, "orders") == Counter(expected)


def test_a_replay_with_other_boundaries_adds_only_what_is_new(
    service: Feed, sessions: Sessions, tmp_path: Path
) -> None:
    """A batch applied but not acked is claimed again, longer: rows with and without a key are there once."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(n, None, (n, "x")) for n in range(1, 11)])
    service.put(LINES, [Change(n, None, (1, "same")) for n in range(1, 11)])
    apply_batch(service.claim(1, 0, 6), lake, sessions, service.url)
    again = apply_batch(service.claim(2, 0, 6), lake, sessions, service.url).applied
    assert [(result.replayed, result.commit) for result in again] == [(True, None)] * 2
    longer = apply_batch(service.claim(3, 0, 10), lake, sessions, service.url).applied
    assert [(result.source.inserts, own(result).inserted) for result in longer] == [(4, 4), (4, 4)]
    assert rows(lake, "lines") == {(1, "same"): 10}
    assert sum(rows(lake, "orders").values()) == 10


def test_keys_that_were_not_as_presumed_are_named(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Inserts that meet a row, updates and deletes that miss one: the lake becomes the source, and keys are shown."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (n, "x")) for n in range(1, 6)])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    DeltaTable(lake.path("shop", "orders")).delete("id in (2, 3)")
    service.put(ORDERS, [Change(2, None, (4, "new")), Change(2, (2, "x"), (2, "y")), Change(2, (3, "x"), None)])
    service.put(ORDERS, [Change(2, None, (9, "gone")), Change(2, (9, "gone"), None), Change(2, (5, "x"), (6, "x"))])
    service.put(ORDERS, [Change(2, (1, "x"), None), Change(2, None, (1, "back")), Change(2, (2, "y"), (7, "y"))])
    claim = service.claim(2, 1, 2)
    (result,) = apply_batch(claim, lake, sessions, service.url).applied
    assert rows(lake, "orders") == {(1, "back"): 1, (4, "new"): 1, (6, "x"): 1, (7, "y"): 1}
    assert (result.doubt.met, result.doubt.missed) == (1, 2)
    assert sorted(result.doubt.keys) == ["id=2", "id=3", "id=4"]
    assert not any(verdict.blocks for verdict in judge(claim, result))


def test_what_was_missing_is_mended_and_reported_at_every_try(
    service: Feed, sessions: Sessions, tmp_path: Path
) -> None:
    """A retry of any length is judged by the commit that found no row, not by its own silence."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(n, None, (n, "x")) for n in range(1, 5)])
    apply_batch(service.claim(1, 0, 4), lake, sessions, service.url)
    DeltaTable(lake.path("shop", "orders")).delete("id = 2")
    service.put(ORDERS, [Change(5, (2, "x"), (2, "y")), Change(6, (3, "x"), (3, "y")), Change(7, None, (7, "x"))])
    claim = service.claim(2, 4, 6)
    (tried,) = apply_batch(claim, lake, sessions, service.url).applied
    verdicts = [rows_add_up(claim, tried)]
    for batch_id, end in ((3, 6), (4, 7), (5, 5)):
        claim = service.claim(batch_id, 4, end)
        (result,) = apply_batch(claim, lake, sessions, service.url).applied
        assert result.replayed == (end != 7)
        assert position_monotone(claim, result).passed
        verdicts.append(rows_add_up(claim, result))
    assert [(one.passed, one.blocks, one.text) for one in verdicts] == [
        (False, False, "1 updates or deletes found no row")
    ] * 4
    (before,) = apply_batch(service.claim(6, 0, 4), lake, sessions, service.url).applied
    assert rows_add_up(claim, before).passed
    assert [commit.inserted for commit in before.earlier.commits] == [4]
    assert rows(lake, "orders") == {(1, "x"): 1, (2, "y"): 1, (3, "y"): 1, (4, "x"): 1, (7, "x"): 1}


def test_rows_without_a_commit_do_not_pass(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A lake that claims to be further on, without a commit of this range, does not pass."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(n, None, (n, "x")) for n in (1, 5)])
    apply_batch(service.claim(1, 3, 5), lake, sessions, service.url)
    claim = service.claim(2, 0, 1)
    (result,) = apply_batch(claim, lake, sessions, service.url).applied
    assert result.replayed
    assert not position_monotone(claim, result).passed
    assert "its log has no commit with them" in position_monotone(claim, result).text


def test_a_new_epoch_applies_again(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A rewind raises the epoch: the range is applied again and, by key, changes nothing."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    (again,) = apply_batch(service.claim(2, 0, 1, epoch=2), lake, sessions, service.url).applied
    assert not again.replayed
    assert rows(lake, "orders") == {(1, "x"): 1}


def test_copies_are_counted_without_a_key(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """One MERGE removes some copies of a row and all of another (NULLs are equal), and adds a third."""
    lake = Lake(tmp_path)
    service.put(LINES, [Change(1, None, row) for row in [(1, "a")] * 3 + [(2, None)] * 2 + [(3, "c")]])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(LINES, [Change(2, (1, "a"), None), Change(2, (2, None), None), Change(2, (2, None), (4, "d"))])
    claim = service.claim(2, 1, 2)
    (result,) = apply_batch(claim, lake, sessions, service.url).applied
    assert rows(lake, "lines") == {(1, "a"): 2, (3, "c"): 1, (4, "d"): 1}
    assert rows_add_up(claim, result).passed
    cancelling = [Change(3, None, (9, "z")), Change(3, (9, "z"), None)]
    service.put(LINES, cancelling)
    claim = service.claim(3, 2, 3)
    (nothing,) = apply_batch(claim, lake, sessions, service.url).applied
    assert (own(nothing).inserted, own(nothing).deleted, rows_add_up(claim, nothing).passed) == (0, 0, True)


def test_more_copies_deleted_than_there_are_stops_the_table(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A lake that lacks a row is left as it was; the other table goes on."""
    lake = Lake(tmp_path)
    service.put(LINES, [Change(1, None, (1, "a"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(LINES, [Change(2, (1, "a"), None), Change(2, (1, "a"), None)])
    service.put(ORDERS, [Change(2, None, (1, "x"))])
    batch = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url)
    (lines,), (orders,) = batch.refused, batch.applied
    assert (lines.table, orders.table) == ("shop.lines", "shop.orders")
    assert "1 in the lake, 2 deleted" in lines.error.message
    assert own(orders).inserted == 1
    assert rows(lake, "lines") == {(1, "a"): 1}


def test_zeros_of_both_signs_are_counted_apart_without_a_key(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Each zero loses and gains its own copies, also inside an array, and keeps its sign."""
    lake = Lake(tmp_path)
    fields = pa.schema({"d": pa.float64(), "f": pa.float32(), "v": pa.list_(pa.float32()), "n": pa.int32()})
    zeros = Table("zeros", fields)
    plus, minus = (0.0, 0.0, [0.0], 1), (-0.0, -0.0, [-0.0], 1)
    null = (None, None, None, 1)
    service.put(zeros, [Change(1, None, row) for row in [plus, plus, minus, minus, minus, null]])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(zeros, [Change(2, minus, None), Change(2, minus, plus), Change(2, plus, None), Change(2, null, minus)])
    service.put(zeros, [Change(2, None, (-0.0, 0.0, [1.5, -0.0], 2))])
    claim = service.claim(2, 1, 2)
    (result,) = apply_batch(claim, lake, sessions, service.url).applied
    assert all(verdict.passed for verdict in judge(claim, result))
    with sessions.take() as spark:
        found = spark.sql(f"SELECT * FROM delta.`{lake.path('shop', 'zeros')}`").collect()
    expected = [plus] * 2 + [minus] * 2 + [(-0.0, 0.0, [1.5, -0.0], 2)]
    assert Counter(repr(tuple(row)) for row in found) == Counter(map(repr, expected))


def test_rows_that_are_equal_in_the_lake_count_together(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Other bytes at the source may give the same row in the lake, as a zero date and NULL do."""
    lake = Lake(tmp_path)
    service.put(LINES, [Change(1, None, (1, None))] * 3)
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(LINES, [Change(2, (1, None), None)])
    schema = LINES.fields.append(pa.field("_sluice_count", pa.int64()))
    parts = pa.table([[1, 1, 2, 2], [None, None, "x", "x"], [-1, -1, 1, -1]], schema=schema)
    plan = {"rows": 4, "upserts": 1, "deletes": 3, "raw_inserts": 1, "raw_updates": 0, "raw_deletes": 3}
    service.ready["shop.lines"] = (LINES, parts, plan)
    claim = service.claim(2, 1, 2)
    (result,) = apply_batch(claim, lake, sessions, service.url).applied
    assert rows(lake, "lines") == {(1, None): 1}
    assert rows_add_up(claim, result).passed


def test_a_key_that_changes_the_sign_of_its_zero_is_one_row(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """The lake has the sign of the source."""
    lake = Lake(tmp_path)
    zeros = Table("zero_keys", pa.schema({"d": pa.float64(), "v": pa.int32()}), key=("d",))
    service.put(zeros, [Change(1, None, (0.0, 1)), Change(1, None, (2.0, 1))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(zeros, [Change(2, (0.0, 1), (-0.0, 2))])
    claim = service.claim(2, 1, 2)
    (result,) = apply_batch(claim, lake, sessions, service.url).applied
    assert all(verdict.passed for verdict in judge(claim, result))
    assert Counter(map(str, rows(lake, "zero_keys").elements())) == {"(-0.0, 2)": 1, "(2.0, 1)": 1}


def test_a_column_is_added_where_the_source_has_it(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A column in the middle, with an odd name; old rows have NULL there."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    wider = replace(ORDERS, fields=pa.schema({"id": pa.int64(), "odd `n,ame": pa.date32(), "what": pa.string()}))
    service.tables["shop.orders"] = wider
    service.put(wider, [Change(2, None, (2, date(2024, 2, 29), "y"))])
    (result,) = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url).applied
    assert result.added_columns == ("odd `n,ame",)
    with sessions.take() as spark:
        found = spark.sql(f"SELECT * FROM delta.`{lake.path('shop', 'orders')}` ORDER BY id")
        assert found.columns == ["id", "odd `n,ame", "what"]
        assert [tuple(row) for row in found.collect()] == [(1, None, "x"), (2, date(2024, 2, 29), "y")]


def test_another_schema_change_stops_that_table_alone(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """The error has the column, the old type and the new one."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    other = replace(ORDERS, fields=pa.schema({"id": pa.int64(), "what": pa.int32()}))
    service.put(other, [])
    service.changes["shop.orders"] = [Change(2, None, (2, 5))]
    service.put(LINES, [Change(2, None, (1, "a"))])
    batch = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url)
    (orders,), (lines,) = batch.refused, batch.applied
    assert (orders.table, lines.table) == ("shop.orders", "shop.lines")
    assert "'what' was string and is int" in orders.error.message
    assert own(lines).inserted == 1


@pytest.mark.parametrize("sent_rows", [0, 10])
def test_every_type_arrives_as_it_is(service: Feed, sessions: Sessions, tmp_path: Path, sent_rows: int) -> None:
    """The types of docs/types.md, at their edges, through Python workers or sent along."""
    lake, (table, full, empty) = Lake(tmp_path), every_type()
    service.put(table, [Change(1, None, full), Change(1, None, empty)])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url, sent_rows=sent_rows)
    assert rows(lake, "types") == {full: 1, empty: 1}


def every_type() -> tuple[Table, tuple[Any, ...], tuple[Any, ...]]:
    """A table of all types, a row with a value of each, and one with NULLs."""
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
    return Table("types", fields, key=("id",)), full, (2, *[None] * (len(fields) - 1))


@pytest.mark.in_turn
@pytest.mark.parametrize("room", [True, False])
def test_many_changes_are_staged_for_their_statement(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: bool
) -> None:
    """As a file that Spark reads, with the same values, and that is gone afterwards; without room Spark pulls them.
    What a run left that died is removed after a day."""
    monkeypatch.setattr(net_file, "LEAST_ROWS", 2)
    files: list[str | None] = []
    create_view = seen.create_view

    def noted(*arguments: Any, **named: Any) -> None:
        files.append(arguments[-1])
        assert arguments[-1] is None or Path(arguments[-1]).stat().st_size
        create_view(*arguments, **named)

    monkeypatch.setattr(seen, "create_view", noted)
    lake, (table, full, empty) = Lake(tmp_path), every_type()
    folder = Path(lake.staging_path("d", "net"))
    if room:
        folder.mkdir(parents=True)
        for name, age in (("old", 90_000), ("new", 80_000)):
            (folder / f"{name}.parquet").touch()
            os.utime(folder / f"{name}.parquet", (time.time() - age,) * 2)
    else:
        folder.parent.mkdir(parents=True)
        folder.touch()
    gone = (3, *empty[1:])
    service.put(table, [Change(1, None, gone), Change(1, None, empty)])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url, engine=Engine.SQL)
    service.put(table, [Change(2, gone, None), Change(2, None, full)])
    apply_batch(service.claim(2, 1, 2), lake, sessions, service.url, engine=Engine.SQL)
    assert rows(lake, "types") == {full: 1, empty: 1}
    assert [file is not None for file in files] == [False, room]
    assert [one.name for one in folder.glob("*")] == (["new.parquet"] if room else [])


def test_comments_key_and_owner_are_recorded(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """The Delta table has them in its properties."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    state = lake.state(lake.path("shop", "orders"), app_id("d", 1, "shop.orders", 1))
    assert state is not None
    assert state.primary_key == ("id",)
    assert [column.comment for column in state.columns] == ["the id", "the what"]
    assert state.properties["sluice.destination"] == "d"
    assert DeltaTable(lake.path("shop", "orders")).metadata().description == "it's ordered"


def test_changes_that_spark_refuses_stop_their_table_alone(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Two rows of one key: Delta refuses the MERGE at every try. The other table goes on."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    apply_batch(service.claim(1, 0, 1), lake, sessions, service.url)
    service.put(ORDERS, [Change(2, (1, "x"), (1, "y"))])
    service.put(LINES, [Change(2, None, (1, "a"))])
    twice = pa.table([[1, 1], ["y", "z"], [1, 1]], schema=ORDERS.fields.append(pa.field("_sluice_op", pa.int8())))
    service.ready["shop.orders"] = (ORDERS, twice, {"rows": 2, "upserts": 2, "raw_updates": 2})
    batch = apply_batch(service.claim(2, 1, 2), lake, sessions, service.url)
    (orders,), (lines,) = batch.refused, batch.applied
    assert (orders.table, lines.table) == ("shop.orders", "shop.lines")
    assert "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in orders.error.message
    assert "`sluice copy d shop.orders`" in orders.error.hint
    assert rows(lake, "orders") == {(1, "x"): 1}


def test_a_foreign_table_is_not_written(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A foreign Delta table, and one of another destination, stay as they are."""
    lake = Lake(tmp_path)
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    path = lake.path("shop", "orders")
    with sessions.take() as spark:
        spark.sql(f"CREATE TABLE delta.`{path}` (id bigint, what string) USING delta").collect()
    (refusal,) = apply_batch(service.claim(1, 0, 1), lake, sessions, service.url).refused
    assert "was not made by Sluice" in str(refusal.error)
    assert not rows(lake, "orders")


def test_an_unwritable_lake_is_named(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A lake below a file cannot be made; the error has its place and a remedy."""
    (tmp_path / "file").write_text("")
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    with pytest.raises(LakeError, match="cannot be written") as caught:
        apply_batch(service.claim(1, 0, 1), Lake(tmp_path / "file" / "lake"), sessions, service.url)
    assert caught.value.place
    assert caught.value.hint


def test_a_lost_claim_has_its_own_error(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """The error of the service comes through."""
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    claim = service.claim(1, 0, 1)
    service.claims.clear()
    with pytest.raises(RangeGone):
        apply_batch(claim, Lake(tmp_path), sessions, service.url)


def test_splits_are_read_in_parallel_and_whole(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows over several splits arrive once each."""
    monkeypatch.setattr(apply_table, "_ROWS_PER_SPLIT", 50_000)
    service.put(LINES, [Change(1, None, (n, "r")) for n in range(120_000)])
    (result,) = apply_batch(service.claim(1, 0, 1), Lake(tmp_path), sessions, service.url).applied
    assert service.asked[-1]["splits"] == 3
    assert own(result).inserted == 120_000


def test_a_server_that_is_away_is_a_lake_error(service: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark at the address the error comes within seconds, with a remedy. No session is left open: it would ask
    again for seconds when the process exits."""
    opened, closed = list[SparkConnectClient](), list[SparkConnectClient]()
    made, close = SparkConnectClient.__init__, SparkConnectClient.close
    monkeypatch.setattr(
        SparkConnectClient, "__init__", lambda one, *given, **named: (opened.append(one), made(one, *given, **named))[1]
    )
    monkeypatch.setattr(SparkConnectClient, "close", lambda one: (closed.append(one), close(one))[1])
    service.put(ORDERS, [Change(1, None, (1, "x"))])
    with pytest.raises(LakeError, match="does not answer"), Sessions("sc://127.0.0.1:9") as pool:
        apply_batch(service.claim(1, 0, 1), Lake(tmp_path), pool, service.url)

    assert opened
    assert set(opened) <= set(closed)
